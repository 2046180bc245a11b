# pyright: basic
"""The pass of the metrics, compiled: `temperance.metrics._outcomes`, and sums of them by bins."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

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
    exponentials,
    inlined,
    jit,
    largest,
    log,
    read_only,
    side_by_side,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is kept of each of 64 rows, in lanes: max z; with u = z - max z and e = exp u, the sums of e
# and of e², u and e of the label, whether it is predicted; at last confidence, NLL and Brier score.
_TOP, _S, _SQUARES, _OWN, _OWN_E, _RIGHT, _SURE, _NLL, _BRIER, _END = (
    U(LANES * j) for j in range(10)
)
_NONE = np.zeros(0)


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
    s = squares = 0.0
    for start in range(0, row.shape[0], CHUNK):
        part = row[start : start + CHUNK]
        count = U(part.shape[0])
        whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
        for k in range(count, whole):
            exponents[k] = LOWEST
        for k in range(count):
            exponents[k] = max((np.float64(part[k]) - top) * LOG2_E, LOWEST)
        s += exponentials(exponents, powers, whole)
        for k in range(whole):
            squares += powers[k] * powers[k]
    own = np.float64(row[y]) - top
    exponents[0] = max(own * LOG2_E, LOWEST)
    lanes[_OWN_E + i] = exponentials(exponents, powers, U(1))
    lanes[_S + i], lanes[_SQUARES + i], lanes[_OWN + i] = s, squares, own
    lanes[_RIGHT + i] = _is_first(row, y) if own == 0 else 0.0


@inlined(fastmath=STRICT)
def _narrow_rows(rows: Any, y: Any, x: Any, exponents: Any, powers: Any, lanes: Any) -> Any:
    """Write the lanes of up to 64 rows; what is returned only keeps LLVM busy."""
    count, n_classes = U(rows.shape[0]), rows.shape[1]
    side_by_side(rows, x, lanes)
    tops = 0
    for k in range(n_classes):
        column, u = x[k], exponents[k * LANES : (k + 1) * LANES]
        for i in range(count):
            d = np.float64(column[i]) - lanes[i]
            tops += d == 0
            u[i] = max(d * LOG2_E, LOWEST)
    total = exponentials(exponents, powers, U(exponents.size))
    for i in range(_S, _OWN):
        lanes[i] = 0.0
    for k in range(0, exponents.size, 2 * LANES):
        es = powers[k : k + 2 * LANES]
        for i in range(count):
            e, f = es[i], es[i + U(LANES)]
            lanes[_S + i] += e + f
            lanes[_SQUARES + i] += e * e + f * f
    for i in range(count):
        own = np.float64(rows[i, y[i]]) - lanes[i]
        lanes[_OWN + i] = own
        lanes[_OWN_E + i] = powers[U(y[i]) * U(LANES) + i]
        lanes[_RIGHT + i] = 1.0 if own == 0 else 0.0
    if tops > rows.shape[0]:  # of equal logits the first is chosen
        for i in range(count):
            lanes[_RIGHT + i] *= _is_first(rows[i], U(y[i]))
    return total


@inlined(fastmath=STRICT)
def _finish(lanes: Any, count: Any) -> None:
    """Write confidence, NLL and Brier score of each row."""
    for i in range(count):
        s, own_e = lanes[_S + i], lanes[_OWN_E + i]
        sure = 1 / s
        lanes[_SURE + i] = sure
        lanes[_NLL + i] = log(s) - lanes[_OWN + i]
        lanes[_BRIER + i] = max((lanes[_SQUARES + i] * sure - 2 * own_e) * sure + 1, 0.0)


@inlined(fastmath=STRICT)
def _place(c: float, edges: Any) -> Any:
    """Return the bin of a confidence; rounding is settled by the edges themselves."""
    last = U(edges.size - 2)
    place = min(U(c * (edges.size - 1)), last)
    while place > 0 and c <= edges[place]:
        place -= U(1)
    while place < last and c > edges[place + U(1)]:
        place += U(1)
    return place


@inlined(fastmath=SUMS)
def _add_up(lanes: Any, weight: Any, edges: Any, scores: Any, bins: Any) -> None:
    """Add some rows to the sums of weight, accuracy, NLL and Brier score, and to the bins.

    Odd and even rows have bins of their own, so that a sum seldom waits for itself.
    """
    mass = right = nll = brier = 0.0
    for i in range(U(weight.size)):
        w = weight[i]
        mass += w
        right += w * lanes[_RIGHT + i]
        nll += w * lanes[_NLL + i]
        brier += w * lanes[_BRIER + i]
    scores[0] += mass
    scores[1] += right
    scores[2] += nll
    scores[3] += brier
    for i in range(U(weight.size)):
        w, c = weight[i], lanes[_SURE + i]
        one = bins[i & U(1), _place(c, edges)]
        one[0] += w
        one[1] += w * c
        one[2] += w * lanes[_RIGHT + i]


def _wide_outcomes(z: Any, y: Any, columns: Any) -> None:
    exponents, powers, lanes = np.empty(CHUNK), np.empty(CHUNK), np.empty(_END)
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(y[start + i]), exponents, powers, lanes, U(i))
        _finish(lanes, U(rows.shape[0]))
        _write(lanes, columns[:, start : start + LANES])


def _narrow_outcomes(z: Any, y: Any, columns: Any) -> None:
    x, lanes = np.empty((z.shape[1] + 1, LANES), z.dtype), np.empty(_END)
    exponents, powers = _in_pairs(z.shape[1])
    total = 0.0
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        total += _narrow_rows(rows, y[start : start + LANES], x, exponents, powers, lanes)
        _finish(lanes, U(rows.shape[0]))
        _write(lanes, columns[:, start : start + LANES])
    lanes[0] = total


def _wide_evaluation(z: Any, y: Any, weight: Any, edges: Any, scores: Any, bins: Any) -> None:
    exponents, powers, lanes = np.empty(CHUNK), np.empty(CHUNK), np.empty(_END)
    ones = np.ones(LANES)
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_row(rows[i], U(y[start + i]), exponents, powers, lanes, U(i))
        _finish(lanes, U(rows.shape[0]))
        w = weight[start : start + LANES] if weight.size else ones[: rows.shape[0]]
        _add_up(lanes, w, edges, scores, bins)


def _narrow_evaluation(z: Any, y: Any, weight: Any, edges: Any, scores: Any, bins: Any) -> None:
    x, lanes = np.empty((z.shape[1] + 1, LANES), z.dtype), np.empty(_END)
    exponents, powers = _in_pairs(z.shape[1])
    ones = np.ones(LANES)
    total = 0.0
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        total += _narrow_rows(rows, y[start : start + LANES], x, exponents, powers, lanes)
        _finish(lanes, U(rows.shape[0]))
        w = weight[start : start + LANES] if weight.size else ones[: rows.shape[0]]
        _add_up(lanes, w, edges, scores, bins)
    scores[0] += 0 * total


@inlined()
def _in_pairs(n_classes: int) -> Any:
    """Exponents and powers of 64 rows, with room for an even number of classes."""
    size = (n_classes + 1) // 2 * (2 * LANES)
    return np.full(size, LOWEST), np.empty(size)


@inlined()
def _write(lanes: Any, columns: Any) -> None:
    """Write confidence, whether it is right, NLL and Brier score of some rows."""
    for i in range(U(columns.shape[1])):
        columns[0, i] = lanes[_SURE + i]
        columns[1, i] = lanes[_RIGHT + i]
        columns[2, i] = lanes[_NLL + i]
        columns[3, i] = lanes[_BRIER + i]


def _bin_sums(confidence: Any, correct: Any, weight: Any, edges: Any) -> Any:
    sums = np.zeros((3, edges.size - 1))
    for i in range(confidence.size):
        c, w = confidence[i], weight[i] if weight.size else 1.0
        place = _place(c, edges)
        sums[0, place] += w
        sums[1, place] += w * c
        sums[2, place] += w * correct[i]
    return sums


# ------------------------------------------------------------------------------------- doors


def _labelled(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    return read_only(nb.from_dtype(dtype), 2), read_only(types.int64, 1)


@cache
def _outcomes(wide: bool, dtype: np.dtype[Any]) -> Any:
    signature = (*_labelled(dtype), types.Array(types.float64, 2, "C"))
    return jit(_wide_outcomes if wide else _narrow_outcomes, signature, fastmath=STRICT)


def outcomes(z: NDArray[Any], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Return confidence, whether it is right, NLL and Brier score of each row with a hard label."""
    z = as_contiguous(z)
    columns = np.empty((4, z.shape[0]))
    _outcomes(z.shape[1] > NARROW, z.dtype)(z, np.ascontiguousarray(y), columns)
    return tuple(columns)


