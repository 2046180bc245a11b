"""TransCal: transferable calibration.

Wang, Long, Wang and Jordan, "Transferable calibration with lower bias and variance in domain
adaptation", NeurIPS 2020. The accuracy of the target is the accuracy a = 1{ŷ = y} of source rows
weighted by w(x) = p_t(x) / p_s(x). Two control variates in series lower the variance of that mean:

    u = w a - η₁ (w - 1),                                η₁ = Cov(w a, w) / Var(w)
    accuracy = mean(u) - η₂ (mean(a) - mean(c)),         η₂ = Cov(u, a) / Var(a)

where c is the confidence of the source rows at the temperature of the source. T ≥ 1 is where the
mean confidence of the target equals that accuracy.

Departure from the paper: its exponent on w is 1 here, because next to a free T the exponent is not
determined.
"""

from __future__ import annotations

import numpy as np

from temperance._core.arrays import Floats
from temperance._core.checks import NotIdentified
from temperance.data.types import FeaturesLike, LogitsLike, SourceLike
from temperance.maps import Temperature
from temperance.methods.confidence import MIN_OVER_CHANCE, mean_confidence, solve_confidence
from temperance.methods.importance_weights import read_weighted
from temperance.supervised.temperature import fit_temperature

MAX_TARGET_ACCURACY = 1 - 1e-4  # at an accuracy of 1, T would be 0


def fit_transcal(
    target_logits: LogitsLike,
    source: SourceLike,
    *,
    features: FeaturesLike | None = None,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature to an importance-weighted accuracy with control variates (TransCal).

    .. math:: \frac1n \sum_j \max_k p_{jk}(T) = \overline{w a} - \eta_1 (\overline{w} - 1)
              - \eta_2 (\overline{a} - \overline{c})

    with the accuracy a and the calibrated confidence c of the source rows.

    The arguments are those of `fit_cpcs`.

    Notes
    -----
    Guarantee: as of `fit_cpcs`, with less variance; TransCal never sharpens (T >= 1).

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 4 * (np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> bool(tp.fit_transcal(z[:1500], (z[1500:], y[1500:])).temperature > 2)
    True
    """
    target, (z, y), w = read_weighted(target_logits, source, features, seed)
    correct = (z.argmax(axis=1) == y).astype(np.float64)
    try:
        confidence = mean_confidence(z, fit_temperature(z, y).temperature)
    except NotIdentified:  # no temperature: the source counts as calibrated
        confidence = float(correct.mean())
    controlled = w * correct - _slope(w * correct, w) * (w - 1)
    excess = float(correct.mean()) - confidence
    accuracy = float(controlled.mean()) - _slope(controlled, correct) * excess
    accuracy = float(np.clip(accuracy, MIN_OVER_CHANCE / z.shape[1], MAX_TARGET_ACCURACY))
    return Temperature(max(1.0, solve_confidence(target, accuracy)))


def _slope(values: Floats, control: Floats) -> float:
    """Return Cov(values, control) / Var(control), 0 where the control is constant."""
    covariance = np.cov(values, control)
    return float(covariance[0, 1] / covariance[1, 1]) if covariance[1, 1] > 0 else 0.0
