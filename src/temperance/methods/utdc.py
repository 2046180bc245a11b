"""UTDC: calibration by an estimated accuracy of the target.

Penso and Goldberger, "Calibration of network confidence for unsupervised domain adaptation using
estimated accuracy", arXiv:2409.04241, 2024. Source and target rows are sorted by confidence into M
bins of equal size. A target bin is supposed to lose accuracy in the proportion in which the target
loses accuracy as a whole,

    a_m = A_m · (â_t / A),

with A_m and A the accuracies of the source bin and of the source, and â_t the accuracy of the
target, estimated by any method. T minimises the adaptive calibration error to those accuracies,

    T = argmin_T Σ_m | a_m - mean confidence of target bin m at T |.

Beside `match_confidence`, which demands only that the mean over all bins is right, UTDC asks for
each bin; the two agree where one temperature can serve all bins.
"""

from __future__ import annotations

import numpy as np

from temperance._core.arrays import Floats, softmax_at
from temperance._core.checks import NotIdentified, check_number
from temperance.data.given import read_both
from temperance.data.types import LogitsLike, SourceLike
from temperance.maps import Temperature
from temperance.methods.atc import estimate_atc
from temperance.methods.confidence import search_temperature
from temperance.metrics.binned import N_BINS


def fit_utdc(
    target_logits: LogitsLike,
    source: SourceLike,
    accuracy: float | None = None,
    *,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature to the estimated accuracy of each bin of the target (UTDC).

    .. math:: T^* = \arg\min_T \sum_m \left| A_m \frac{\hat a_t}{A} -
              \frac1{n_m} \sum_{i \in m} \max_k p_{ik}(T) \right|

    ``accuracy`` is that of the model on the target: by default that of ATC, as in the paper;
    `estimate_accuracy` has others. The other arguments are those of `fit_cpcs`.

    Notes
    -----
    Guarantee: none. The error is that of the estimated accuracy, plus that of the supposition that
    all bins lose accuracy in one proportion.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 4 * (np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> bool(tp.fit_utdc(z[:1500], (z[1500:], y[1500:])).temperature > 2)
    True
    """
    z, sample = read_both(target_logits, source, seed)
    s, y = sample
    if accuracy is None:
        estimate = estimate_atc(z, sample, 1.0).value
    else:
        estimate = check_number(accuracy, "accuracy", low=0, high=1, open_low=True)
    correct = (s.argmax(axis=1) == y).astype(np.float64)
    if not correct.any():
        msg = "source accuracy is 0, so no accuracy of a target bin is in proportion to it."
        raise NotIdentified(msg)
    n_bins = min(N_BINS, len(y), len(z))
    confidence = softmax_at(s, 1.0).max(axis=1)
    of_source = _bin_means(correct[np.argsort(confidence, kind="stable")], n_bins)
    wanted = np.minimum(of_source * (estimate / correct.mean()), 1.0)

    def adaptive_error(temperatures: Floats) -> Floats:
        errors = np.empty(len(temperatures))
        for j, t in enumerate(temperatures):
            found = _bin_means(np.sort(softmax_at(z, float(t)).max(axis=1)), n_bins)
            errors[j] = np.abs(wanted - found).mean()
        return errors

    return search_temperature(adaptive_error, z, points=21, rounds=3)


def _bin_means(values: Floats, n_bins: int) -> Floats:
    """Return the means of consecutive bins, of equal size but for one row."""
    return np.array([part.mean() for part in np.array_split(values, n_bins)])
