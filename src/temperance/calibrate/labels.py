"""What a few labelled rows of the target change.

The plausible maps give a normal prior of θ = (log T, b): its centre is the map that is used without
labels, its covariance theirs, plus the error of a map whose accuracy and class mix are right. The
labels multiply the prior by their likelihood:

    θ̂ = argmin_θ  - Σ_i w_i log softmax(z_i / T + b)_{y_i}  +  (θ - θ₀)' Σ⁻¹ (θ - θ₀) / 2

How wide the errors of the bias are, the labels themselves tell (empirical Bayes, by Laplace's
approximation of the evidence). With many labels θ̂ is that of biased temperature scaling, with none
it is θ₀, and no class needs a label. Plausible maps are draws from the normal approximation at θ̂.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.optimize import minimize

from temperance.calibrate.constants import FITTED, NUMERICAL
from temperance.calibrate.problem import Logits
from temperance.calibrate.solve import BiasAt
from temperance.calibrate.uncertainty import Plausible, with_maps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.data.given import LabelledSample

    Matrix = NDArray[np.float64]


class Posterior(NamedTuple):
    """A normal approximation of what labels leave open."""

    centre: Matrix
    information: Matrix
    evidence: float


def learn(plausible: Plausible, labelled: LabelledSample, *, bias: bool) -> Plausible:
    """Return the plausible maps after the labels were seen."""
    rows, labels = Logits.of(labelled.logits), labelled.labels
    centre = plausible.centre
    theta = np.r_[np.log(centre.temperature), centre.bias]
    free = len(theta) if bias and len(centre.bias) <= NUMERICAL.bias_classes else 1
    tried = {
        width: fit_around(rows, labels, theta, _precision(plausible, free, width))
        for width in 2.0 ** np.arange(-1, NUMERICAL.bias_doublings + 1)
    }
    width = max(tried, key=lambda w: tried[w].evidence - FITTED.width_evidence * abs(np.log2(w)))
    found, information, _ = tried[width]
    # No map of this form is quite right, so labels count less for its uncertainty than for itself.
    curvature = FITTED.label_information * information + _precision(plausible, free, width)
    factor = np.linalg.cholesky(np.linalg.inv(curvature))
    moved = found[:free] + _normal_draws(free) @ factor.T
    draws = [np.r_[one, theta[free:]] for one in moved]
    return with_maps(plausible, _as_map(found), [_as_map(one) for one in draws])


def _as_map(theta: Matrix) -> BiasAt:
    return BiasAt(float(np.exp(theta[0])), theta[1:] - theta[1:].mean())


def nothing_known(n_classes: int) -> Plausible:
    """Return the plausible maps where neither a source nor a class mix is given."""
    step = np.array([-1, 0, 1]) * FITTED.temperature_error_alone
    return Plausible(
        weights=np.array([1, 1, 1]) / 3,
        temperatures=np.exp(step),
        biases=np.zeros((3, n_classes)),
        centre=BiasAt(1.0, np.zeros(n_classes)),
    )


def _precision(plausible: Plausible, free: int, width: float) -> Matrix:
    """Return the precision of the first parameters, errors of the bias that often as wide."""
    centre = plausible.centre
    theta = np.column_stack([np.log(plausible.temperatures), plausible.biases])
    apart = theta - np.r_[np.log(centre.temperature), centre.bias]
    own = FITTED.bias_error if plausible.mix is not None else FITTED.bias_error_without_mix
    residual = np.r_[FITTED.temperature_error, np.full(len(centre.bias), width * own)] ** 2
    covariance = apart.T @ (plausible.weights[:, None] * apart) + np.diag(residual)
    return cast("Matrix", np.linalg.inv(covariance[:free, :free]))


def fit_around(
    rows: Logits, labels: NDArray[np.int64], theta: Matrix, precision: Matrix
) -> Posterior:
    """Return θ of greatest posterior density, the information of the labels, and the evidence.

    The precision is that of the first parameters; the others stay as they are.
    """
    place, free = np.arange(len(labels)), len(precision)

    def objective(x: Matrix) -> tuple[float, Matrix]:
        t = float(np.exp(x[0]))
        p = rows.probabilities(t, x[1:])
        apart = (x - theta)[:free]
        pull = np.zeros_like(x)
        pull[:free] = precision @ apart
        value = -float(np.log(np.maximum(p[place, labels], 1e-300)).sum()) + 0.5 * float(
            apart @ pull[:free]
        )
        residual = p.copy()
        residual[place, labels] -= 1
        slope = -float(np.sum(residual * rows.filled)) / t
        gradient = np.r_[slope, residual.sum(axis=0)] + pull
        gradient[free:] = 0.0
        return value, gradient

    bounds = [(theta[0] - 6, theta[0] + 6), *[(None, None)] * (len(theta) - 1)]
    solved = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds)
    found = solved.x
    t = float(np.exp(found[0]))
    p = rows.probabilities(t, found[1:])
    scaled = -rows.filled / t  # derivative of the logits in log T
    inner = (p * scaled).sum(axis=1)
    cross = p * (scaled - inner[:, None])
    if free == 1:
        return _posterior(found, np.array([[float(np.sum(cross * scaled))]]), precision, solved.fun)
    hessian = np.empty((free, free))
    hessian[0, 0] = float(np.sum(cross * scaled))
    hessian[0, 1:] = hessian[1:, 0] = cross.sum(axis=0)
    hessian[1:, 1:] = np.diag(p.sum(axis=0)) - p.T @ p
    return _posterior(found, hessian, precision, solved.fun)


def _posterior(found: Matrix, hessian: Matrix, precision: Matrix, value: float) -> Posterior:
    """Return the normal approximation with its evidence (Laplace)."""
    curvature = hessian + precision
    volume = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(curvature)[1]
    return Posterior(found, hessian, 0.5 * float(volume) - float(value))


def _normal_draws(size: int) -> Matrix:
    """Return draws of a standard normal in pairs of opposite sign, each of variance one."""
    half = np.random.default_rng(0).standard_normal((NUMERICAL.draws // 2, size))
    half /= np.sqrt((half**2).mean(axis=0))
    return np.concatenate([half, -half])
