"""A temperature and a class bias near a map that was known before any label.

    θ̂ = argmin_θ  Σ_i w_i ℓ(softmax(z_i / T + b), y_i)  +  (θ - θ₀)' P (θ - θ₀) / 2
                   - m Σ_k q_k log(mean_j softmax(u_j / T + b)_k)

with θ = (log T, b): the mode of a posterior whose prior is normal with centre θ₀ and precision P.
No class needs a labelled row, and many rows leave nothing of the prior.

The loss is the density power divergence of Basu, Harris, Hjort and Jones (Biometrika 1998),

    ℓ(p, y) = Σ_k p_k^(1 + β) / (1 + β) - p_y^β / β + (1 - β / (1 + β)) / β,

that is -log p_y for β = 0 and half the Brier score for β = 1. It has the same optimum as -log p_y
where some map is right; with β > 0 a label that a map calls impossible has a bounded influence.

The last term, where a class mix q of unlabelled rows u is known, counts as m rows whose classes are
known, but not which rows they are.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from temperance._core.arrays import Floats, softmax_at

FURTHEST = 6.0  # of log T from its centre
TINY_PROBABILITY = 1e-300


class KnownMix(NamedTuple):
    """Class shares of unlabelled rows z, -inf where masked, as good as a count of ``rows`` rows."""

    z: Floats
    shares: Floats
    rows: float


class Posterior(NamedTuple):
    """A normal approximation of what labels leave open, on the parameters that P speaks of."""

    centre: Floats
    """θ of greatest density, of shape (K + 1,)."""
    precision: Floats
    """Precision of the prior, the class mix included."""
    information: Floats
    """Information of the labels."""
    evidence: float
    """Log of the probability of the labels under the prior, by Laplace's approximation."""


def fit_around(
    z: Floats,
    labels: NDArray[np.int64],
    theta: Floats,
    precision: Floats,
    weight: Floats | None = None,
    *,
    robustness: float = 0.0,
    mix: KnownMix | None = None,
) -> Posterior:
    """Return the posterior of θ, β = ``robustness``; parameters beyond ``precision`` stay."""
    free = len(precision)
    filled = np.where(np.isneginf(z), 0.0, z)
    w = np.ones(len(labels)) if weight is None else weight
    known = None if mix is None else _MixLikelihood(mix)
    before = precision if known is None else precision + known.information(theta)[:free, :free]
    # Steps in units of the prior's errors, so that a sharply known direction hinders no other.
    step = np.linalg.cholesky(np.linalg.inv(before))

    def at(u: Floats) -> Floats:
        x = theta.copy()
        x[:free] += step @ u
        x[0] = np.clip(x[0], theta[0] - FURTHEST, theta[0] + FURTHEST)
        return x

    def objective(u: Floats) -> tuple[float, Floats]:
        x = at(u)
        t = float(np.exp(x[0]))
        p = softmax_at(z, t, x[1:])
        loss, slopes = _loss(p, labels, robustness)
        value, slopes = float(w @ loss), slopes * w[:, None]
        gradient = np.r_[-float(np.sum(slopes * filled)) / t, slopes.sum(axis=0)]
        if known is not None:
            more, slope = known.loss(x)
            value, gradient = value + more, gradient + slope
        apart = (x - theta)[:free]
        pull = precision @ apart
        value += 0.5 * float(apart @ pull)
        return value, cast("Floats", step.T @ (gradient[:free] + pull))

    solved = minimize(objective, np.zeros(free), jac=True, method="L-BFGS-B")
    found = at(solved.x)
    information = _information(z, filled, found, free, w, robustness)
    volume = np.linalg.slogdet(before)[1] - np.linalg.slogdet(information + before)[1]
    gone = 0.0 if known is None else known.loss(theta)[0]
    evidence = 0.5 * float(volume) - float(solved.fun) + gone
    if known is not None:
        before = precision + known.information(found)[:free, :free]
    return Posterior(found, before, information, evidence)


class _MixLikelihood:
    """Likelihood of θ given the class mix of unlabelled rows."""

    def __init__(self, mix: KnownMix) -> None:
        self.mix = mix
        self.filled = np.where(np.isneginf(mix.z), 0.0, mix.z)

    def _means(self, theta: Floats) -> tuple[float, Floats, Floats]:
        t = float(np.exp(theta[0]))
        p = softmax_at(self.mix.z, t, theta[1:])
        return t, p, np.maximum(p.mean(axis=0), TINY_PROBABILITY)

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Return minus the log likelihood of the mix, and its gradient."""
        t, p, mean = self._means(theta)
        ratio = self.mix.shares / mean
        pull = p * (ratio - (p @ ratio)[:, None])
        scale = self.mix.rows / len(p)
        gradient = np.r_[float(np.sum(pull * self.filled)) / t, -pull.sum(axis=0)] * scale
        return -self.mix.rows * float(self.mix.shares @ np.log(mean)), gradient

    def information(self, theta: Floats) -> Floats:
        """Return the information of the mix on θ."""
        t, p, mean = self._means(theta)
        by_scale = -self.filled / t
        slope = np.empty((len(mean), len(mean) + 1))
        slope[:, 0] = (p * (by_scale - (p * by_scale).sum(axis=1, keepdims=True))).mean(axis=0)
        slope[:, 1:] = np.diag(mean) - p.T @ p / len(p)
        weight = self.mix.rows * self.mix.shares / mean**2
        return slope.T @ (slope * weight[:, None])


def _loss(p: Floats, labels: NDArray[np.int64], beta: float) -> tuple[Floats, Floats]:
    """Return the loss of each row and its slopes in the logits."""
    place = np.arange(len(labels))
    right = np.maximum(p[place, labels], TINY_PROBABILITY)
    if beta == 0:
        slopes = p.copy()
        slopes[place, labels] -= 1
        return -np.log(right), slopes
    power = p**beta
    own, total = right**beta, (power * p).sum(axis=1)
    slopes = p * (power - total[:, None] + own[:, None])
    slopes[place, labels] -= own
    return (total + 1) / (1 + beta) + (1 - own) / beta - 1, slopes


def _information(
    z: Floats, filled: Floats, theta: Floats, free: int, weight: Floats, beta: float
) -> Floats:
    """Return the expected curvature of the loss in the first parameters, were the map right."""
    t = float(np.exp(theta[0]))
    p = softmax_at(z, t, theta[1:])
    by_scale = -filled / t  # derivative of the logits in log T
    by_scale -= (p * by_scale).sum(axis=1, keepdims=True)
    powered = p ** (1 + beta) * weight[:, None]
    found = np.empty((free, free))
    found[0, 0] = float(np.sum(powered * by_scale**2))
    if free > 1:
        cross, total = powered * by_scale, powered.sum(axis=1, keepdims=True)
        found[0, 1:] = found[1:, 0] = (cross - p * cross.sum(axis=1, keepdims=True)).sum(axis=0)
        both = p.T @ powered
        found[1:, 1:] = np.diag(powered.sum(axis=0)) - both - both.T + p.T @ (p * total)
    return found
