"""Calibration by importance weights: source rows count as much as they look like target rows.

A classifier that tells source from target gives w(x) = (n_s / n_t) p(target | x) / p(source | x),
the ratio of the two densities. Valid under covariate shift, where p(y | x) stays, and where the
source covers the target.

    CPCS      Park, Bastani, Weimer and Lee (2020): T minimises Σ_i w_i Σ_k (p_ik(T) - 1{y_i = k})²
    TransCal  Wang, Long, Wang and Jordan (2020): mean target confidence at T equals the weighted
              accuracy of the source rows, a = 1{ŷ = y}, with two control variates in series,
              u = w a - η₁ (w - 1), mean(u) - η₂ (mean(a) - mean source confidence), where
              η₁ = Cov(w a, w) / Var(w) and η₂ = Cov(u, a) / Var(a); T is at least 1

The paper's exponent on w is 1 here: next to a free T its value is not determined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core.arrays import as_array, as_floating, to_numpy
from temperance._core.checks import InputError, NotIdentified, check_finite, check_seed
from temperance._core.optimise import search_in_scale
from temperance._core.sample import Sample, confidence, probabilities
from temperance.data import as_rows
from temperance.data.source import as_source_rows, sample_size
from temperance.maps import Temperature
from temperance.methods.matching import match_confidence
from temperance.methods.prior_matched import CHANCE
from temperance.methods.source import source_length
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

LARGEST = 100.0  # a weight beyond this is the classifier's certainty, not a ratio of densities
REACH = 100.0  # of the search for T, to both sides of the scale of the logits


def fit_cpcs(
    target_logits: object,
    source: object,
    *,
    features: object = None,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature by the importance-weighted Brier score of the source (CPCS).

    .. math:: T^* = \arg\min_T \sum_i w(x_i) \sum_k (p_{ik}(T) - 1\{y_i = k\})^2

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    source : pair (logits, labels)
    features : pair (target features, source features), optional
        What the domain classifier sees; by default the logits themselves.
    seed : int or Generator

    Notes
    -----
    Guarantee: consistent under covariate shift with right weights; on images they seldom are.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 4 * (np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> bool(tp.fit_cpcs(z[:1500], (z[1500:], y[1500:])).temperature > 2)
    True
    """
    _, s, y, w = _weighted(target_logits, source, features, check_seed(seed))
    unit = source_length(s) / np.sqrt(s.shape[1])
    rows = np.arange(len(y))

    def loss(temperatures: Matrix) -> Matrix:
        out = np.empty(len(temperatures))
        for j, t in enumerate(temperatures):
            p = probabilities(s, float(t))
            out[j] = w @ (np.einsum("ij,ij->i", p, p) - 2 * p[rows, y] + 1)
        return out

    return Temperature(search_in_scale(loss, unit / REACH, unit * REACH).x)


def fit_transcal(
    target_logits: object,
    source: object,
    *,
    features: object = None,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature to an importance-weighted accuracy with a control variate (TransCal).

    .. math:: \frac1n \sum_j \max_k p_{jk}(T) = \overline{w a} - \eta_1 (\overline{w} - 1)
              - \eta_2 (\overline{a} - \overline{c})

    with the accuracy a and the calibrated confidence c of the source rows.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    source : pair (logits, labels)
    features : pair (target features, source features), optional
    seed : int or Generator

    Notes
    -----
    Guarantee: as of `fit_cpcs`, with less variance; it never sharpens (T >= 1).

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 4 * (np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> bool(tp.fit_transcal(z[:1500], (z[1500:], y[1500:])).temperature > 2)
    True
    """
    z, s, y, w = _weighted(target_logits, source, features, check_seed(seed))
    right = (s.argmax(axis=1) == y).astype(np.float64)
    steady = w * right - _slope(w * right, w) * (w - 1)
    excess = float(right.mean()) - _source_confidence(s, y)
    accuracy = float(steady.mean()) - _slope(steady, right) * excess
    accuracy = float(np.clip(accuracy, CHANCE / s.shape[1], 1 - 1e-4))
    return Temperature(max(1.0, match_confidence(Sample(z), accuracy, 1.0)))


def _slope(values: Matrix, control: Matrix) -> float:
    """Return Cov(values, control) / Var(control), 0 where the control is constant."""
    covariance = np.cov(values, control)
    return float(covariance[0, 1] / covariance[1, 1]) if covariance[1, 1] > 0 else 0.0


def _source_confidence(s: NDArray[Any], y: NDArray[np.int64]) -> float:
    """Return the mean confidence of the source at its temperature; its accuracy without one."""
    try:
        return confidence(s, fit_temperature(s, y).temperature)
    except NotIdentified:
        return float((s.argmax(axis=1) == y).mean())


def _weighted(
    target_logits: object, source: object, features: object, generator: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], Matrix]:
    """Target logits, source logits, source labels and their weights."""
    rows = as_rows(target_logits, name="target_logits")
    labelled = as_source_rows(source, rows.n_classes)
    i = rows.draw(sample_size(rows), generator)
    j = labelled.draw(sample_size(labelled), generator)
    z, block = rows.take(i).logits, labelled.take(j)
    assert block.labels is not None  # noqa: S101 - as_source_rows has seen to it
    if features is None:
        seen = (z, block.logits)
    else:
        seen = _features(features, rows.n, labelled.n)
        seen = (seen[0][i], seen[1][j])
    return z, block.logits, block.labels, domain_weights(*seen)


def _features(features: object, n_target: int, n_source: int) -> tuple[Matrix, Matrix]:
    pair = cast("tuple[object, ...]", features) if isinstance(features, (tuple, list)) else ()
    target, source = (_table(f) for f in pair) if len(pair) == 2 else (np.empty(0), np.empty(0))
    rows = (target.shape[:1], source.shape[:1])
    if (
        rows != ((n_target,), (n_source,))
        or target.shape[1:] != source.shape[1:]
        or not source.size
    ):
        msg = (
            f"features must be a pair of arrays with {n_target} target rows and {n_source} source "
            f"rows of one shape. Got shapes {target.shape} and {source.shape}."
        )
        raise InputError(msg)
    target, source = target.reshape(n_target, -1), source.reshape(n_source, -1)
    check_finite(target, "target features")
    check_finite(source, "source features")
    return target, source


def _table(features: object) -> Matrix:
    """Return features as float64, or no rows at all where they are not numbers."""
    array = as_array(features)
    x = None if array is None else as_floating(array)
    return np.empty(0) if x is None else to_numpy(x).astype(np.float64)


def domain_weights(target: NDArray[Any], source: NDArray[Any]) -> Matrix:
    """Return the weight of each source row: how much likelier it is in the target."""
    from sklearn.linear_model import LogisticRegression  # pyright: ignore[reportMissingTypeStubs]

    both = np.concatenate([target, source]).astype(np.float64)
    scale = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    domain = np.r_[np.ones(len(target)), np.zeros(len(source))]
    model: Any = LogisticRegression(max_iter=1000)
    model.fit(both, domain)
    logit: Matrix = model.decision_function(both[len(target) :]) + np.log(len(source) / len(target))
    return np.exp(np.minimum(logit, np.log(LARGEST)))
