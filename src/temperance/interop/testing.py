"""A public suite of checks for estimators that calibrate logits.

`check_calibrator` says whether an estimator keeps the promises of this library: what it answers
does not depend on how the question is written down (the order of rows and classes, the scale and
layout of the logits, weights or repetition), it never makes its own likelihood worse, and bad input
is refused with a sentence. Every estimator of the library passes; so should yours.
"""

# scikit-learn has no type information: what comes from it is unknown to a strict checker.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal as same
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn import base
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from temperance._core.checks import InputError, NotIdentified
from temperance.maps import BiasedTemperature, Temperature
from temperance.metrics import nll

N_ROWS = 400
N_CLASSES = 4
SEPARATION = 1.6  # of the class means, in units of the noise: about two rows in three are right
SHARPNESS = 2.5  # the logits are too large by this factor
clone: Any = base.clone
ANSWERS = ("transform", "predict_proba", "predict")


def check_calibrator(
    estimator: object, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Run every check on clones of an estimator; raise AssertionError at the first that fails.

    Parameters
    ----------
    estimator : estimator with ``fit``, ``transform``, ``predict_proba`` and ``predict``
        Its ``prior``, where it has one, gives the number of classes of the test problems; its
        ``source``, where it has one, is permuted and scaled with them.
    expected_failed_checks : dict from the name of a check to the reason, optional
        Checks that cannot hold for this method. Such a check must fail: one that passes is an error
        too, because the reason has gone.

    Examples
    --------
    >>> import temperance as tp
    >>> from temperance.interop.testing import check_calibrator
    >>> check_calibrator(tp.TemperatureScaling())
    """
    expected = dict(expected_failed_checks or {})
    for name, check in calibrator_checks():
        if name not in expected:
            check(estimator)
            continue
        with suppress(AssertionError, NotIdentified):
            check(estimator)
            raise ValueError(f"{name} was expected to fail ({expected[name]}), and passes.")


def calibrator_checks() -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield the name and the function of each check, for a test framework to run one by one."""
    for name, value in globals().items():
        if name.startswith("check_") and name != "check_calibrator":
            yield name, value


# -------------------------------------------------------------------------- what it is made of


def check_fit_sets_what_it_promises(estimator: Any) -> None:
    """Demand ``map_``, ``classes_`` and ``n_features_in_``, with parameters and data untouched."""
    z, y = _problem(estimator)
    fitted, before = clone(estimator), (z.copy(), y.copy())
    params = copy.deepcopy(fitted.get_params())
    _require(fitted.fit(z, y) is fitted, "fit must return self")
    _require(fitted.n_features_in_ == z.shape[1], "n_features_in_ must be the number of columns")
    same(fitted.classes_, np.arange(z.shape[1]), "classes_ without names must be the columns")
    _require(repr(fitted.get_params()) == repr(params), "fit must not change a parameter")
    same(np.vstack([z.T, y]), np.vstack([before[0].T, before[1]]), "fit must not change data")
    _require(hasattr(fitted, "temperature_") == hasattr(fitted.map_, "temperature"), "temperature_")


def check_fit_again_changes_nothing(estimator: Any) -> None:
    """Demand the same map from a second fit, from a clone and from a deep copy."""
    problem = _problem(estimator)
    fitted = clone(estimator).fit(*problem)
    first = fitted.map_
    for other in (fitted.fit(*problem), clone(fitted).fit(*problem), copy.deepcopy(fitted)):
        _require(other.map_ == first, f"the map must be {first}, not {other.map_}")


def check_unfitted_raises(estimator: Any) -> None:
    """Demand NotFittedError before fit."""
    z, _ = _problem(estimator)
    for method in ANSWERS:
        call = getattr(clone(estimator), method)
        _raises(lambda c=call: c(z), f"{method} before fit", NotFittedError)


def check_outputs_agree(estimator: Any) -> None:
    """Demand that transform, predict_proba, predict and map_ agree."""
    z, _, fitted = _fitted(estimator)
    p = fitted.predict_proba(z)
    _near(p.sum(axis=1), 1.0, "probabilities must sum to 1")
    _near(p, softmax(fitted.transform(z), axis=1), "predict_proba must be the softmax of transform")
    same(fitted.transform(z), fitted.map_(z), "transform must apply map_")
    same(fitted.predict(z), fitted.classes_[p.argmax(axis=1)], "predict must take the largest")


def check_rows_do_not_meet(estimator: Any) -> None:
    """Demand that the answer for a row does not depend on the other rows of its batch."""
    z, _, fitted = _fitted(estimator)
    for answer in (fitted.transform, fitted.predict_proba):
        alone = np.vstack([answer(row[None]) for row in z[:20]])
        _near(alone, answer(z)[:20], "a row must get the same answer alone")
        _near(answer(z[::-1])[::-1], answer(z), "row order must not matter")


def check_names(estimator: Any) -> None:
    """Demand that ``classes`` names the columns: names in, names out, the same map."""
    z, y = _problem(estimator)
    names = np.array([f"class {chr(122 - i)}" for i in range(z.shape[1])])  # not in sorted order
    plain = clone(estimator).fit(z, y)
    named = clone(estimator).set_params(classes=list(names)).fit(z, names[y])
    _require(named.map_ == plain.map_, "names must not change the map")
    same(named.classes_, names, "classes_ must be the names in the order of the columns")
    same(named.predict(z), names[plain.predict(z)], "predict must return names")


def check_columns_are_classes(estimator: Any) -> None:
    """Demand K columns whatever labels are seen, or NotIdentified."""
    z, y = _problem(estimator)
    few = y != z.shape[1] - 1
    with suppress(NotIdentified):
        fitted = clone(estimator).fit(z[few], y[few])
        _require(fitted.predict_proba(z).shape == z.shape, "a class without rows keeps its column")


# ------------------------------------------------------------------------------- invariance


def check_row_constant(estimator: Any) -> None:
    """Demand that a constant added to a row changes nothing, for maps that cannot see it."""
    z, y, fitted = _fitted(estimator)
    if isinstance(fitted.map_, (Temperature, BiasedTemperature)):
        moved = z + np.linspace(-50, 50, len(z))[:, None]
        _near(clone(estimator).fit(moved, y).predict_proba(moved), fitted.predict_proba(z), "")


def check_permuted_classes(estimator: Any) -> None:
    """Demand that permuting the classes permutes the answer."""
    z, y = _problem(estimator)
    order = np.roll(np.arange(z.shape[1])[::-1], 1)
    other, source = clone(estimator), estimator.get_params().get("source")
    if _prior(estimator) is not None:
        other.set_params(prior=np.asarray(_prior(estimator))[order])
    if source is not None:
        other.set_params(source=(source[0][:, order], np.argsort(order)[source[1]]))
    p = clone(estimator).fit(z, y).predict_proba(z)
    permuted = other.fit(z[:, order], np.argsort(order)[y]).predict_proba(z[:, order])
    _near(permuted, p[:, order], "permuting classes must permute the probabilities")


def check_row_order(estimator: Any) -> None:
    """Demand that the order of the rows of a fit is irrelevant."""
    z, y, fitted = _fitted(estimator)
    order = np.random.default_rng(1).permutation(len(z))
    shuffled = clone(estimator).fit(z[order], y[order])
    _near(shuffled.predict_proba(z), fitted.predict_proba(z), "the order of rows must not matter")


def check_weight_is_repetition(estimator: Any) -> None:
    """Demand that a weight of 2 is a row given twice, and one of 0 a row left out."""
    if not has_fit_parameter(estimator, "sample_weight"):
        return
    z, y = _problem(estimator)
    weight = np.arange(len(z)) % 3
    weighted = clone(estimator).fit(z, y, sample_weight=weight).predict_proba(z)
    repeated = clone(estimator).fit(np.repeat(z, weight, axis=0), np.repeat(y, weight))
    _near(weighted, repeated.predict_proba(z), "a weight must equal repetition")
    listed = clone(estimator).fit(z, y, sample_weight=weight.tolist()).predict_proba(z)
    _near(listed, weighted, "weights in a list must give the same answer")
    same(weight, np.arange(len(z)) % 3, "fit must not change the weights")
    tripled = clone(estimator).fit(z, y, sample_weight=weight * 3.0).predict_proba(z)
    _near(tripled, weighted, "only relative weights must matter")


def check_scale(estimator: Any) -> None:
    """Demand that logits times c get the same probabilities, and c times the temperature."""
    z, y, fitted = _fitted(estimator)
    for c in (1e-6, 2.0**20):
        other, source = clone(estimator), estimator.get_params().get("source")
        if source is not None:
            other.set_params(source=(source[0] * c, source[1]))
        other.fit(z * c, y)
        _near(other.predict_proba(z * c), fitted.predict_proba(z), f"logits times {c:g}")
        if hasattr(fitted, "temperature_"):
            ratio = other.temperature_ / fitted.temperature_
            _near(ratio / c, 1.0, f"the temperature must be multiplied by {c:g}")


def check_ranking(estimator: Any) -> None:
    """Demand that a temperature keeps every prediction."""
    z, _, fitted = _fitted(estimator)
    if isinstance(fitted.map_, Temperature):
        for dtype in (np.float16, np.float32, np.float64):
            cast = z.astype(dtype)
            same(fitted.predict(cast), cast.argmax(axis=1), "a temperature must keep the argmax")


def check_likelihood(estimator: Any) -> None:
    """Demand that the NLL of the rows of the fit is no worse than without a map."""
    if not get_tags(estimator).target_tags.required:
        return  # a method without labels cannot promise it
    z, y = _problem(estimator)
    after, before = nll(clone(estimator).fit(z, y).transform(z), y), nll(z, y)
    _require(after <= before + 1e-12, f"the NLL of the fitted rows rose from {before} to {after}")


def check_labels_unused(estimator: Any) -> None:
    """Demand that an estimator that needs no labels does not look at them."""
    if get_tags(estimator).target_tags.required:
        return
    z, y = _problem(estimator)
    blind, seeing = clone(estimator).fit(z), clone(estimator).fit(z, y)
    _require(blind.map_ == seeing.map_, "labels must not change a fit that needs none")


# ----------------------------------------------------------------------------------- inputs


def check_dtypes_kept(estimator: Any) -> None:
    """Demand that float16, float32 and float64 come back as they went in, with close answers."""
    z, y = _problem(estimator)
    exact = clone(estimator).fit(z.astype(np.float16).astype(np.float64), y)
    p = exact.predict_proba(z.astype(np.float16).astype(np.float64))
    for dtype in (np.float16, np.float32, np.float64):
        cast = z.astype(np.float16).astype(dtype)
        fitted = clone(estimator).fit(cast, y)
        for out in (fitted.transform(cast), fitted.predict_proba(cast)):
            _require(out.dtype == dtype, f"{np.dtype(dtype)} must come back, not {out.dtype}")
        coarse = float(np.finfo(dtype).eps) * 20
        _near(fitted.predict_proba(cast), p, f"{np.dtype(dtype)} must give the same", coarse)


def check_layouts(estimator: Any) -> None:
    """Demand the same answer for every way of storing the same numbers."""
    z, y = _problem(estimator)
    p = clone(estimator).fit(z, y).predict_proba(z)
    frozen = z.copy()
    frozen.flags.writeable = False
    layouts = {
        "lists": (z.tolist(), y.tolist()),
        "column-major": (np.asfortranarray(z), y),
        "read-only": (frozen, y.astype(np.uint8)),
        "big-endian": (z.astype(">f8"), y.astype(">i4")),
        "not contiguous": (np.repeat(z, 2, axis=1)[:, ::2], np.repeat(y, 2)[::2]),
        "objects": (z.astype(object), y.astype(object)),
        "a column of labels": (z, y[:, None]),
    }
    for name, (logits, labels) in layouts.items():
        fitted = clone(estimator).fit(logits, labels)
        _near(fitted.predict_proba(logits), p, f"{name} must give the same answer")


def check_bad_logits_raise(estimator: Any) -> None:
    """Demand InputError for logits that break the contract, in fit and afterwards."""
    z, y, fitted = _fitted(estimator)
    for name, bad in _bad_logits(z).items():
        _raises(lambda b=bad: clone(estimator).fit(b, y), f"fit with {name}")
        for method in ANSWERS:
            _raises(lambda b=bad, m=method: getattr(fitted, m)(b), f"{method} with {name}")
    _raises(lambda: fitted.transform(np.hstack([z, z])), "transform with more columns than fit")


def check_bad_labels_raise(estimator: Any) -> None:
    """Demand InputError for labels and weights that break the contract."""
    if not get_tags(estimator).target_tags.required:
        return
    z, y = _problem(estimator)
    k = z.shape[1]
    bad_labels = {
        "no labels": None,
        "a label of -1": np.where(np.arange(len(y)) == 3, -1, y),
        "a label of K": np.where(np.arange(len(y)) == 3, k, y),
        "floats": y + 0.5,
        "names without classes": np.array(list("abcdefghij"))[y % 10],
        "too few labels": y[:-1],
        "soft labels that do not sum to 1": np.ones((len(y), k)),
    }
    for name, bad in bad_labels.items():
        _raises(lambda b=bad: clone(estimator).fit(z, b), f"fit with {name}")
    weight = np.ones(len(y))
    for name, bad in {"NaN": weight * np.nan, "negative": -weight, "zero": weight * 0}.items():
        _raises(lambda b=bad: clone(estimator).fit(z, y, sample_weight=b), f"{name} weights")


def check_not_identified_raises(estimator: Any) -> None:
    """Demand NotIdentified where no temperature changes anything: constant rows."""
    z, y = _problem(estimator)
    _raises(lambda: clone(estimator).fit(0 * z, y), "fit with constant logits", NotIdentified)


# ----------------------------------------------------------------------------------- the tools


def _problem(estimator: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return logits and labels with posterior softmax(z / SHARPNESS), for the estimator's prior."""
    given = _prior(estimator)
    q = np.full(N_CLASSES, 1 / N_CLASSES) if given is None else np.asarray(given, dtype=np.float64)
    rng = np.random.default_rng(20)
    labels = rng.choice(len(q), size=N_ROWS, p=q)
    features = SEPARATION * np.eye(len(q))[labels] + rng.normal(size=(N_ROWS, len(q)))
    return SHARPNESS * (SEPARATION * features + np.log(q)), labels


def _fitted(estimator: Any) -> tuple[NDArray[Any], NDArray[Any], Any]:
    z, y = _problem(estimator)
    return z, y, clone(estimator).fit(z, y)


def _prior(estimator: Any) -> Any:
    return estimator.get_params().get("prior")


def _bad_logits(z: NDArray[Any]) -> dict[str, object]:
    def spoilt(value: float) -> NDArray[Any]:
        bad = z.copy()
        bad[7, 1] = value
        return bad

    return {
        "one-dimensional scores": z[:, 0],
        "one column": z[:, :1],
        "images": z.reshape(len(z), -1, 1, 1),
        "no rows": z[:0],
        "NaN": spoilt(np.nan),
        "inf": spoilt(np.inf),
        "probabilities": softmax(z, axis=1),
        "words": np.full(z.shape, "a"),
        "complex numbers": z + 0j,
        "nothing": None,
    }


def _require(good: object, message: str) -> None:
    if not good:
        raise AssertionError(message)


def _near(got: Any, wanted: Any, message: str, tolerance: float = 1e-6) -> None:
    gap = float(np.max(np.abs(np.asarray(got, dtype=np.float64) - wanted)))
    _require(gap <= tolerance, f"{message}: differs by {gap:g}, more than {tolerance:g}")


def _raises(call: Callable[[], object], what: str, wanted: type[Exception] = InputError) -> None:
    try:
        call()
    except wanted:
        return
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise AssertionError(f"{what} must raise {wanted.__name__}, not {got}") from error
    _require(False, f"{what} must raise {wanted.__name__}")
