# pyright: basic
"""The pass of the metrics, compiled: `temperance.metrics._outcomes`, and sums of them by bins."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._checks import LARGEST
from temperance._fused.elementary import (
    CHUNK,
    LANES,
    LOG2_E,
    LOWEST,
    NARROW,
    STRICT,
    SUMS,
    VECTOR,
    U,
    as_contiguous,
    exp2,
    exponentials,
    inlined,
    jit,
    largest,
    log,
    read_only,
)
from temperance._fused.layout import lay

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is kept of each of 64 rows, in lanes: max z; with u = z - max z and e = exp u, the sums of e
# and of e², u and e of the label, whether it is predicted; at last confidence and Brier score.
# The last lanes hold ones, the weights of rows that have none.
_TOP, _S, _SQUARES, _OWN, _OWN_E, _RIGHT, _SURE, _BRIER, _PLACE, _ENERGY, _ONES, _END = (
    U(LANES * j) for j in range(12)
)
_ALL = U(LANES)
_FULL = 2.0**500  # a product of sums whose logarithm is due: those of 64 more may be 32^64
_NEAR = 1e-9  # rounding of a confidence, generously
_PACKED = 2.0**26  # a count of rows and this times that of the right ones are one number
_NONE = np.zeros(0)


@inlined(fastmath=SUMS)
def _reach(rows: Any, squares: Any) -> float:
    """Return 0 where sums of squares show that all logits are small, else the largest of them.

    NaN where one is not finite.
    """
    total, top = squares.dtype.type(0), 0.0
    for i in range(U(squares.size)):
        total += squares[i]
    if total <= LARGEST:
        return top
    for row in rows:
        for k in range(U(row.size)):
            v = abs(np.float64(row[k]))
            if not v < np.inf:
                return np.nan
            top = max(top, v)
    return top


@inlined()
def _is_first(row: Any, y: Any) -> float:
    """Return 1 where no earlier logit equals that of class y, else 0."""
    first = 1.0
    for k in range(y):
        if row[k] == row[y]:
            first = 0.0
    return first


@inlined(fastmath=SUMS)
def _wide_row(row: Any, y: Any, exponents: Any, powers: Any, lanes: Any, i: Any) -> None:
    """Write the lane of one row."""
    top = np.float64(largest(row))
    s = squares = energy = 0.0
    for start in range(0, row.shape[0], CHUNK):
        part = row[start : start + CHUNK]
        count = U(part.shape[0])
        whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
        for k in range(count, whole):
            exponents[k] = LOWEST
        for k in range(count):
            v = np.float64(part[k])
            energy += v * v
            exponents[k] = max((v - top) * LOG2_E, LOWEST)
        s += exponentials(exponents, powers, whole)
        for k in range(whole):
            squares += powers[k] * powers[k]
    own = np.float64(row[y]) - top
    exponents[0] = max(own * LOG2_E, LOWEST)
    lanes[_OWN_E + i] = exponentials(exponents, powers, U(1))
    lanes[_S + i], lanes[_SQUARES + i], lanes[_OWN + i], lanes[_ENERGY + i] = (
        s,
        squares,
        own,
        energy,
    )
    lanes[_RIGHT + i] = _is_first(row, y) if own == 0 else 0.0


@inlined(fastmath=SUMS)
def _narrow_rows(rows: Any, y: Any, x: Any, powers: Any, lanes: Any) -> float:
    """Write the lanes of up to 64 rows in x; what is returned only keeps LLVM busy."""
    n_classes, total = rows.shape[1], 0.0
    for i in range(_ALL):
        lanes[_S + i] = lanes[_SQUARES + i] = 0.0
    for k in range(n_classes):
        column, es = x[k], powers[k]
        for i in range(_ALL):
            e = exp2(max((np.float64(column[i]) - lanes[i]) * LOG2_E, LOWEST))
            es[i] = e
            total += e
            lanes[_S + i] += e
            lanes[_SQUARES + i] += e * e
    for i in range(U(rows.shape[0])):
        k = U(y[i])
        lanes[_OWN + i] = np.float64(rows[i, k]) - lanes[i]
        lanes[_OWN_E + i] = powers[k, i]
        lanes[_RIGHT + i] = np.float64(y[i])
    first = x[n_classes]
    for i in range(_ALL):
        lanes[_RIGHT + i] = 1.0 if lanes[_RIGHT + i] == np.float64(first[i]) else 0.0
    return total


@inlined(fastmath=STRICT)
def _finish(lanes: Any) -> None:
    """Write confidence and Brier score of each row."""
    for i in range(_ALL):
        sure = 1 / lanes[_S + i]
        lanes[_SURE + i] = sure
        own = 2 * lanes[_OWN_E + i]
        lanes[_BRIER + i] = max((lanes[_SQUARES + i] * sure - own) * sure + 1, 0.0)


@inlined(fastmath=STRICT)
def _place(c: float, edges: Any) -> Any:
    """Return the bin of a confidence; rounding is settled by the edges themselves."""
    last = U(edges.size - 2)
    place = min(U(np.int64(c * (edges.size - 1))), last)
    while place > 0 and c <= edges[place]:
        place -= U(1)
    while place < last and c > edges[place + U(1)]:
        place += U(1)
    return place


@inlined(fastmath=STRICT)
def _find_places(lanes: Any, n_bins: float) -> Any:
    """Write the bins of 64 confidences; return whether none is so near an edge that it may err."""
    last, near = n_bins - 1, 0
    for i in range(_ALL):
        scaled = lanes[_SURE + i] * n_bins
        below = np.floor(scaled)
        near += abs(scaled - below - 0.5) > 0.5 - _NEAR * n_bins and scaled < last + 0.5
        lanes[_PLACE + i] = min(below, last)
    return near == 0


@inlined(fastmath=SUMS)
def _add_all(lanes: Any, scores: Any, pairs: Any, product: float) -> float:
    """Add 64 rows that count once each. The logarithm of a product is the sum of 64.

    Odd and even rows have bins of their own, so that a sum seldom waits for itself.
    """
    right = own = brier = 0.0
    for i in range(_ALL):
        right += lanes[_RIGHT + i]
        own += lanes[_OWN + i]
        brier += lanes[_BRIER + i]
        product *= lanes[_S + i]
    scores[0] += LANES
    scores[1] += right
    scores[2] -= own
    scores[3] += brier
    for i in range(_ALL):
        lanes[_BRIER + i] = 1 + _PACKED * lanes[_RIGHT + i]
    for i in range(U(0), _ALL, U(2)):
        one = pairs[0, U(np.int64(lanes[_PLACE + i]))]
        two = pairs[1, U(np.int64(lanes[_PLACE + U(1) + i]))]
        one[0] += lanes[_SURE + i]
        one[1] += lanes[_BRIER + i]
        two[0] += lanes[_SURE + U(1) + i]
        two[1] += lanes[_BRIER + U(1) + i]
    if product > _FULL:
        scores[2] += log(product)
        product = 1.0
    return product


@inlined(fastmath=SUMS)
def _add_up(lanes: Any, weight: Any, edges: Any, scores: Any, bins: Any) -> None:
    """Add some rows, by their weights."""
    mass = right = nll = brier = 0.0
    for i in range(U(weight.size)):
        w = weight[i]
        mass += w
        right += w * lanes[_RIGHT + i]
        nll += w * (log(lanes[_S + i]) - lanes[_OWN + i])
        brier += w * lanes[_BRIER + i]
    scores[0] += mass
    scores[1] += right
    scores[2] += nll
    scores[3] += brier
    for i in range(U(weight.size)):
        w, c = weight[i], lanes[_SURE + i]
        place = _place(c, edges)
        bins[0, place] += w
        bins[1, place] += w * c
        bins[2, place] += w * lanes[_RIGHT + i]


@inlined()
def _unpack(pairs: Any, bins: Any) -> None:
    """Add the bins of odd and of even rows to the others."""
    for j in range(bins.shape[1]):
        for one in range(2):
            right = np.floor(pairs[one, j, 1] / _PACKED)
            bins[0, j] += pairs[one, j, 1] - _PACKED * right
            bins[1, j] += pairs[one, j, 0]
            bins[2, j] += right


@inlined()
def _write(lanes: Any, columns: Any) -> None:
    """Write confidence, whether it is right, NLL and Brier score of some rows."""
    for i in range(U(columns.shape[1])):
        columns[0, i] = lanes[_SURE + i]
        columns[1, i] = lanes[_RIGHT + i]
        columns[2, i] = log(lanes[_S + i]) - lanes[_OWN + i]
        columns[3, i] = lanes[_BRIER + i]


# ----------------------------------------------------------------------------------- kernels
# Work arrays come from outside: to compile the making of one takes longer than to make many.


def _wide_outcomes(z: Any, y: Any, columns: Any, exponents: Any, powers: Any, lanes: Any) -> None:
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(y[start + i]), exponents, powers, lanes, U(i))
        _finish(lanes)
        _write(lanes, columns[:, start : start + LANES])


def _narrow_outcomes(z: Any, y: Any, columns: Any, x: Any, powers: Any, lanes: Any) -> None:
    total = 0.0
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        lay(rows, x, lanes)
        total += _narrow_rows(rows, y[start : start + LANES], x, powers, lanes)
        _finish(lanes)
        _write(lanes, columns[:, start : start + LANES])
    lanes[0] = total


def _wide_evaluation(
    z: Any, y: Any, weight: Any, edges: Any, scores: Any, bins: Any, u: Any, e: Any, lanes: Any
) -> float:
    reach = 0.0
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(y[start + i]), u, e, lanes, U(i))
        here = _reach(rows, lanes[_ENERGY : _ENERGY + U(rows.shape[0])])
        if not here < np.inf:
            return here
        reach = max(reach, here)
        _finish(lanes)
        ones = lanes[_ONES : _ONES + U(rows.shape[0])]
        w = weight[start : start + LANES] if weight.size else ones
        _add_up(lanes, w, edges, scores, bins)
    return reach


def _narrow_evaluation(
    z: Any,
    y: Any,
    weight: Any,
    edges: Any,
    scores: Any,
    bins: Any,
    x: Any,
    powers: Any,
    lanes: Any,
) -> float:
    pairs = bins[3:].reshape((2, bins.shape[1], 2))
    product, total, reach, n_bins = 1.0, 0.0, 0.0, np.float64(edges.size - 1)
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        lay(rows, x, lanes)
        here = _reach(rows, x[rows.shape[1] + 1])
        if not here < np.inf:
            return here
        reach = max(reach, here)
        total += _narrow_rows(rows, y[start : start + LANES], x, powers, lanes)
        _finish(lanes)
        alike = weight.size == 0 and rows.shape[0] == LANES
        if alike and _find_places(lanes, n_bins):
            product = _add_all(lanes, scores, pairs, product)
        else:
            ones = lanes[_ONES : _ONES + U(rows.shape[0])]
            w = weight[start : start + LANES] if weight.size else ones
            _add_up(lanes, w, edges, scores, bins)
    scores[2] += log(product) + 0 * total
    _unpack(pairs, bins)
    return reach


# ------------------------------------------------------------------------------------- doors

_NUMBERS, _TABLE = types.Array(types.float64, 1, "C"), types.Array(types.float64, 2, "C")
_READ = read_only(types.float64, 1)


def _kernel(functions: tuple[Any, Any], wide: bool, dtype: np.dtype[Any], *others: Any) -> Any:
    logits = nb.from_dtype(dtype)
    first = _NUMBERS if wide else types.Array(logits, 2, "C")
    given = read_only(logits, 2), read_only(types.int64, 1), *others
    work = first, _NUMBERS if wide else _TABLE, _NUMBERS
    return jit(functions[not wide], (*given, *work), fastmath=STRICT)


@cache
def _outcomes(wide: bool, dtype: np.dtype[Any]) -> Any:
    return _kernel((_wide_outcomes, _narrow_outcomes), wide, dtype, _TABLE)


@cache
def _evaluation(wide: bool, dtype: np.dtype[Any]) -> Any:
    sums = _READ, _READ, _NUMBERS, _TABLE
    return _kernel((_wide_evaluation, _narrow_evaluation), wide, dtype, *sums)


def _work(z: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Arrays in which a kernel keeps what it has of some rows."""
    lanes, k = np.ones(int(_END)), z.shape[1]
    if k > NARROW:
        return np.full(CHUNK, LOWEST), np.empty(CHUNK), lanes
    return np.zeros((k + 2, LANES), z.dtype), np.empty((k, LANES)), lanes


