"""Solvers, and the moments that they read. Each returns a `Solution` that carries its status."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from temperance._core.arrays import Floats
from temperance._core.checks import NotIdentified

TOLERANCE = 1e-10  # relative error of a minimum
MAX_TAYLOR_STEP = 0.5  # relative; beyond it a Taylor polynomial is not used
RELATIVE_ROUNDING = 1e-14  # relative difference that rounding alone makes
MAX_STEPS = 60
FACTORIALS = tuple(math.factorial(r) for r in range(8))
MAX_SLOPE_LEFT = 0.7  # share of the slope; after a step that leaves more, the bracket is narrowed


class Moments(NamedTuple):
    """The weighted NLL of rows at 1/T = β, and what bounds it: sums over rows.

    With ``u = (z - max z) / T``, κ_r[u] the cumulants of u under ``p = softmax(u)``, W hard labels,
    soft labels or any non-negative weights, and ``A = Σ_k W_k``:

        value = Σ A·log Σ exp u - Σ W·u
        derivatives[0] = Σ A·κ_1[u] - Σ W·u        derivatives[r - 1] = Σ A·κ_r[u],  r = 2 … 6

    The r-th derivative in β is ``derivatives[r - 1]`` divided by β^r. The slopes of the NLL at both
    ends of the scale decide whether there is a minimum between them. All fields are NaN where a
    logit is not finite or beyond 1e100.
    """

    value: float
    derivatives: tuple[float, ...]
    slope_at_zero: float
    """Slope of the NLL in β at β = 0, ``- Σ W (z - mean z)``."""
    slope_at_infinity: float
    """Limit of the slope as β grows, ``Σ W (max z - z)``."""
    logit_range: float
    """``Σ A (max z - mean z)``."""
    weight: float
    """``Σ A``."""

    @property
    def relative(self) -> tuple[float, ...]:
        """Value and derivatives, as `minimise_in_scale` reads them."""
        return self.value, *self.derivatives

    @property
    def are_valid(self) -> bool:
        """Whether all logits were fit to compute with."""
        return not math.isnan(self.logit_range)


class Solution(NamedTuple):
    """The point at which a solver stopped, its value, and whether the solver converged."""

    x: float
    value: float
    steps: int
    converged: bool


def minimise_in_scale(
    moments: Callable[[float], tuple[float, ...]],
    start: float,
    *,
    tolerance: float = TOLERANCE,
    within: tuple[float, float] = (0.0, math.inf),
) -> Solution:
    """Return the minimum over β > 0 of a convex function given by its relative moments.

    ``moments(beta)`` returns the value and β^r times the r-th derivative, for r = 1 … R, R ≥ 3.
    The step goes to the root of the Taylor polynomial of the first derivative, an error of order
    R; it is replaced by a bracketed geometric step when it leaves the bracket that the signs of the
    derivative have built, and after a step that has gained little: far off, on a slope that
    hardly bends, Newton's steps are all alike. The caller has shown that a minimum exists, so the
    bracket is found, never assumed, unless ``within`` says where a function that is not convex is
    to be followed.

    Prefer it for every one-parameter fit. With R = 6 it needs one evaluation from a start that is
    right to 2 %, two from one that is right to a third, and about 6 from one that is wrong by a
    factor of ten.
    """
    low, high = within
    beta, value, slope = start, math.inf, math.inf
    for step in range(1, MAX_STEPS + 1):
        value, *derivatives = moments(beta)
        if not math.isfinite(sum(derivatives)):
            return Solution(beta, value, step, converged=False)
        first = derivatives[0]
        if first == 0:
            return Solution(beta, value, step, converged=True)
        low, high = (beta, high) if first < 0 else (low, beta)
        change, error = _taylor_step(derivatives)
        target = beta * (1 + change)
        slow = abs(first) > MAX_SLOPE_LEFT * slope
        slope = abs(first)
        if slow or not low < target < high or not 0.1 < 1 + change < 10:
            target, error = _between(low, high, beta, rising=first < 0), math.inf
        if error <= tolerance or high / max(low, 1e-300) - 1 < 1e-15:
            return Solution(target, value, step, converged=True)
        beta = target
    return Solution(beta, value, MAX_STEPS, converged=False)


def _taylor_step(derivatives: list[float]) -> tuple[float, float]:
    """Relative step to where the first derivative vanishes, and its error by the last terms."""
    first, second = derivatives[:2]
    if second <= 0:
        return (math.inf if first < 0 else -math.inf), math.inf
    c = [d / (second * f) for d, f in zip(derivatives, FACTORIALS, strict=False)]
    change = _halley(c)
    if abs(change) > MAX_TAYLOR_STEP:
        return change, math.inf
    for _ in range(8):  # Newton's method on the polynomial, from a point close by
        value = slope = 0.0
        for coefficient in reversed(c):
            slope = slope * change + value
            value = value * change + coefficient
        if not slope > 0.1:  # far from 1, its value at 0: the polynomial is not to be trusted
            return _halley(c), abs(c[2] * change**3)
        change -= value / slope
        if abs(value) < 1e-15:
            break
    if not abs(change) < 1:  # Newton's method has left the neighbourhood of its start
        return _halley(c), math.inf
    return change, max(abs(c[-1]), abs(c[-2])) * abs(change) ** len(c)


def _halley(c: list[float]) -> float:
    """Step of third order where the curvature is well behaved, else Newton's."""
    bend = 1 - c[0] * c[2]
    return -c[0] / bend if bend > 0.5 else -c[0]


