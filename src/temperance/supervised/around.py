"""A temperature and a class bias near a map that was known before any label.

    θ̂ = argmin_θ  - Σ_i w_i log softmax(z_i / T + b)_{y_i}  +  (θ - θ₀)' P (θ - θ₀) / 2

with θ = (log T, b): the mode of a posterior whose prior is normal with centre θ₀ and precision P.
No class needs a labelled row, and many rows leave nothing of the prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from temperance._core.arrays import softmax_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

FURTHEST = 6.0  # of log T from its centre
TINY = 1e-300


class Posterior(NamedTuple):
    """A normal approximation of what labels leave open.

    Attributes
    ----------
    centre : array of shape (K + 1,)
        θ of greatest density.
    information : array of shape (m, m)
        Of the labels on the first m parameters, those that P speaks of.
    evidence : float
        Log of the probability of the labels under the prior, by Laplace's approximation.
    """

    centre: Matrix
    information: Matrix
    evidence: float


def fit_around(
    z: Matrix,
    labels: NDArray[np.int64],
    theta: Matrix,
    precision: Matrix,
    weight: Matrix | None = None,
) -> Posterior:
    """Return the posterior of θ; parameters beyond the size of ``precision`` stay as they are.

    A logit of -inf is a class that is impossible in its row.
    """
    from scipy.optimize import minimize

    place, free = np.arange(len(labels)), len(precision)
    filled = np.where(np.isneginf(z), 0.0, z)
    w = np.ones(len(labels)) if weight is None else weight

    def objective(x: Matrix) -> tuple[float, Matrix]:
        t = float(np.exp(x[0]))
        p = softmax_at(z, t, x[1:])
        apart = (x - theta)[:free]
        pull = np.zeros_like(x)
        pull[:free] = precision @ apart
        value = -float(w @ np.log(np.maximum(p[place, labels], TINY)))
        p[place, labels] -= 1
        p *= w[:, None]
        gradient = np.r_[-float(np.sum(p * filled)) / t, p.sum(axis=0)] + pull
        gradient[free:] = 0.0
        return value + 0.5 * float(apart @ pull[:free]), gradient

    bounds = [(theta[0] - FURTHEST, theta[0] + FURTHEST), *[(None, None)] * (len(theta) - 1)]
    solved = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds)
    information = _information(z, filled, solved.x, free, w)
    volume = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(information + precision)[1]
    return Posterior(solved.x, information, 0.5 * float(volume) - float(solved.fun))


def _information(z: Matrix, filled: Matrix, theta: Matrix, free: int, weight: Matrix) -> Matrix:
    """Return the expected curvature of the log likelihood in the first parameters."""
    t = float(np.exp(theta[0]))
    p = softmax_at(z, t, theta[1:])
    by_scale = -filled / t  # derivative of the logits in log T
    cross = p * (by_scale - (p * by_scale).sum(axis=1, keepdims=True)) * weight[:, None]
    found = np.empty((free, free))
    found[0, 0] = float(np.sum(cross * by_scale))
    if free > 1:
        found[0, 1:] = found[1:, 0] = cross.sum(axis=0)
        found[1:, 1:] = np.diag(weight @ p) - (p * weight[:, None]).T @ p
    return found
