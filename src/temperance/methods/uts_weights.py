"""How far the weights of unsupervised temperature scaling reach: the first step of `uts`.

    w* = argmin_w J(w),        J(w) = Σ_k ( (1/n) Σ_{i: ŷ_i ≠ k} W_ik(w) - m_k )²,
    W_ik(w) = (p_ik / (1 - p_ik))^(1/w)

written in v = 1/w and the log-odds o = log p/(1 - p), so that ``W = exp(v o)``. J is no convex
function: a grid over twenty doublings of v, on some rows, finds the valley, where a doubling of v
is the square of a weight; the derivatives ``Σ_i o^r W``, on all rows, find its lowest point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import to_numpy
from temperance._core.checks import NotIdentified
from temperance._core.kernels import fused
from temperance._core.optimise import Solution, minimise_in_scale, search_in_scale
from temperance.data import ArrayRows, Block, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

COVER = 0.99  # the authors' factor in the deficit
SPAN = (2.0**-10, 2.0**10)  # of 1/w
GRID = 41  # points of the first search, two to a doubling
ORDERS = 6  # derivatives, with which one pass mostly ends what some rows have begun
LEIBNIZ = [  # from the products of the derivatives of d to the derivatives of J = d·d
    [(math.comb(m, r), r, m - r) for r in range(m + 1)] for m in range(ORDERS + 1)
]
SOME = 250  # rows at least that it reads
HELD = 1 << 22  # elements of which the odds are kept between passes
UNLIKELY = -1e30  # log-odds of what is not counted


@dataclass(frozen=True)
class Deficit:
    """Predicted counts of a target and how far they fall short of the prior."""

    counts: NDArray[np.int64]
    missing: Matrix

    @classmethod
    def of(
        cls,
        rows: Rows,
        q: Matrix,
        shrink_to: int | None,
        known: NDArray[np.int64] | None = None,
    ) -> Deficit:
        """Count predictions; with ``shrink_to``, tame the sampling noise of a small sample."""
        counts = rows.reduce(count_predictions)[0] if known is None else known
        n = int(counts.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, counts / (n * q), np.inf)
        if shrink_to is not None and n < shrink_to:
            ratio = 1 + (ratio - 1) * _shrinkage(ratio, q, n, shrink_to)
        return cls(counts, np.maximum(0.0, 1 - COVER * ratio))


def _shrinkage(ratio: Matrix, q: Matrix, n: int, size: int) -> float:
    """Factor that gives relative deviations from n rows the size they would have from ``size``.

    The mean square of n_k/(n q_k) - 1 is that of the true deviations plus (1 - q_k)/(n q_k) for the
    sampling; the first is kept and the second replaced by its value at ``size`` rows.
    """
    here = q > 0
    seen = float(np.mean((ratio[here] - 1) ** 2))
    noise = float(np.mean((1 - q[here]) / q[here])) / n
    true = max(0.0, seen - noise)
    return min(1.0, np.sqrt((true + noise * n / size) / seen)) if seen > 0 else 1.0


def count_predictions(block: Block) -> tuple[NDArray[np.int64]]:
    """Return the number of rows predicted as each class."""
    z = to_numpy(block.logits)
    return (np.bincount(z.argmax(axis=1), minlength=z.shape[1]),)


def held_odds(rows: Rows) -> tuple[Matrix | None, NDArray[np.int64] | None]:
    """Return the log-odds of all rows where there is room for them, and counts that come with."""
    if not isinstance(rows, ArrayRows) or rows.exceeds(HELD):
        return None, None
    rows.reduce(lambda _: ())  # looks for NaN, unless that is done
    z, compiled = to_numpy(rows.logits), fused()
    return compiled.log_odds(z) if compiled is not None else (log_odds(z), None)


def find_reach(
    rows: Rows,
    q: Matrix,
    deficit: Deficit,
    form: str,
    odds: Matrix | None = None,
    seen: Matrix | None = None,
) -> float:
    """Return 1/w*, the global minimum of J.

    ``odds`` are those of `held_odds`; ``seen`` are the `rough_means` of rows like these.
    """
    try:
        if form == "paper":  # odds that depend on w: for study, so on a grid and slowly
            solution = search_in_scale(reach_objective(rows, q, deficit, form), *SPAN)
        else:
            held = rows.mapped(log_odds) if odds is None else ArrayRows(odds, checked=True)
            solution = _search(held, _wanted(q, deficit, form), seen)
    except NotIdentified as error:
        msg = f"UTS in its {form} form has no optimal weight: {error}"
        raise NotIdentified(msg) from None
    if form != "reference":
        n = int(deficit.counts.sum())
        gain = float(((deficit.counts / n - q) ** 2).sum()) - solution.value
        noise = float((q * (1 - q)).sum()) / n
        if gain < noise:  # what chance does to the predicted counts; w = 0 is as good
            msg = (
                f"UTS in its {form} form has no optimal weight: against w = 0, where T is 0 too, "
                f"the best w lowers the objective by {gain:.2g}, less than its noise {noise:.2g}."
            )
            raise NotIdentified(msg)
    return solution.x


def _wanted(q: Matrix, deficit: Deficit, form: str) -> Matrix:
    """Mean weight of the rows where a class is not predicted; it is 1 where it is."""
    return deficit.missing if form == "reference" else q - deficit.counts / deficit.counts.sum()


def reach_objective(
    rows: Rows, q: Matrix, deficit: Deficit, form: str
) -> Callable[[Matrix], Matrix]:
    """Return J as a function of many v = 1/w at once: one pass over the rows."""
    wanted = _wanted(q, deficit, form)

    def sums(block: Block, v: Matrix) -> Matrix:
        z = to_numpy(block.logits).astype(np.float64)
        if form == "paper":
            return np.stack([np.exp(x * log_odds(z / x)).sum(axis=0) for x in v])
        odds = log_odds(z)
        return np.stack([np.exp(x * odds).sum(axis=0) for x in v])

    def objective(v: Matrix) -> Matrix:
        total = rows.reduce(lambda block: (sums(block, v),))[0] / rows.n
        return ((total - wanted) ** 2).sum(axis=1)

    return objective


def rough_means(rows: Rows) -> Matrix:
    """Return the mean weight of each class on the grid of v = 1/w, from some rows."""
    return _grid_means(rows.head(SOME).mapped(log_odds))


def _grid_means(odds: Rows) -> Matrix:
    v = np.geomspace(*SPAN, GRID)
    return odds.reduce(lambda block: (_grid_sums(block.logits, v),))[0] / odds.n


def _search(odds: Rows, wanted: Matrix, seen: Matrix | None) -> Solution:
    """Minimise J where the odds do not depend on w: a grid on some rows, then Newton on all."""
    some = odds.head(SOME)
    if isinstance(some, ArrayRows):  # they are read several times
        some = ArrayRows(np.ascontiguousarray(some.logits), checked=True)
    means = _grid_means(some) if seen is None else seen

    def moments(v: float, rows: Rows) -> tuple[float, ...]:
        d = rows.reduce(lambda block: (exponential_sums(block.logits, v),))[0] / rows.n
        d[0] -= wanted
        products: list[list[float]] = (d @ d.T).tolist()
        return tuple(sum([c * products[r][s] for c, r, s in terms]) for terms in LEIBNIZ)

    def objective(_: Matrix) -> Matrix:
        return ((means - wanted) ** 2).sum(axis=1)

    start = search_in_scale(objective, *SPAN, points=GRID, rounds=0).x
    within = start / 4, start * 4
    near = minimise_in_scale(partial(moments, rows=some), start, tolerance=1e-3, within=within)
    return minimise_in_scale(partial(moments, rows=odds), near.x, tolerance=1e-10, within=within)


def log_odds(logits: NDArray[Any]) -> Matrix:
    """Return ``log p_k - log(1 - p_k)`` where k is not predicted, next to -∞ where it is."""
    z, compiled = to_numpy(logits), fused()
    if compiled is not None:
        return compiled.log_odds(z)[0]
    u = z.astype(np.float64)
    u -= u.max(axis=1, keepdims=True)
    e = np.exp(u)
    rest = e.sum(axis=1, keepdims=True) - e
    predicted = np.arange(len(u)), z.argmax(axis=1)
    rest[predicted] = 1.0
    u -= np.log(rest, out=rest)
    u[predicted] = UNLIKELY
    return u


def _grid_sums(odds: Matrix, v: Matrix) -> Matrix:
    """``Σ_i W_ik`` for each v = 1/w, of which every other is twice the one before."""
    out, compiled = np.empty((len(v), odds.shape[1])), fused()
    for first in (0, 1):
        if compiled is not None:
            out[first::2] = compiled.squared_sums(odds, v[first], len(v[first::2]))
            continue
        e = np.exp(v[first] * odds)
        for j in range(first, len(v), 2):
            out[j] = e.sum(axis=0)
            e *= e
    return out


def exponential_sums(odds: Matrix, v: float) -> Matrix:
    """Return ``Σ_i (v o_ik)^r W_ik`` for r = 0 … 6: sums and derivatives of the weights."""
    compiled = fused()
    if compiled is not None:
        return compiled.exponential_sums(odds, v)
    u = v * odds
    e = np.exp(u)
    out = np.empty((ORDERS + 1, odds.shape[1]))
    for r in range(ORDERS + 1):
        out[r] = e.sum(axis=0)
        e *= u
    return out
