"""The prototype that prior-matched scaling had to beat: steps 1 to 5 of the design, as written.

1.  D = ½ Σ|P_k - q_k|, its noise floor D0 = ½ Σ sqrt(2 q_k (1 - q_k) / (π n))
2.  a = share of target rows whose margin, over its own standard deviation, exceeds the source
    quantile at the source error rate e
3.  â = a (1 - max(0, D - D0))^κ with κ = 0.7 ln(1/e); T solves mean max p(T) = â
4.  b ← b + log q - log mean softmax(z/T + b), shrunk by λ = max(0, 1 - (1.5 D0/D)²)
5.  T again: mean max softmax(z/T + λb) = a' (1 - max(0, D' - D0))^κ (1 - max(0, D - D0))^(0.75 κ)
    with a', D' on z + T λ b; three rounds of 4 and 5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from temperance import BiasedTemperature, Temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

KAPPA = 0.7
AGAIN = 0.75
BOUNDS = (1e-3, 1e3)  # of T


def fit_prototype(
    z: Matrix, q: Matrix, source: tuple[Matrix, NDArray[np.int64]], *, bias: bool
) -> Temperature | BiasedTemperature:
    """Fit the map of the prototype."""
    n, k = z.shape
    error = max(float(np.mean(source[0].argmax(axis=1) != source[1])), 0.5 / len(source[1]))
    kappa = KAPPA * np.log(1 / error)
    floor = 0.5 * float(np.sqrt(2 * q * (1 - q) / (np.pi * n)).sum())
    threshold = np.quantile(margin(source[0]), error)

    def known(u: Matrix) -> float:
        return float((margin(u) > threshold).mean())

    def met(u: Matrix) -> float:
        mix = np.bincount(u.argmax(axis=1), minlength=k) / n
        return 1 - max(0.0, 0.5 * float(np.abs(mix - q).sum()) - floor)

    before = met(z)
    t = match(z, np.zeros(k), known(z) * before**kappa)
    if not bias:
        return Temperature(t)
    distance = 0.5 * float(np.abs(np.bincount(z.argmax(axis=1), minlength=k) / n - q).sum())
    shrink = max(0.0, 1 - (1.5 * floor / max(distance, 1e-12)) ** 2)
    b = np.zeros(k)
    for _ in range(3):
        b = meet(z / t, q)
        moved = z + t * shrink * b
        t = match(z, shrink * b, known(moved) * met(moved) ** kappa * before ** (AGAIN * kappa))
    return BiasedTemperature(t, shrink * b)


def margin(z: Matrix) -> Matrix:
    """Top-1 minus top-2 logit, over its own standard deviation."""
    top = np.partition(z, -2, axis=1)
    gap = top[:, -1] - top[:, -2]
    return gap / max(float(gap.std()), 1e-300)


def match(z: Matrix, b: Matrix, accuracy: float) -> float:
    """Temperature at which mean confidence is the accuracy; a bound where none is."""

    def excess(log_t: float) -> float:
        return float(softmax(z / np.exp(log_t) + b, axis=1).max(axis=1).mean()) - accuracy

    low, high = np.log(BOUNDS)
    if excess(low) < 0 or excess(high) > 0:
        return BOUNDS[0] if excess(low) < 0 else BOUNDS[1]
    return float(np.exp(brentq(excess, low, high, xtol=1e-4)))


def meet(u: Matrix, q: Matrix) -> Matrix:
    """Bias at which the mean probabilities are q."""
    b = np.zeros(len(q))
    for _ in range(300):
        step = np.log(np.maximum(q, 1e-12)) - np.log(softmax(u + b, axis=1).mean(axis=0))
        b = b + step - step.mean()
        if np.abs(step).max() < 1e-6:
            break
    return b
