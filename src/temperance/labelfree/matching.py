"""Temperatures and biases that make a target agree with what is believed of it.

Three equations in the map ``p = softmax(z / T + b)`` of unlabelled logits z:

    mean_i max_k p_ik   = a      `match_confidence`: confidence is accuracy
    mean_i p_ik         = q_k    `match_prior`: the classes come out as often as they occur
    mean_i p_{i, ŷ_i}   = a      `match_belief`: the map believes in the model's own predictions
                                 ŷ = argmax z as much as they deserve, given that q is met

The third is what fixes T once a bias moves predictions: the accuracy *after* the bias is unknown,
but a calibrated map knows how often the predictions *before* it are right.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

TOLERANCE = 1e-3  # of log T and of the class shares: far below what the beliefs are worth
REACH = 1e4  # temperatures beyond this factor of the start are not looked at
MAX_SWEEPS = 60
NEAR = 0.2  # rows, as a share, that are still in the wrong class when Newton's method begins,
NEWTON = 128  # and the most classes for which its K x K equations are worth their cost
RIDGE = 1e-3


def probabilities(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> Matrix:
    """Return softmax(z / T + b) in float64."""
    p = np.divide(z, temperature, dtype=np.float64) + bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def confidence(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> float:
    """Return the mean top probability of softmax(z / T + b)."""
    return float(probabilities(z, temperature, bias).max(axis=1).mean())


def match_confidence(z: NDArray[Any], accuracy: float, start: float) -> float:
    """Return the temperature at which mean confidence is ``accuracy``."""
    return _falling_root(lambda t: confidence(z, t) - accuracy, start)


def match_prior(z: NDArray[Any], temperature: float, q: Matrix, bias: Matrix) -> Matrix:
    """Return the bias at which the mean probabilities are q, from a first guess of it.

    It minimises the convex mean_i log Σ_k exp(z_ik/T + b_k) - q·b. Scaling, b += log(q / mean p),
    lowers that from anywhere; near the minimum Newton's method takes over where K is small.
    """
    log_q = np.log(np.maximum(q, 1e-12))
    b, nearest, newton = bias, NEAR, len(q) <= NEWTON
    for _ in range(MAX_SWEEPS):
        p = probabilities(z, temperature, b)
        share = p.mean(axis=0)
        missed = float(np.abs(share - q).sum())
        if missed < TOLERANCE:
            break
        if newton and missed < nearest:
            nearest = missed  # a step that does not get nearer is the last of its kind
            curvature = np.diag(share + RIDGE * q) - p.T @ p / len(p)
            step: Matrix = cast("Any", np.linalg.lstsq(curvature, q - share))[0]
            b = b + step
        else:
            newton = newton and nearest == NEAR
            b = b + log_q - np.log(np.maximum(share, 1e-300))
        b = b - b.mean()
    return b


def match_belief(
    z: NDArray[Any], q: Matrix, shrink: float, accuracy: float, start: float
) -> tuple[float, Matrix]:
    """Return T and the shrunken bias at which the predictions of z are believed as they deserve."""
    predicted = z.argmax(axis=1)
    rows = np.arange(len(predicted))
    guess = [np.zeros(z.shape[1])]

    def excess(t: float) -> float:
        guess[0] = match_prior(z, t, q, guess[0])
        p = probabilities(z, t, shrink * guess[0])
        return float(p[rows, predicted].mean()) - accuracy

    t = _falling_root(excess, start)
    return t, shrink * match_prior(z, t, q, guess[0])


def _falling_root(function: Callable[[float], float], start: float) -> float:
    """Root in log T of a function that falls with T; the nearer end where there is none.

    The bracket is walked to in factors of two and narrowed by false position (Illinois), which
    never evaluates a point twice: `match_belief` is exact only up to the sweeps it makes.
    """
    first = x = math.log(start)
    value = function(start)
    step = math.copysign(math.log(2.0), value)
    while True:
        old, before = x, value
        x += step
        value = function(math.exp(x))
        if value * before <= 0:
            break
        if abs(x - first) > math.log(REACH):
            return math.exp(x)
    while abs(x - old) > TOLERANCE:
        middle = x - value * (x - old) / (value - before) if value != before else 0.5 * (x + old)
        here = function(math.exp(middle))
        if here * value <= 0:
            old, before = x, value
        else:
            before *= 0.5
        x, value = middle, here
    return math.exp(x)
