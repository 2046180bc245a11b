"""CPCS: calibrated prediction under covariate shift.

Park, Bastani, Weimer and Lee, "Calibrated prediction with covariate shift via unsupervised domain
adaptation", AISTATS 2020. Source rows weighted by w(x) = p_t(x) / p_s(x) follow the target, so that

    T = argmin_T Σ_i w(x_i) Σ_k (p_ik(T) - 1{y_i = k})²

minimises the Brier score of the target.
"""

from __future__ import annotations

import numpy as np

from temperance._core.arrays import Floats, softmax_at
from temperance.data.types import FeaturesLike, LogitsLike, SourceLike
from temperance.maps import Temperature
from temperance.methods.confidence import search_temperature
from temperance.methods.importance_weights import read_weighted


def fit_cpcs(
    target_logits: LogitsLike,
    source: SourceLike,
    *,
    features: FeaturesLike | None = None,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature by the importance-weighted Brier score of the source (CPCS).

    .. math:: T^* = \arg\min_T \sum_i w(x_i) \sum_k (p_{ik}(T) - 1\{y_i = k\})^2

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    source : pair (logits, labels)
    features : pair (target features, source features), optional
        Input of the classifier that tells target from source; the logits by default.
    seed : int or Generator
        Of the draw of rows, used where a set has more rows than a label-free method reads.

    Notes
    -----
    Guarantee: consistent under covariate shift with right weights; on images the weights are seldom
    right.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 4 * (np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> bool(tp.fit_cpcs(z[:1500], (z[1500:], y[1500:])).temperature > 2)
    True
    """
    _, (z, y), weight = read_weighted(target_logits, source, features, seed)
    rows = np.arange(len(y))

    def weighted_brier(temperatures: Floats) -> Floats:
        scores = np.empty(len(temperatures))
        for j, t in enumerate(temperatures):
            p = softmax_at(z, float(t))
            scores[j] = weight @ (np.einsum("ij,ij->i", p, p) - 2 * p[rows, y] + 1)
        return scores

    return search_temperature(weighted_brier, z, "source logits")