@cache
def _evaluation(wide: bool, dtype: np.dtype[Any]) -> Any:
    numbers = read_only(types.float64, 1)
    sums = types.Array(types.float64, 1, "C"), types.Array(types.float64, 3, "C")
    signature = (*_labelled(dtype), numbers, numbers, *sums)
    return jit(_wide_evaluation if wide else _narrow_evaluation, signature, fastmath=STRICT)


def evaluation(
    z: NDArray[Any],
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sums of weight, accuracy, NLL, Brier score, and what `bin_sums` returns."""
    z = as_contiguous(z)
    scores, bins = np.zeros(4), np.zeros((2, edges.size - 1, 4))
    w = _NONE if weight is None else np.ascontiguousarray(weight)
    kernel = _evaluation(z.shape[1] > NARROW, z.dtype)
    kernel(z, np.ascontiguousarray(y), w, edges, scores, bins)
    return scores, bins.sum(axis=0).T[:3]


@cache
def _binning() -> Any:
    return jit(_bin_sums, (read_only(types.float64, 1),) * 4, fastmath=STRICT)


def bin_sums(
    confidence: NDArray[np.float64],
    correct: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weight, confidence and correctness, summed over the bins between ``edges``."""
    columns = (confidence, correct, _NONE if weight is None else weight, edges)
    return _binning()(*(np.ascontiguousarray(column) for column in columns))
