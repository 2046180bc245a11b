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
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from temperance._core.sample import Means, Sample

    Matrix = NDArray[np.float64]

TOLERANCE = 1e-4  # of log T and of the class shares: far below what the beliefs are worth
REACH = 1e4  # temperatures beyond this factor of the start are not looked at
MAX_SWEEPS = 60
NEAR = 0.3  # rows, as a share, that are still in the wrong class when Newton's method begins,
NEWTON = 128  # and the most classes for which its K x K equations are worth their cost
RIDGE = 1e-3
TRUST = 3.0  # the longest step of a bias that Newton's method may take
SLOW = 0.25  # of what was missed a step leaves no more than that, or the curvature has changed
EXCLUDED = 1e-10  # curvature of a class that is believed nowhere
STEP, GROWTH = 0.2, 2.0  # steps in log T from the start: the first, and how they grow


def match_confidence(sample: Sample, accuracy: float, start: float) -> float:
    """Return the temperature at which mean confidence is ``accuracy``."""
    root = Root(start)
    for rows in _growing(sample):
        root = _falling_root(lambda t, rows=rows: rows.beliefs(t).sure - accuracy, root)
    return root.temperature


def match_prior(sample: Sample, temperature: float, q: Matrix) -> Matrix:
    """Return the bias at which the mean probabilities are q."""
    bias = np.zeros(len(q))
    for biases in Biases(sample, q).growing():
        bias = biases.at(temperature)
    return bias


def match_belief(biases: Biases, shrink: float, accuracy: float, start: float, end: float) -> float:
    """Return T at which, with the shrunken bias, predictions are believed as they deserve.

    It lies between ``start`` and ``end``; where no T there does so, it is the nearer of the two.
    """
    ends = min(start, end), max(start, end)
    return _match_with_bias(biases, shrink, Root(start, ends), lambda said: said.kept - accuracy)


def match_biased_confidence(biases: Biases, shrink: float, accuracy: float, start: float) -> float:
    """Return T at which, with the shrunken bias, mean confidence is ``accuracy``."""
    return _match_with_bias(biases, shrink, Root(start), lambda said: said.sure - accuracy)


def _match_with_bias(
    biases: Biases, shrink: float, root: Root, excess: Callable[[Means], float]
) -> float:
    def at(biases: Biases, t: float) -> float:
        return excess(biases.sample.beliefs(t, shrink * biases.at(t)))

    for one in biases.growing():
        root = _falling_root(partial(at, one), root)
    return root.temperature


def _growing(sample: Sample) -> tuple[Sample, ...]:
    """Return some rows and all rows, or only the latter where they are few."""
    return (sample,) if sample.some is sample else (sample.some, sample)


class Biases:
    """Biases at which the mean probabilities are q, at one temperature after another.

    They minimise the convex mean_i log Σ_k exp(z_ik/T + b_k) - q·b. Scaling, b += log(q / mean p),
    lowers that from anywhere; near the minimum Newton's method takes over where K is small, with
    the curvature of some of the rows, where it was last asked for. Each is looked for from the one
    before.
    """

    def __init__(self, sample: Sample, q: Matrix) -> None:
        self.sample = sample
        self._q = q
        self._last = np.zeros(len(q))
        self._inverse: Matrix | None = None

    def of_some(self) -> Biases:
        """Return those of some of the rows, to be looked for from the last one here."""
        few = Biases(self.sample.some, self._q)
        few.go_on_from(self)
        return few

    def growing(self) -> Iterator[Biases]:
        """Yield those of some rows, and then these, to be looked for from the last one there."""
        if self.sample.some is not self.sample:
            few = self.of_some()
            yield few
            self.go_on_from(few)
        yield self

    def go_on_from(self, other: Biases) -> None:
        """Look for the next one where others were found."""
        self._last, self._inverse = other._last, other._inverse

    def at(self, temperature: float) -> Matrix:
        """Return the bias for a temperature."""
        q, b, before = self._q, self._last, math.inf
        log_q, near = np.log(np.maximum(q, 1e-12)), NEAR if len(q) <= NEWTON else 0.0
        for _ in range(MAX_SWEEPS):
            share = self.sample.beliefs(temperature, b).share
            missed = float(np.abs(share - q).sum())
            if missed < TOLERANCE:
                break
            if missed >= before:
                near = before / 4  # that was not near enough
            step = log_q - np.log(np.maximum(share, 1e-300))
            if missed < near:
                if missed > SLOW * before:
                    self._inverse = None
                better = self._newton(q - share, temperature, b)
                step = better if np.abs(better).max() < TRUST else step
            b = b + step
            b = b - b.mean()
            if SLOW * missed < TOLERANCE and missed < near:
                break
            before = missed
        self._last = b
        return b

    def _newton(self, missing: Matrix, temperature: float, bias: Matrix) -> Matrix:
        """Return the step that adds ``missing``; an excluded class has no curvature to speak of."""
        if self._inverse is None:
            curvature = self.sample.some.covariances(temperature, bias)
            curvature += np.diag(RIDGE * self._q + EXCLUDED)
            self._inverse = cast("Matrix", np.linalg.inv(curvature))
        return self._inverse @ missing


class Root(NamedTuple):
    """Where a function of T vanishes, or is thought to, and its slope in log T where known."""

    temperature: float
    ends: tuple[float, float] | None = None
    """Beyond which T is not looked for; without them, a factor REACH from the start."""
    slope: float = 0.0


def _falling_root(function: Callable[[float], float], start: Root) -> Root:
    """Root in log T of a function that falls with T; the nearer end where there is none.

    Steps are those of the secant, the first is Newton's where the slope is known; none is much
    longer than the one before, nor beyond where the sign has been seen to change. No point is
    evaluated twice: `match_belief` is exact only up to the sweeps it makes.
    """
    first, ends, slope = start
    first_end, last_end = np.log(ends or (first / REACH, first * REACH))
    x, value = math.log(first), function(first)
    step = -value / slope if slope < 0 else math.copysign(STEP, value) if value else 0.0
    low, high = -math.inf, math.inf  # between which the sign changes
    while SLOW * abs(step) > TOLERANCE:
        low, high = (x, high) if value > 0 else (low, x)
        old, before = x, value
        x = x + step if low < x + step < high else 0.5 * (low + high)
        x = min(max(x, first_end), last_end)
        if x == old:
            return Root(math.exp(x), ends)
        value = function(math.exp(x))
        slope = (value - before) / (x - old)
        longest = math.copysign(GROWTH * (x - old), value)
        step = min(-value / slope, longest, key=abs) if slope < 0 else longest
    return Root(math.exp(min(max(x + step, first_end), last_end)), ends, slope)
