# pyright: basic
"""The pass of the metrics, compiled: `temperance.metrics._outcomes`, and sums of them by bins."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.checks import LARGEST
from temperance._core.fused.elementary import (
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
    desk,
    exponentials,
    inlined,
    jit,
    larger,
    largest,
    log,
    read_only,
)
from temperance._core.fused.layout import lay
from temperance._core.fused.tallies import (
    ALL,
    BRIER,
    COPIES,
    END,
    ENERGY,
    OWN,
    OWN_E,
    PLACE,
    RIGHT,
    SCORES,
    SHIFT,
    SQUARES,
    SURE,
    S,
    add_classes,
    compare,
    exponentiate,
    find_place,
    finish,
    plus_one,
    plus_weighted,
    put_ones,
    put_own,
    put_weighted,
    unpack,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FULL = 2.0**500  # a product of sums whose logarithm is due: those of 64 more may be 32^64
_NEAR = 1e-9  # rounding of a confidence, generously
_NONE = np.zeros(0)


@inlined(fastmath=SUMS)
def _total(numbers: Any) -> Any:
    total = numbers.dtype.type(0)
    for i in range(U(numbers.size)):
        total += numbers[i]
    return total


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
    lanes[OWN_E + i] = exponentials(exponents, powers, U(1))
    lanes[S + i], lanes[SQUARES + i], lanes[OWN + i], lanes[ENERGY + i] = (
        s,
        squares,
        own,
        energy,
    )
    lanes[RIGHT + i] = _is_first(row, y) if own == 0 else 0.0


@inlined()
def _narrow_rows(labels: Any, x: Any, powers: Any, lanes: Any) -> None:
    """Write the lanes of up to 64 rows in x, in short loops, as for wide rows."""
    n_classes = U(powers.shape[0])
    for k in range(n_classes):
        for i in range(U(0), ALL, U(VECTOR)):
            exponentiate(x[k], powers[k], lanes, i)
    for i in range(U(0), ALL, U(VECTOR)):
        add_classes(powers, lanes, i, n_classes)
    for i in range(U(labels.size)):
        put_own(x, powers, lanes, labels[i], i)
        lanes[RIGHT + i] = labels[i]
    for i in range(U(0), ALL, U(VECTOR)):
        compare(x[n_classes], lanes, i)


@inlined()
def _are_classes(labels: Any, n_classes: Any) -> bool:
    """Return whether labels are numbers of classes: neither these nor what is left is negative."""
    signs = 0
    for i in range(U(labels.size)):
        signs |= labels[i] | (n_classes - 1 - labels[i])
    return signs >= 0


@inlined()
def _settle(lanes: Any, edges: Any) -> None:
    """Compare confidences that are near an edge with the edge itself."""
    for i in range(ALL):
        c, place = lanes[SURE + i], U(np.int64(lanes[PLACE + i] - SHIFT))
        if place > 0 and c <= edges[place]:
            lanes[PLACE + i] -= 1
        elif c > edges[place + U(1)]:
            lanes[PLACE + i] += 1


@inlined(fastmath=SUMS)
def _close(lanes: Any, edges: Any) -> None:
    """Write confidences, Brier scores and bins of 64 rows."""
    n_bins, furthest = np.float64(edges.size - 1), 0.0
    for i in range(ALL):
        finish(lanes, i)
        furthest = larger(find_place(lanes, i, n_bins), furthest)
    if furthest > 0.5 - _NEAR * n_bins:
        _settle(lanes, edges)


@inlined(fastmath=SUMS)
def _add_all(lanes: Any, n_bins: Any, sums: Any, product: float) -> float:
    """Add 64 rows that count once each."""
    totals = 0.0, 0.0, product
    for i in range(ALL):
        totals = plus_one(totals, lanes, i)
    own, brier, product = totals
    sums[2] -= own
    sums[3] += brier
    first = SCORES + U(3) * n_bins
    for i in range(U(0), ALL, U(COPIES)):
        put_ones(sums, first, lanes, i)
    if product > _FULL:
        sums[2] += log(product)
        product = 1.0
    return product


@inlined(fastmath=SUMS)
def _add_up(lanes: Any, weight: Any, start: Any, count: Any, n_bins: Any, sums: Any) -> None:
    """Add some rows, by their weights."""
    totals = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        w = weight[U(start) + i] if weight.size else 1.0
        totals = plus_weighted(totals, w, lanes, i)
        put_weighted(sums, U(np.int64(lanes[PLACE + i] - SHIFT)), n_bins, w, lanes, i)
    for r in range(4):
        sums[r] += totals[r]


@inlined()
def _write(lanes: Any, columns: Any) -> None:
    """Write confidence, whether it is right, NLL and Brier score of some rows."""
    for i in range(U(columns.shape[1])):
        columns[0, i] = lanes[SURE + i]
        columns[1, i] = lanes[RIGHT + i]
        columns[2, i] = log(lanes[S + i]) - lanes[OWN + i]
        columns[3, i] = lanes[BRIER + i]


# ----------------------------------------------------------------------------------- kernels
# Work arrays come from outside: to compile the making of one takes longer than to make many.


def _wide_outcomes(z: Any, y: Any, columns: Any, exponents: Any, powers: Any, lanes: Any) -> None:
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(y[start + i]), exponents, powers, lanes, U(i))
        for i in range(ALL):
            finish(lanes, U(i))
        _write(lanes, columns[:, start : start + LANES])


def _narrow_outcomes(z: Any, y: Any, columns: Any, x: Any, powers: Any, lanes: Any) -> None:
    for start in range(0, z.shape[0], LANES):
        lay(z[start : start + LANES], x, lanes)
        _narrow_rows(y[start : start + LANES], x, powers, lanes)
        for i in range(ALL):
            finish(lanes, U(i))
        _write(lanes, columns[:, start : start + LANES])


def _wide_evaluation(
    z: Any, y: Any, weight: Any, edges: Any, limit: float, sums: Any, u: Any, e: Any, lanes: Any
) -> Any:
    n_bins = U(edges.size - 1)
    for start in range(0, z.shape[0], LANES):
        rows, labels = z[start : start + LANES], y[start : start + LANES]
        count = U(rows.shape[0])
        if not _are_classes(labels, rows.shape[1]):
            return False
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(labels[i]), u, e, lanes, U(i))
        if not _total(lanes[ENERGY : ENERGY + count]) <= limit:
            return False
        _close(lanes, edges)
        _add_up(lanes, weight, start, count, n_bins, sums)
    return True


def _narrow_evaluation(
    z: Any, y: Any, weight: Any, edges: Any, limit: float, sums: Any, x: Any, e: Any, lanes: Any
) -> Any:
    n_bins, product = U(edges.size - 1), 1.0
    for start in range(0, z.shape[0], LANES):
        rows, labels = z[start : start + LANES], y[start : start + LANES]
        lay(rows, x, lanes)
        if not (_total(x[rows.shape[1] + 1]) <= limit and _are_classes(labels, rows.shape[1])):
            return False
        _narrow_rows(labels, x, e, lanes)
        _close(lanes, edges)
        if weight.size == 0 and rows.shape[0] == LANES:
            product = _add_all(lanes, n_bins, sums, product)
        else:
            _add_up(lanes, weight, start, U(rows.shape[0]), n_bins, sums)
    sums[2] += log(product)
    for j in range(n_bins):
        unpack(sums, j, n_bins)
    return True


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
    others = _READ, _READ, types.float64, _NUMBERS
    return _kernel((_wide_evaluation, _narrow_evaluation), wide, dtype, *others)


def _work(z: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Arrays in which a kernel keeps what it has of some rows; those of the last may be fewer."""
    k = z.shape[1]
    if k > NARROW:
        exponents, powers, lanes = desk(CHUNK, CHUNK, int(END))
        lanes.fill(1.0)
        return exponents, powers, lanes
    x, powers, lanes = desk((k + 2) * LANES, k * LANES, int(END))
    x.fill(0.0)
    lanes.fill(1.0)
    columns = x.view(z.dtype)[: x.size].reshape(k + 2, LANES)
    return columns, powers.reshape(k, LANES), lanes


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

    That is a bound of the logits, or 0 where they are small, or NaN where one is not finite or a
    label is none.
    """
    z, n_bins = as_contiguous(z), edges.size - 1
    given = z, np.ascontiguousarray(y), _NONE if weight is None else np.ascontiguousarray(weight)
    kernel, reach = _evaluation(z.shape[1] > NARROW, z.dtype), 0.0
    sums = np.zeros(4 + (3 + 2 * COPIES) * n_bins)  # scores, sums of the bins, the kernel's own
    if not kernel(*given, edges, LARGEST, sums, *_work(z)):  # some logit, or a square, is large
        reach = float(np.abs(z).max())
        sums = np.zeros_like(sums)
        if not (math.isfinite(reach) and kernel(*given, edges, np.inf, sums, *_work(z))):
            sums[:] = reach = math.nan
    return sums[:4], sums[4 : 4 + 3 * n_bins].reshape(3, n_bins), reach


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
