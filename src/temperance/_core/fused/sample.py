# pyright: basic
"""The passes of `temperance._core.sample`, compiled: logits that are read many times over.

They are laid side by side once, 64 rows to a block, class by class, in float32, less the largest of
each row. A pass then knows what is predicted, turns no row, and works on whole vectors whatever the
number of classes. Equations that are solved to 1e-4 need no more digits: the exponential is right
to 2e-7, against mpmath in the tests, and sums over blocks are float64.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.fused.elementary import (
    LANES,
    LOG2_E,
    SUMS,
    U,
    as_contiguous,
    inlined,
    jit,
    larger,
    power_of_two,
    read_only,
)
from temperance._core.fused.layout import lay
from temperance._core.fused.traced import STRICT, formula

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Blocks = NDArray[np.float32]

LOWEST = np.float32(-126)  # 2 to this is the smallest that needs no care


def _exp2(x: Any) -> Any:
    """Return 2^x for -126 ≤ x ≤ 0."""
    return power_of_two(
        x,
        23,
        0.0001545316295,
        0.001339086336,
        0.009618082557,
        0.05550357114,
        0.2402265076,
        0.693147188,
    )


exp2 = formula(_exp2, flags=STRICT, real=types.float32)


def _lay_out(z: Any, scale: float, blocks: Any, predicted: Any) -> None:
    n, n_classes = z.shape
    x, top = np.empty((n_classes + 2, LANES), z.dtype), np.empty(LANES)
    for start in range(0, n, LANES):
        rows, block = z[start : start + LANES], blocks[start // LANES]
        count = U(rows.shape[0])
        lay(rows, x, top)
        for k in range(n_classes):
            column, out = x[k], block[k]
            for i in range(count):
                out[i] = np.float32((np.float64(column[i]) - top[i]) * scale)
        for i in range(count):
            predicted[start + i] = np.int64(x[n_classes, i])


@inlined(fastmath=SUMS)
def _exponentiate(block: Any, beta: Any, bias: Any, e: Any, top: Any, s: Any) -> None:
    """Write exponentials of ``β z + b`` less the largest of each row, and their sums."""
    for i in range(U(LANES)):
        top[i] = block[0, i] * beta + bias[0]
        s[i] = np.float32(0)
    for k in range(1, bias.size):
        column, b = block[k], bias[k]
        for i in range(U(LANES)):
            top[i] = larger(column[i] * beta + b, top[i])
    for k in range(bias.size):
        column, b, powers = block[k], bias[k], e[k]
        for i in range(U(LANES)):
            v = exp2(max(column[i] * beta + b - top[i], LOWEST))
            powers[i] = v
            s[i] += v


@inlined(fastmath=SUMS)
def _write(e: Any, each: Any, p: Any) -> None:
    for k in range(e.shape[0]):
        powers, out = e[k], p[k]
        for i in range(U(LANES)):
            out[i] = powers[i] * each[i]


def _beliefs(blocks: Any, predicted: Any, beta: Any, bias: Any, p: Any, share: Any) -> Any:
    e = np.empty((bias.size, LANES), np.float32)
    top, each = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    sure = kept = 0.0
    for j in range(blocks.shape[0]):
        own = predicted[j * LANES : (j + 1) * LANES]
        _exponentiate(blocks[j], beta, bias, e, top, each)
        for i in range(U(LANES)):
            each[i] = np.float32(1) / each[i] if i < U(own.size) else np.float32(0)
        for k in range(bias.size):
            powers, mass = e[k], np.float32(0)
            for i in range(U(LANES)):
                mass += powers[i] * each[i]
            share[k] += mass
        for i in range(own.size):
            sure += each[i]
            kept += e[own[i], i] * each[i]
        if p.size:
            _write(e, each, p[j])
    return sure, kept


# ------------------------------------------------------------------------------------- doors


_PREDICTED, _BLOCKS = types.Array(types.int64, 1, "C"), types.Array(types.float32, 3, "C")


@cache
def _layer(dtype: np.dtype[Any]) -> Any:
    return jit(_lay_out, (read_only(nb.from_dtype(dtype), 2), types.float64, _BLOCKS, _PREDICTED))


def lay_out(z: NDArray[Any], scale: float) -> tuple[Blocks, NDArray[np.int64]]:
    """Return rows less the largest of each, times ``scale``, in blocks; and the places of it."""
    z, (n, k) = as_contiguous(z), z.shape
    blocks, predicted = np.zeros((-(-n // LANES), k, LANES), np.float32), np.empty(n, np.int64)
    _layer(z.dtype)(z, scale, blocks, predicted)
    return blocks, predicted


@cache
def _kernel() -> Any:
    short, share = read_only(types.float32, 1), types.Array(types.float64, 1, "C")
    return jit(_beliefs, (_BLOCKS, _PREDICTED, types.float32, short, _BLOCKS, share))


def beliefs(
    blocks: Blocks,
    predicted: NDArray[np.int64],
    beta: float,
    bias: NDArray[np.float64],
    *,
    rows: bool = False,
) -> tuple[NDArray[np.float64], float, float, Blocks]:
    """Return means of p = softmax(β z + b), of its largest, and of what was predicted; and p.

    Without ``rows`` p stays empty; with them it is laid out like z, 0 where there is no row.
    """
    n, share = len(predicted), np.zeros(len(bias))
    p = np.empty(blocks.shape if rows else (0, 0, 0), np.float32)
    scaled = (bias * LOG2_E).astype(np.float32)
    sure, kept = _kernel()(blocks, predicted, beta * LOG2_E, scaled, p, share)
    return share / n, sure / n, kept / n, p
