"""Temperature and class bias that match an accuracy and a class mix.

Conditions on the map ``p = softmax(z / T + b)`` of unlabelled logits z with predictions ŷ:

    mean_i p_ik         = q_k    `match_mix`: the classes come out as often as they occur
    mean_i p_{i, ŷ_i}   = a      `match_accuracy`: the model's own predictions are right as often as
                                 the map says, given that q is met
    mean_i max_k p_ik   = a      `solve_confidence`: the same without a class mix, b = 0

`project` returns the one map that is nearest to a mixture of maps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from temperance._core.arrays import Floats
from temperance.calibrate.constants import NUMERICAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from temperance.calibrate.problem import Logits

MIX_TOLERANCE = 1e-6  # of the class shares, in total
SCALING_TOLERANCE = 1e-4  # the same where only scaling is affordable
SCALE_TOLERANCE = 1e-6  # of log T
MAX_SWEEPS = 60
MAX_STEPS = 12  # of Newton's method in T and b
NEAR = 0.3  # distance of the class shares from which Newton's method begins
LONGEST = 3.0  # longest step of a bias
LARGEST_BIAS = 50.0
TINY = 1e-12


class BiasAt(NamedTuple):
    """A temperature with its class bias."""

    temperature: float
    bias: Floats


def match_mix(
    target: Logits, temperature: float, mix: Floats, start: Floats
) -> tuple[Floats, Floats]:
    """Return the bias at which the mean probabilities are ``mix``, and the probabilities there.

    The bias minimises a convex function. Scaling, b += log(q / mean p), lowers the function from
    anywhere; near the minimum Newton's method takes over where K is small.
    """
    bias, k = start, target.n_classes
    log_mix = np.log(np.maximum(mix, TINY))
    small = k <= NUMERICAL.newton_classes
    tolerance = MIX_TOLERANCE if small else SCALING_TOLERANCE
    p = target.probabilities(temperature, bias)
    for _ in range(MAX_SWEEPS):
        mean = p.mean(axis=0)
        missing = mix - mean
        distance = float(np.abs(missing).sum())
        if distance < tolerance:
            break
        step = log_mix - np.log(np.maximum(mean, TINY))
        if distance < NEAR and small:
            curvature = np.diag(mean + 1e-6 * mix + 1e-10) - p.T @ p / len(p)
            better = cast("Floats", np.linalg.solve(curvature, missing))
            step = better if np.abs(better).max() < LONGEST else step
        bias = bias + np.clip(step, -LONGEST, LONGEST)
        bias = np.clip(bias - bias.mean(), -LARGEST_BIAS, LARGEST_BIAS)
        p = target.probabilities(temperature, bias)
    return bias, p


def match_accuracy(
    target: Logits,
    accuracy: float,
    mix: Floats,
    start: BiasAt,
    limits: tuple[float, float],
) -> BiasAt:
    """Return T and b that meet the class mix, and by which the predictions are right that often.

    T lies within the limits; where no T there does so, T is the nearer limit. Newton's method in
    (log T, b) mostly finds the map; where it does not, T is bracketed.
    """
    direct = _match_both(target, accuracy, mix, start, limits)
    if direct is not None:
        return direct
    rows = np.arange(len(target))
    found = start

    def excess(log_t: float) -> float:
        nonlocal found
        temperature = float(np.exp(log_t))
        bias, p = match_mix(target, temperature, mix, found.bias)
        found = BiasAt(temperature, bias)
        return float(p[rows, target.predicted].mean()) - accuracy

    _falling_root(excess, np.log(start.temperature), (np.log(limits[0]), np.log(limits[1])))
    return found


def _match_both(
    target: Logits, accuracy: float, mix: Floats, start: BiasAt, limits: tuple[float, float]
) -> BiasAt | None:
    """Return the map of `match_accuracy` by Newton's method; None where it does not converge."""
    n, k = len(target), target.n_classes
    if k > NUMERICAL.newton_classes:
        return None
    rows = np.arange(len(target))
    log_t, bias = float(np.log(start.temperature)), start.bias
    jacobian = np.empty((k + 1, k + 1))
    for _ in range(MAX_STEPS):
        t = float(np.exp(log_t))
        p = target.probabilities(t, bias)
        mean, right = p.mean(axis=0), p[rows, target.predicted]
        missing = np.r_[mix - mean, accuracy - float(right.mean())]
        if np.abs(missing).sum() < MIX_TOLERANCE:
            return BiasAt(t, bias)
        by_scale = p * (-target.filled / t)  # derivative in log T
        by_scale -= p * by_scale.sum(axis=1, keepdims=True)
        jacobian[:k, :k] = np.diag(mean + 1e-6 * mix + 1e-10) - p.T @ p / n
        jacobian[:k, k] = by_scale.mean(axis=0)
        jacobian[k, :k] = (np.bincount(target.predicted, right, k) - right @ p) / n
        jacobian[k, k] = float(by_scale[rows, target.predicted].mean())
        try:
            step = cast("Floats", np.linalg.solve(jacobian, missing))
        except np.linalg.LinAlgError:
            return None
        if not np.abs(step).max() < LONGEST:
            return None
        bias, log_t = bias + step[:k], log_t + float(step[k])
        bias = bias - bias.mean()
        if not limits[0] < np.exp(log_t) < limits[1] or np.abs(bias).max() > LARGEST_BIAS:
            return None
    return None


