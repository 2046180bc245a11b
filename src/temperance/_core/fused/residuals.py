# pyright: basic
"""The pass of vector and matrix scaling, compiled: from mapped logits to what they miss."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.fused.elementary import (
    CHUNK,
    LOG2_E,
    LOWEST,
    U,
    desk,
    exponentials,
    jit,
    largest,
    log,
    read_only,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_WEIGHTS = np.zeros(0)


def _residuals(v: Any, labels: Any, weight: Any, missed: Any, exponents: Any, powers: Any) -> Any:
    n, n_classes = v.shape
    at_once = max(1, CHUNK // n_classes)
    loss = total = 0.0  # for the sake of the latter LLVM works on several vectors at once
    for start in range(0, n, at_once):
        rows = v[start : start + at_once]
        for i in range(rows.shape[0]):
            row, first, label = rows[i], U(i * n_classes), U(labels[start + i])
            top, w = np.float64(largest(row)), weight[start + i] if weight.size else 1.0
            loss -= w * (np.float64(row[label]) - top)
            for k in range(U(n_classes)):
                exponents[first + k] = max((np.float64(row[k]) - top) * LOG2_E, LOWEST)
        total += exponentials(exponents, powers, U(rows.size))
        for i in range(rows.shape[0]):
            row, first, label, s = rows[i], U(i * n_classes), U(labels[start + i]), 0.0
            w = weight[start + i] if weight.size else 1.0
            for k in range(U(n_classes)):
                s += powers[first + k]
            for k in range(U(n_classes)):
                row[k] = powers[first + k] * (w / s)
            row[label] -= w
            loss += w * log(s)
            if w > 0 and powers[first + label] <= 0.5 * s:
                missed[label] += 1
    return loss, total


@cache
def _kernel(dtype: np.dtype[Any]) -> Any:
    work = types.Array(types.float64, 1, "C")
    given = types.Array(nb.from_dtype(dtype), 2, "C"), read_only(types.int64, 1)
    counts = types.Array(types.int64, 1, "C")
    return jit(_residuals, (*given, read_only(types.float64, 1), counts, work, work))


def residuals(
    v: NDArray[Any], y: NDArray[np.int64], weight: NDArray[np.float64] | None
) -> tuple[float, NDArray[np.int64]]:
    """Replace v by ``w (softmax(v) - 1{y})``; return the NLL, and rows with p_y ≤ 1/2 by class."""
    k = v.shape[1]
    size, missed = max(CHUNK, k + -k % 8), np.zeros(k, np.int64)  # whole lines of the cache
    mass = _NO_WEIGHTS if weight is None else np.ascontiguousarray(weight)
    loss, _ = _kernel(v.dtype)(v, np.ascontiguousarray(y), mass, missed, *desk(size, size))
    return loss, missed
