# pyright: basic
"""The pass of `temperance.labelfree.matching.beliefs`, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._fused.elementary import (
    LANES,
    LOG2_E,
    LOWEST,
    NARROW,
    SUMS,
    VECTOR,
    U,
    as_contiguous,
    exponentials,
    inlined,
    jit,
    larger,
    largest,
    read_only,
)
from temperance._fused.layout import lay

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOP, _HIGHEST, _S, _KEPT, _END = (U(LANES * j) for j in range(5))  # lanes


def _wide_beliefs(z: Any, beta: float, bias: Any, p: Any, share: Any) -> Any:
    n, n_classes = z.shape
    count, whole = U(n_classes), (U(n_classes) + U(VECTOR - 1)) & ~U(VECTOR - 1)
    u, e = np.full(whole, LOWEST), np.empty(whole)
    sure = kept = 0.0
    for i in range(n):
        row = z[i]
        for k in range(count):
            u[k] = np.float64(row[k]) * beta + bias[k]
        top = largest(u[:n_classes])
        for k in range(count):
            u[k] = max(u[k] - top, LOWEST)
        each = 1 / exponentials(u, e, whole)
        for k in range(count):
            share[k] += e[k] * each
        if p.size:
            for k in range(count):
                p[i, k] = e[k] * each
        best, first = largest(row), 0
        while row[first] != best:
            first += 1
        sure += each
        kept += e[first] * each
    return sure, kept


@inlined(fastmath=SUMS)
def _odds_of_lanes(x: Any, beta: float, bias: Any, u: Any, lanes: Any, count: Any) -> None:
    """Write ``β z + b`` less the largest of each row, which is in its lane, class by class."""
    for i in range(count):
        lanes[_HIGHEST + i] = np.float64(x[0, i]) * beta + bias[0]
    for k in range(bias.size):
        column, b, first = x[k], bias[k], U(k * LANES)
        for i in range(count):
            v = np.float64(column[i]) * beta + b
            u[first + i] = v
            lanes[_HIGHEST + i] = larger(v, lanes[_HIGHEST + i])
    for k in range(bias.size):
        first = U(k * LANES)
        for i in range(count):
            u[first + i] = max(u[first + i] - lanes[_HIGHEST + i], LOWEST)


@inlined()
def _write(e: Any, lanes: Any, p: Any) -> None:
    for i in range(p.shape[0]):
        for k in range(p.shape[1]):
            p[i, k] = e[k * LANES + i] * lanes[_S + U(i)]


def _narrow_beliefs(z: Any, beta: float, bias: Any, p: Any, share: Any) -> Any:
    n, n_classes = z.shape
    x, lanes = np.empty((n_classes + 2, LANES), z.dtype), np.ones(_END)
    u, e = np.full(n_classes * LANES, LOWEST), np.empty(n_classes * LANES)
    sure = kept = total = 0.0
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        count = U(rows.shape[0])
        lay(rows, x, lanes)
        _odds_of_lanes(x, beta, bias, u, lanes, count)
        total += exponentials(u, e, U(u.size))
        for i in range(_S, _END):
            lanes[i] = 0.0
        for k in range(n_classes - 1, -1, -1):  # of equal logits the first is the last to be seen
            column, first = x[k], U(k * LANES)
            for i in range(count):
                here, seen = e[first + i], lanes[_KEPT + i]
                lanes[_S + i] += here
                lanes[_KEPT + i] = here if np.float64(column[i]) == lanes[i] else seen
        for i in range(count):
            each = 1 / lanes[_S + i]
            lanes[_S + i] = each
            sure += each
            kept += lanes[_KEPT + i] * each
        for k in range(n_classes):
            mass, first = 0.0, U(k * LANES)
            for i in range(count):
                mass += e[first + i] * lanes[_S + i]
            share[k] += mass
        if p.size:
            _write(e, lanes, p[start : start + LANES])
    return sure + 0 * total, kept


@cache
def _beliefs(wide: bool, dtype: np.dtype[Any]) -> Any:
    signature = (
        read_only(nb.from_dtype(dtype), 2),
        types.float64,
        read_only(types.float64, 1),
        types.Array(types.float32, 2, "C"),
        types.Array(types.float64, 1, "C"),
    )
    return jit(_wide_beliefs if wide else _narrow_beliefs, signature)


def beliefs(
    z: NDArray[Any], beta: float, bias: NDArray[np.float64], *, rows: bool
) -> tuple[NDArray[np.float64], float, float, NDArray[np.float32]]:
    """Return means of p = softmax(β z + b), of its largest, and of that of argmax z; and p.

    Without ``rows`` p stays empty.
    """
    z, n = as_contiguous(z), len(z)
    p, share = np.empty(z.shape if rows else (0, 0), np.float32), np.zeros(z.shape[1])
    kernel = _beliefs(z.shape[1] > NARROW, z.dtype)
    sure, kept = kernel(z, beta * LOG2_E, bias * LOG2_E, p, share)
    return share / n, sure / n, kept / n, p