def solve_confidence(
    target: Logits, accuracy: float, start: float, limits: tuple[float, float]
) -> float:
    """Return T, within the limits, at which the mean confidence is ``accuracy``."""

    def excess(log_t: float) -> float:
        return float(target.probabilities(np.exp(log_t)).max(axis=1).mean()) - accuracy

    ends = np.log(limits[0]), np.log(limits[1])
    return float(np.exp(_falling_root(excess, np.log(start), ends)))


def _falling_root(
    function: Callable[[float], float], start: float, limits: tuple[float, float]
) -> float:
    """Return the root of a falling function; the nearer limit where there is none.

    Regula falsi with the Illinois rule, between the start and the limit on the other side of the
    root. No point is evaluated twice: the function is exact only up to the tolerance of its bias.
    """
    x = float(np.clip(start, *limits))
    value = function(x)
    other = limits[1] if value > 0 else limits[0]
    if value == 0 or other == x:
        return x
    beyond = function(other)
    if beyond * value > 0:
        return other
    while abs(other - x) > SCALE_TOLERANCE and beyond != 0:
        middle = (x * beyond - other * value) / (beyond - value)
        found = function(middle)
        if found * beyond < 0:
            x, value = other, beyond
        else:
            value *= 0.5
        other, beyond = middle, found
    return other


def project(target: Logits, mixture: Floats, start: BiasAt, *, bias: bool) -> BiasAt:
    """Return the map of least mean Kullback-Leibler divergence from a mixture of maps.

    Newton's method in (1/T, b); above `newton_classes` classes the bias moves by scaling.
    """
    z, k, n = target.filled, target.n_classes, len(target)
    mean, moment = mixture.mean(axis=0), float(np.sum(mixture * z)) / n
    beta, b = 1 / start.temperature, start.bias
    for _ in range(MAX_SWEEPS):
        p = target.probabilities(1 / beta, b)
        expected = (p * z).sum(axis=1)
        slope = float(expected.mean()) - moment
        spread = p * (z - expected[:, None])
        curvature = float(np.sum(spread * z)) / n + TINY
        share = p.mean(axis=0)
        if bias and k <= NUMERICAL.newton_classes:
            hessian = np.empty((k + 1, k + 1))
            hessian[0, 0], hessian[0, 1:] = curvature, spread.mean(axis=0)
            hessian[1:, 0] = hessian[0, 1:]
            hessian[1:, 1:] = np.diag(share + 1e-6) - p.T @ p / n
            step = cast("Floats", np.linalg.solve(hessian, np.r_[slope, share - mean]))
            by, moved = float(step[0]), -step[1:]
        else:
            by = slope / curvature
            moved = (
                np.log(np.maximum(mean, TINY) / np.maximum(share, TINY)) if bias else np.zeros(k)
            )
        damping = min(
            1.0, LONGEST / max(float(np.abs(moved).max()), TINY), 0.5 * beta / max(by, TINY)
        )
        beta, b = beta - damping * by, b + damping * moved
        b = np.clip(b - b.mean(), -LARGEST_BIAS, LARGEST_BIAS)
        if abs(by) < SCALE_TOLERANCE * beta and np.abs(moved).max() < SCALE_TOLERANCE:
            break
    return BiasAt(1 / beta, b)