def _between(low: float, high: float, beta: float, *, rising: bool) -> float:
    if rising:
        return math.sqrt(beta) * math.sqrt(high) if math.isfinite(high) else beta * 10
    return math.sqrt(beta) * math.sqrt(low) if low > 0 else beta / 10


def root_in_scale(
    function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-10
) -> Solution:
    """Return where a monotone function of a positive scale changes sign, by Brent's method in log.

    Raises `NotIdentified` when the ends have the same sign: a bound is never an answer.
    """
    ends = function(low), function(high)
    if ends[0] * ends[1] > 0:
        signs = f"the function is {ends[0]:g} and {ends[1]:g}"
        raise NotIdentified(f"no solution between {low:g} and {high:g}: {signs}.")
    x, result = brentq(
        lambda s: function(math.exp(s)),
        math.log(low),
        math.log(high),
        xtol=tolerance,
        full_output=True,
    )
    return Solution(math.exp(x), function(math.exp(x)), result.function_calls, result.converged)


def search_in_scale(
    values: Callable[[Floats], Floats],
    low: float,
    high: float,
    *,
    points: int = 33,
    rounds: int = 4,
) -> Solution:
    """Return the global minimum over a positive scale of a function that need not be convex.

    ``values`` evaluates many scales in one pass. A grid in the logarithm is laid over
    ``[low, high]`` and then, ``rounds`` times, over the neighbours of its best point; a parabola
    through the last three points ends it. Raises `NotIdentified` when an end of the first grid is
    as good as its best point: the optimum escapes, and a bound is never an answer.
    """
    grid: Floats = np.linspace(math.log(low), math.log(high), points)
    f = values(np.exp(grid))
    best = int(np.argmin(f))
    as_good = f - f[best] <= RELATIVE_ROUNDING * abs(f[best])
    if not np.isfinite(f[best]) or as_good[0] or as_good[-1]:
        side = "falls" if as_good[0] else "grows"
        where = f"inside [{low:g}, {high:g}]"
        msg = f"the objective has no minimum {where}: it improves as the scale {side}."
        raise NotIdentified(msg)
    for _ in range(rounds):
        grid = np.linspace(float(grid[best - 1]), float(grid[best + 1]), points)
        f = values(np.exp(grid))
        best = min(max(int(np.argmin(f)), 1), points - 2)
    before, here, after = f[best - 1 : best + 2]
    bend = before - 2 * here + after
    shift = 0.5 * (before - after) / bend if bend > 0 else 0.0
    x = float(grid[best] + min(max(shift, -1.0), 1.0) * (grid[1] - grid[0]))
    return Solution(math.exp(x), float(here), rounds + 1, converged=True)
