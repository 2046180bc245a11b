"""Temperatures and biases that make a target agree with what is believed of it.

Three equations in the map ``p = softmax(z / T + b)`` of unlabelled logits z:

    mean_i max_k p_ik   = a      `match_confidence`: confidence is accuracy
    mean_i p_ik         = q_k    `match_prior`: the classes come out as often as they occur
    mean_i p_{i, ŷ_i}   = a      `match_belief`: the map believes in the model's own predictions
                                 ŷ = argmax z as much as they deserve, given that q is met

The third is what fixes T once a bias moves predictions: the accuracy *after* the bias is unknown,
but a calibrated map knows how often the predictions *before* it are right.

Solutions are looked for on some of the rows, and from there found on all of them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from temperance._kernels import fused

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

TOLERANCE = 1e-3  # of log T and of the class shares: far below what the beliefs are worth
REACH = 1e4  # temperatures beyond this factor of the start are not looked at
MAX_SWEEPS = 60
NEAR = 0.3  # rows, as a share, that are still in the wrong class when Newton's method begins,
NEWTON = 128  # and the most classes for which its K x K equations are worth their cost
RIDGE = 1e-3
TRUST = 3.0  # the longest step of a bias that Newton's method may take
SLOW = 0.25  # of what was missed a step leaves no more than that, or the curvature has changed
EXCLUDED = 1e-10  # curvature of a class that is believed nowhere
STEP, GROWTH = 0.2, 2.0  # steps in log T from the start: the first, and how they grow
SOME = 1_024  # rows that give log T to a few hundredths, and the curvature to a few per cent


def probabilities(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> Matrix:
    """Return softmax(z / T + b) in float64."""
    p = np.divide(z, temperature, dtype=np.float64) + bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


class Beliefs(NamedTuple):
    """What a map says of a sample, on average, and of each row."""

    share: Matrix
    """Mean probability of each class."""
    sure: float
    """Mean top probability."""
    kept: float
    """Mean probability of the predictions before the map."""
    p: NDArray[np.floating]
    """Probabilities of each row, where they were asked for."""


def beliefs(
    z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0, *, rows: bool = False
) -> Beliefs:
    """Return what softmax(z / T + b) says: in one compiled pass where there are such."""
    compiled = fused()
    if compiled is not None:
        b = np.zeros(z.shape[1]) + bias
        return Beliefs(*compiled.beliefs(z, 1 / temperature, b, rows=rows))
    p = probabilities(z, temperature, bias)
    kept = float(p[np.arange(len(p)), z.argmax(axis=1)].mean())
    return Beliefs(p.mean(axis=0), float(p.max(axis=1).mean()), kept, p)


def confidence(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> float:
    """Return the mean top probability of softmax(z / T + b)."""
    return beliefs(z, temperature, bias).sure


def nearly(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> Beliefs:
    """Return the same to six digits, for equations that are solved to three."""
    compiled = fused()
    if compiled is None:
        return beliefs(z, temperature, bias)
    b = np.zeros(z.shape[1]) + bias
    share, sure, kept = compiled.short_beliefs(z, 1 / temperature, b)
    return Beliefs(share, sure, kept, np.empty(0))


def some_of(z: NDArray[Any]) -> NDArray[Any]:
    """Return a thousand rows or up to twice as many, at equal distances; of fewer, all."""
    return np.ascontiguousarray(z[:: max(1, len(z) // SOME)])


def match_confidence(z: NDArray[Any], accuracy: float, start: float) -> float:
    """Return the temperature at which mean confidence is ``accuracy``."""
    root = Root(start)
    for rows in _growing(z):
        root = _falling_root(lambda t, rows=rows: nearly(rows, t).sure - accuracy, root)
    return root.temperature


def match_prior(z: NDArray[Any], temperature: float, q: Matrix, bias: Matrix) -> Matrix:
    """Return the bias at which the mean probabilities are q, from a first guess of it.

    It minimises the convex mean_i log Σ_k exp(z_ik/T + b_k) - q·b. Scaling, b += log(q / mean p),
    lowers that from anywhere; near the minimum Newton's method takes over where K is small, with
    the curvature of some of the rows.
    """
    newton = Newton(z, q)
    for rows in _growing(z):
        bias = _match_prior(rows, temperature, q, bias, newton)
    return bias


def match_belief(
    z: NDArray[Any], q: Matrix, shrink: float, accuracy: float, start: float
) -> tuple[float, Matrix]:
    """Return T and the shrunken bias at which the predictions of z are believed as they deserve."""
    bias, root, newton = np.zeros(z.shape[1]), Root(start), Newton(z, q)

    def excess(rows: NDArray[Any], t: float) -> float:
        nonlocal bias
        bias = _match_prior(rows, t, q, bias, newton)
        return nearly(rows, t, shrink * bias).kept - accuracy

    for rows in _growing(z):
        root = _falling_root(partial(excess, rows), root)
    return root.temperature, shrink * _match_prior(z, root.temperature, q, bias, newton)


def _growing(z: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return some rows and all rows, or only the latter where they are few."""
    some = some_of(z)
    return (some, z) if len(some) < len(z) else (z,)


