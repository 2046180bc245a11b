"""What one pass over a block of rows gives to every metric: four numbers for each row.

With ``u = z - max z``, ``e = exp u`` and ``s = Σ_k e_k``, for a row with label y:

    confidence = 1 / s                    correct = 1{argmax z = y}
    nll        = log s - u_y              brier   = Σ_k (e_k / s)² - 2 e_y / s + 1

A soft label W replaces ``1{argmax z = y}`` by ``W_argmax``, ``u_y`` by ``Σ W u``, ``e_y`` by
``Σ W e`` and the 1 by ``Σ W²``. The work is done class by class, on the transposed block: NumPy
adds long columns ten times faster than it adds many short rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from temperance._core.arrays import to_numpy
from temperance._core.checks import LARGEST
from temperance._core.kernels import fused
from temperance.data import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.data import Rows, Totals
    from temperance.data.base import Statistic

    Floats = NDArray[np.float64]


TOGETHER = 16  # blocks that a compiled pass, which writes nothing, takes at once
ROUNDING = 4e-15  # of a confidence, generously
SMALL = 1 << 18  # elements up to which exponentials in float64 cost nothing worth saving


class Outcomes(NamedTuple):
    """How each row came out; ``weight`` is None when every row counts once."""

    confidence: Floats
    correct: Floats
    nll: Floats
    brier: Floats
    weight: Floats | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.confidence.size

    @property
    def mass(self) -> Floats:
        """Weight of each row, 1 where none was given."""
        return np.ones(self.n) if self.weight is None else self.weight


def outcomes(block: Block, *, exact: bool = True) -> Outcomes:
    """Return the outcomes of the rows of a block.

    ``exact`` evaluates the exponentials in float64. Without it float32 logits use float32
    exponentials, ten times faster and right to 3e-7 in each row; float16 and float64 always are
    exact, and so are compiled kernels. A row's outcome depends on that row alone, to the last bit.
    """
    z, w = to_numpy(block.logits), block.weight
    y = cast("NDArray[Any]", block.labels)  # the rows of a metric are labelled
    compiled = fused()
    if compiled is not None and y.ndim == 1:
        return Outcomes._make((*compiled.outcomes(z, y), w))
    if z.shape[0] == 1:  # NumPy adds a lone column in another order: give it company
        pair = Block(np.repeat(z, 2, axis=0), np.repeat(y, 2, axis=0), None)
        confidence, correct, nll, brier, _ = outcomes(pair, exact=exact)
        return Outcomes(confidence[:1], correct[:1], nll[:1], brier[:1], w)
    narrow = not exact and z.dtype == np.float32
    u = z.T.astype(np.float32 if narrow else np.float64, order="C")
    with np.errstate(over="ignore"):
        u -= u.max(axis=0)
    top = u == 0
    e = np.exp(u)
    s = np.add.reduce(e, axis=0, dtype=np.float64)
    own_u, own_e, correct, square = _at_label(u, e, top, y)
    if narrow and not np.isfinite(own_u).all():  # the range of float32 was too small
        return outcomes(block)
    e *= e
    confidence = 1 / s
    brier = np.add.reduce(e, axis=0, dtype=np.float64) * confidence
    brier = (brier - 2 * own_e) * confidence + square
    return Outcomes(confidence, correct, np.log(s) - own_u, np.maximum(brier, 0), w)


def compiled_sums(block: Block, edges: Floats) -> Totals | None:
    """Return what `summed` adds up, from one compiled pass that writes nothing.

    None where there is no such pass: without Numba, or for soft labels.
    """
    compiled, y = fused(), block.labels
    if compiled is None or y is None or y.ndim == 2:
        return None
    scores, bins, reach = compiled.evaluation(to_numpy(block.logits), y, block.weight, edges)
    return scores, bins, block.weight is not None, reach


def summed(rows: Rows, statistic: Statistic) -> tuple[Floats, Floats, bool]:
    """Return sums of weight, accuracy, NLL and Brier, those of bins, and whether there are weights.

    ``statistic`` gives them of a block, and a number that is NaN where a logit is or where a label
    has no column, which compiled passes find out by the way.
    """
    if fused() is None or rows.soft:
        totals = rows.reduce(statistic)
    else:
        totals = rows.reduce_vouched(statistic, _are_sound, labels=True, together=TOGETHER)
    scores, bins, weighted, _ = totals
    return scores, bins, bool(weighted)


def _are_sound(totals: Totals) -> bool:
    return totals[-1] <= LARGEST


def _at_label(
    u: NDArray[Any], e: NDArray[Any], top: NDArray[np.bool_], y: NDArray[Any]
) -> tuple[Floats, Floats, Floats, Floats | float]:
    """``u_y``, ``e_y``, ``1{argmax z = y}`` and 1, or what a soft label makes of them."""
    n = u.shape[1]
    row = np.arange(n, dtype=np.intp)
    if y.ndim == 2:
        soft = y.T
        winner = soft[top.argmax(axis=0), row]
        return (soft * u).sum(axis=0), (soft * e).sum(axis=0), winner, (soft * soft).sum(axis=0)
    place = y * n + row
    own = u.ravel().take(place).astype(np.float64)
    tied = np.count_nonzero(top) > n
    correct = top.argmax(axis=0) == y if tied else own == 0  # of equal logits the first is chosen
    return own, e.ravel().take(place).astype(np.float64), correct.astype(np.float64), 1.0


def exactly(rows: Rows) -> bool:
    """Return whether these rows are worth exponentials in float64."""
    return fused() is not None or not rows.exceeds(SMALL)


def gather(rows: Rows) -> Outcomes:
    """Return the outcomes of all rows, in order: one pass, 40 bytes for each row."""
    *columns, weight = rows.reduce(_as_lists)
    confidence, correct, nll, brier = (np.concatenate(column) for column in columns)
    weighted = weight[0] is not None
    return Outcomes(confidence, correct, nll, brier, np.concatenate(weight) if weighted else None)


def runs(confidence: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct confidences, rising, and which of them each row has.

    Those that differ by no more than their rounding are equal: it depends on the order of classes.
    """
    order = np.argsort(confidence, kind="stable")
    rising = confidence[order]
    first = np.diff(rising, prepend=-np.inf) > ROUNDING
    run = np.empty(confidence.size, np.intp)
    run[order] = np.cumsum(first) - 1
    return rising[first], run


def _as_lists(block: Block) -> Totals:
    """Outcomes as lists of one array each: adding lists keeps all rows."""
    return tuple([column] for column in outcomes(block))
