"""What a few labelled rows of the target change.

The plausible maps give a normal prior of θ = (log T, b): its centre is the map that is used without
labels, its covariance theirs, plus the error of a map whose accuracy and class mix are right. The
labels multiply the prior by their likelihood:

    θ̂ = argmin_θ  - Σ_i log softmax(z_i / T + b)_{y_i}  +  (θ - θ₀)' Σ⁻¹ (θ - θ₀) / 2

How wide the errors of the bias are, the labels themselves tell (empirical Bayes, by Laplace's
approximation of the evidence). With many labels θ̂ is that of biased temperature scaling, with none
it is θ₀, and no class needs a label. Plausible maps are draws from the normal approximation at θ̂.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from temperance.calibrate.constants import FITTED, NUMERICAL
from temperance.calibrate.problem import Logits
from temperance.calibrate.solve import BiasAt
from temperance.calibrate.uncertainty import Plausible, with_maps
from temperance.supervised.around import fit_around

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.data.given import LabelledSample

    Matrix = NDArray[np.float64]


def learn(plausible: Plausible, labelled: LabelledSample, *, bias: bool) -> Plausible:
    """Return the plausible maps after the labels were seen."""
    rows, labels = Logits.of(labelled.logits), labelled.labels
    centre = plausible.centre
    theta = np.r_[np.log(centre.temperature), centre.bias]
    free = len(theta) if bias and len(centre.bias) <= NUMERICAL.bias_classes else 1
    tried = {
        width: fit_around(rows.z, labels, theta, _precision(plausible, free, width))
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


def _normal_draws(size: int) -> Matrix:
    """Return draws of a standard normal in pairs of opposite sign, each of variance one."""
    half = np.random.default_rng(0).standard_normal((NUMERICAL.draws // 2, size))
    half /= np.sqrt((half**2).mean(axis=0))
    return np.concatenate([half, -half])
