# pyright: basic
"""`temperance.labelfree.matching.beliefs` with float32 exponentials, compiled.

Equations that are solved to 1e-3 need no more, and twice as many fit into a vector. The exponential
is right to 2e-7, against mpmath in the tests; sums over rows are float64.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._fused.elementary import (
    LOG2_E,
    NARROW,
    VECTOR,
    U,
    as_contiguous,
    jit,
    largest,
    power_of_two,
    read_only,
)
from temperance._fused.matching import beliefs
from temperance._fused.traced import STRICT, formula

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def _beliefs(z: Any, beta: Any, bias: Any, share: Any) -> Any:
    n, n_classes = z.shape
    count, whole = U(n_classes), (U(n_classes) + U(VECTOR - 1)) & ~U(VECTOR - 1)
    u, e = np.full(whole, LOWEST), np.empty(whole, np.float32)
    sure = kept = 0.0
    for i in range(n):
        row = z[i]
        best = largest(row)
        for k in range(count):
            u[k] = np.float32(row[k] - best) * beta + bias[k]
        top = largest(u[:n_classes])
        for k in range(count):
            u[k] = max(u[k] - top, LOWEST)
        s = np.float32(0)
        for k in range(whole):
            v = exp2(u[k])
            s += v
            e[k] = v
        each = 1 / np.float64(s)
        for k in range(count):
            share[k] += e[k] * each
        first = 0
        while row[first] != best:
            first += 1
        sure += each
        kept += e[first] * each
    return sure, kept


@cache
def _kernel(dtype: np.dtype[Any]) -> Any:
    signature = (
        read_only(nb.from_dtype(dtype), 2),
        types.float32,
        read_only(types.float32, 1),
        types.Array(types.float64, 1, "C"),
    )
    return jit(_beliefs, signature)


def short_beliefs(
    z: NDArray[Any], beta: float, bias: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, float]:
    """Return means of p = softmax(β z + b), of its largest, and of that of argmax z.

    Narrow rows are as fast in float64, side by side.
    """
    if z.shape[1] <= NARROW:
        return beliefs(z, beta, bias, rows=False)[:3]
    z, share = as_contiguous(z), np.zeros(z.shape[1])
    scaled = (bias * LOG2_E).astype(np.float32)
    sure, kept = _kernel(z.dtype)(z, beta * LOG2_E, scaled, share)
    return share / len(z), sure / len(z), kept / len(z)