def _match_prior(
    z: NDArray[Any], temperature: float, q: Matrix, bias: Matrix, newton: Newton
) -> Matrix:
    """`match_prior` on all rows at once."""
    log_q = np.log(np.maximum(q, 1e-12))
    b, before, near = bias, math.inf, NEAR if len(q) <= NEWTON else 0.0
    for _ in range(MAX_SWEEPS):
        share = nearly(z, temperature, b).share
        missed = float(np.abs(share - q).sum())
        if missed < TOLERANCE:
            break
        if missed >= before:
            near = before / 4  # that was not near enough
        step = log_q - np.log(np.maximum(share, 1e-300))
        if missed < near:
            if missed > SLOW * before:
                newton.renew()
            better = newton.step(q - share, temperature, b)
            step = better if np.abs(better).max() < TRUST else step
        b = b + step
        b = b - b.mean()
        if SLOW * missed < TOLERANCE and missed < near:
            break
        before = missed
    return b


class Newton:
    """Newton's steps of the bias, with the curvature of some rows where it was last asked for."""

    def __init__(self, z: NDArray[Any], q: Matrix) -> None:
        self._some = some_of(z)
        self._q = q
        self._inverse: Matrix | None = None

    def renew(self) -> None:
        """Forget a curvature with which steps do not do what they should."""
        self._inverse = None

    def step(self, missing: Matrix, temperature: float, bias: Matrix) -> Matrix:
        """Return the step that adds ``missing``; an excluded class has no curvature to speak of."""
        if self._inverse is None:
            share, _, _, p = beliefs(self._some, temperature, bias, rows=True)
            curvature = np.diag(share + RIDGE * self._q + EXCLUDED) - p.T @ p / len(p)
            self._inverse = cast("Matrix", np.linalg.inv(curvature))
        return self._inverse @ missing


class Root(NamedTuple):
    """Where a function of log T vanishes, or is thought to, and its slope there where known."""

    temperature: float
    slope: float = 0.0


def _falling_root(function: Callable[[float], float], start: Root) -> Root:
    """Root in log T of a function that falls with T; the nearer end where there is none.

    The bracket is walked to in growing steps, of which the first is Newton's where the slope is
    known, and narrowed by false position (Illinois) until the next step is within the tolerance.
    No point is evaluated twice: `match_belief` is exact only up to the sweeps it makes.
    """
    first = x = math.log(start.temperature)
    value = function(start.temperature)
    step = -value / start.slope if start.slope < 0 else math.copysign(STEP, value)
    if step == 0:
        return start
    while True:
        old, before = x, value
        x += step
        step *= GROWTH
        value = function(math.exp(x))
        slope = (value - before) / (x - old)
        if value * before <= 0 or (slope < 0 and abs(value / slope) <= TOLERANCE):
            break
        if abs(x - first) > math.log(REACH):
            return Root(math.exp(x))
    while abs(x - old) > TOLERANCE:
        middle = x - value * (x - old) / (value - before) if value != before else 0.5 * (x + old)
        if abs(middle - x) <= TOLERANCE:
            return Root(math.exp(middle), slope)
        here = function(math.exp(middle))
        slope = (here - value) / (middle - x)
        if here * value <= 0:
            old, before = x, value
        else:
            before *= 0.5
        x, value = middle, here
    return Root(math.exp(x), slope)
