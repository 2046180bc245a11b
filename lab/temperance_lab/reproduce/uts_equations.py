"""Equations 5 to 8 of the UTS paper as they are printed, for study; ``fit_uts`` is for use.

With a = exp(f) for logits f, and S(x; T) the softmax of f / T:

    W_k(x, y)  = 1 for y = k, else q(k|x) / (1 - q(k|x))                          (6)
    Ŵ_k(x; w)  = 1 for ŷ = k, else ( S_k / (1 - S_k) )^(1/w)                      (7)
                 with S at temperature 1/w (main text) or at 1 (appendix A)
    J(w)       = ( Σ_k Σ_i Ŵ_k(x_i; w) - q_k )²          literal: one square      (8)
                 Σ_k ( mean_i Ŵ_k(x_i; w) - q_k )²       per class
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

__all__ = ["log_odds", "objective", "true_weights", "weights"]


def log_odds(z: Matrix) -> Matrix:
    """Return log S_k / (1 - S_k) of every class: z_k - log Σ_{j≠k} exp(z_j)."""
    row, top = np.arange(len(z)), z.argmax(axis=1)
    log_p = log_softmax(z, axis=1)
    rest = log_p.copy()
    rest[row, top] = -np.inf  # 1 - S of the predicted class: the sum of the others
    log_p[row, top], beyond = 0.0, logsumexp(rest, axis=1)
    odds = log_p - np.log1p(-np.exp(np.minimum(log_p, np.log(0.5))))
    odds[row, top] = log_softmax(z, axis=1)[row, top] - beyond
    return odds


def weights(z: Matrix, w: float, form: str = "main text") -> Matrix:
    """Return Ŵ_k of equation 7: the weights of the main text, or those of appendix A."""
    power = log_odds(w * z if form == "main text" else z) / w
    power[np.arange(len(z)), z.argmax(axis=1)] = 0.0
    return np.exp(power)


def true_weights(z: Matrix, y: NDArray[np.int64]) -> Matrix:
    """Return W_k of equation 6 where the softmax of ``z`` is q(y|x)."""
    p = softmax(z, axis=1)
    out = p / (1 - p)
    out[np.arange(len(z)), y] = 1.0
    return out


def objective(z: Matrix, q: Matrix, w: float, form: str = "main text", reading: str = "") -> float:
    """Return J of equation 8; ``reading="literal"`` has the one square of the print."""
    found = weights(z, w, form)
    if reading == "literal":
        return float((found - q).sum() ** 2)
    return float(((found.mean(axis=0) - q) ** 2).sum())