def outcomes(z: NDArray[Any], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Return confidence, whether it is right, NLL and Brier score of each row with a hard label."""
    z = as_contiguous(z)
    columns = np.empty((4, z.shape[0]))
    kernel = _outcomes(z.shape[1] > NARROW, z.dtype)
    kernel(z, np.ascontiguousarray(y), columns, *_work(z))
    return tuple(columns)


def evaluation(
    z: NDArray[Any],
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return sums of weight, accuracy, NLL, Brier score, what `bin_sums` returns, and the reach.

    That is a bound of the logits, or 0 where they are small, or NaN where one is not finite.
    """
    z, n_bins = as_contiguous(z), edges.size - 1
    scores, bins = np.zeros(4), np.zeros((7, n_bins))  # the last four for the kernel
    w = _NONE if weight is None else np.ascontiguousarray(weight)
    kernel = _evaluation(z.shape[1] > NARROW, z.dtype)
    reach = kernel(z, np.ascontiguousarray(y), w, edges, scores, bins, *_work(z))
    if math.isnan(reach):
        scores.fill(reach)
    return scores, bins[:3], reach


def _bin_sums(confidence: Any, correct: Any, weight: Any, edges: Any) -> Any:
    sums = np.zeros((3, edges.size - 1))
    for i in range(confidence.size):
        c, w = confidence[i], weight[i] if weight.size else 1.0
        place = _place(c, edges)
        sums[0, place] += w
        sums[1, place] += w * c
        sums[2, place] += w * correct[i]
    return sums


@cache
def _binning() -> Any:
    return jit(_bin_sums, (_READ,) * 4, fastmath=STRICT)


def bin_sums(
    confidence: NDArray[np.float64],
    correct: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weight, confidence and correctness, summed over the bins between ``edges``."""
    columns = (confidence, correct, _NONE if weight is None else weight, edges)
    return _binning()(*(np.ascontiguousarray(column) for column in columns))
