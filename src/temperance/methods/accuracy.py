"""The accuracy of a model on unlabelled data, by several published ideas.

    matched     the median of three estimates of `prior_matched` (prior and source)
    cot         Lu et al. (2023): mean probability of transport labels (prior)
    atc         Garg et al. (2022): share of rows more confident than the source quantile at the
                source error rate (source)
    doc         Guillory et al. (2021): acc_s - (conf_s - conf_t) (source)
    confidence  mean top probability; right if the model is calibrated on the target

Where a source is given its temperature is applied first, except by "matched", which has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from temperance._core.checks import InputError, check_choice, check_number, check_prior, check_seed
from temperance._core.sample import Sample, probabilities
from temperance._core.stats import Interval
from temperance.data import as_rows
from temperance.data.source import draw_rows, read_source
from temperance.maps import Temperature
from temperance.methods import matching
from temperance.methods.evidence import gather_evidence
from temperance.methods.source import SourceProfile, centre
from temperance.methods.transport import fit_transport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

METHODS = ("matched", "cot", "atc", "doc", "confidence")
Z90 = 1.645


def estimate_accuracy(
    target_logits: object,
    prior: object = None,
    source: object = None,
    *,
    method: str = "matched",
    seed: int | np.random.Generator = 0,
) -> Interval:
    r"""Estimate the accuracy of the model's predictions on unlabelled data.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
        The target's class mix; for "matched" and "cot".
    source : pair (logits, labels)
        For "matched", "atc" and "doc"; "cot" and "confidence" use its temperature where given.
    method : {"matched", "cot", "atc", "doc", "confidence"}
    seed : int or Generator

    Returns
    -------
    Interval
        With the 90 % interval of the *sampling* error alone; what the method itself misses is
        larger. `temperance.calibrate` accounts for both.

    Notes
    -----
    Guarantee: none. No estimate can be right for every shift (Garg et al., 2022, Proposition 1).

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 2 * np.eye(3)[y] + rng.normal(size=(3000, 3))
    >>> estimate = tp.estimate_accuracy(z[:1500], source=(z[1500:], y[1500:]), method="atc")
    >>> bool(abs(estimate.value - (z[:1500].argmax(1) == y[:1500]).mean()) < 0.05)
    True
    """
    check_choice(method, METHODS, "method")
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    z = draw_rows(rows, generator).logits
    pair = None if source is None else read_source(source, rows.n_classes, seed=generator)
    if pair is None and method in {"matched", "atc", "doc"}:
        msg = f"source must be a pair (logits, labels) for method {method!r}. Got None instead."
        raise InputError(msg)
    q = check_prior(prior, rows.n_classes) if method == "matched" else None
    profile = None if pair is None else SourceProfile.of(*pair, q)
    t = 1.0 if profile is None else profile.temperature
    if method == "matched":
        assert profile is not None and q is not None  # noqa: PT018, S101 - demanded above
        value = gather_evidence(Sample(z), q, profile).accuracy
        return _binomial(value, len(z), profile.n)
    if method == "cot":
        solved = fit_transport(np.asarray(z, dtype=np.float64) / t, prior)
        return _within(solved.value, solved.error)
    top = probabilities(z, t).max(axis=1)
    if method == "confidence":
        return _within(float(top.mean()), float(top.std() / np.sqrt(len(top))))
    assert pair is not None  # noqa: S101 - demanded above
    assert profile is not None  # noqa: S101
    own = probabilities(pair[0], t).max(axis=1)
    if method == "atc":
        value = float((top > np.quantile(own, profile.error)).mean())
        return _binomial(value, len(z), profile.n)
    right = pair[0].argmax(axis=1) == pair[1]
    value = float(right.mean() - own.mean() + top.mean())
    error = np.sqrt((right - own).var() / len(own) + top.var() / len(top))
    return _within(value, float(error))


def match_confidence(target_logits: object, accuracy: float, *, seed: int = 0) -> Temperature:
    """Return the temperature at which the mean confidence on the target is a given accuracy.

    With `estimate_accuracy` this makes a calibration of every accuracy estimate.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[3.0, 0.0], [0.0, 3.0]] * 10)
    >>> round(tp.match_confidence(z, 0.75).temperature, 2)  # 3 / log 3
    2.73
    """
    rows = as_rows(target_logits, name="target_logits")
    k = rows.n_classes
    a = check_number(accuracy, "accuracy", low=1 / k, high=1, open_low=True)
    z = draw_rows(rows, check_seed(seed)).logits
    spread = float(centre(z).max(axis=1).mean())
    if spread <= 0:
        msg = "target_logits must differ within rows. All rows are constant instead."
        raise InputError(msg)
    return Temperature(matching.match_confidence(Sample(z), min(a, 1 - 1e-6), spread / 4))


def _within(value: float, error: float) -> Interval:
    value = min(max(value, 0.0), 1.0)
    return Interval(value, max(0.0, value - Z90 * error), min(1.0, value + Z90 * error))


def _binomial(value: float, *sizes: int) -> Interval:
    a = min(max(value, 1e-3), 1 - 1e-3)
    return _within(value, float(np.sqrt(a * (1 - a) * sum(1 / n for n in sizes))))
