# pyright: basic
"""The passes of `temperance.methods.source`, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.fused.elementary import (
    SUMS,
    as_contiguous,
    inlined,
    jit,
    larger,
    largest,
    read_only,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@inlined(fastmath=SUMS)
def _mean(row: Any) -> float:
    total = 0.0
    for k in range(row.shape[0]):
        total += np.float64(row[k])
    return total / row.shape[0]


@inlined(fastmath=SUMS)
def _scale(row: Any) -> float:
    """Return one over the largest absolute value, 0 where there is none."""
    top = 0.0
    for k in range(row.shape[0]):
        top = larger(abs(row[k]), top)
    return 1 / top if top > 0 else 0.0


def _row_lengths(z: Any, centre: Any, lengths: Any) -> None:
    centred = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        row, squares = z[i], 0.0
        for k in range(row.shape[0]):
            centred[k] = np.float64(row[k]) - centre[k]
        mean = _mean(centred)
        for k in range(row.shape[0]):
            centred[k] -= mean
        scale = _scale(centred)
        for k in range(row.shape[0]):
            squares += (centred[k] * scale) ** 2
        lengths[i] = np.sqrt(squares) / scale if scale > 0 else 0.0


def _weighted_sum(z: Any, weight: Any, total: Any) -> None:
    for i in range(z.shape[0]):
        row, w = z[i], weight[i]
        for k in range(row.shape[0]):
            total[k] += w * np.float64(row[k])


def _class_sums(z: Any, labels: Any, total: Any) -> None:
    for i in range(z.shape[0]):
        row, one, mean = z[i], total[labels[i]], _mean(z[i])
        for k in range(row.shape[0]):
            one[k] += np.float64(row[k]) - mean


def _cosines(z: Any, offset: Any, labels: Any, patterns: Any, cosines: Any) -> None:
    a, b = np.empty(z.shape[1]), np.empty(z.shape[1])
    for i in range(z.shape[0]):
        row, predicted = z[i], 0
        for k in range(row.shape[0]):
            a[k] = np.float64(row[k]) + offset[k]
        best, mean = largest(a), _mean(a)
        while a[predicted] != best:
            predicted += 1
        pattern, part = patterns[predicted], 1.0 if predicted == labels[i] else 0.0
        for k in range(row.shape[0]):
            a[k] -= mean
            b[k] = pattern[k] - part * a[k]
        one, two = _scale(a), _scale(b)
        dot = squares_a = squares_b = 0.0
        for k in range(row.shape[0]):
            u, v = a[k] * one, b[k] * two
            dot += u * v
            squares_a += u * u
            squares_b += v * v
        lengths = np.sqrt(squares_a) * np.sqrt(squares_b)
        cosines[i] = dot / lengths if lengths > 0 else 0.0


_NUMBERS, _TABLE = types.Array(types.float64, 1, "C"), types.Array(types.float64, 2, "C")
_GIVEN, _PATTERNS = read_only(types.float64, 1), read_only(types.float64, 2)
_LABELS = read_only(types.int64, 1)
_TAKEN = {
    _row_lengths: (_NUMBERS, _NUMBERS),
    _weighted_sum: (_GIVEN, _NUMBERS),
    _class_sums: (_LABELS, _TABLE),
    _cosines: (_GIVEN, _LABELS, _PATTERNS, _NUMBERS),
}


@cache
def _kernel(function: Any, dtype: np.dtype[Any]) -> Any:
    return jit(function, (read_only(nb.from_dtype(dtype), 2), *_TAKEN[function]))


def row_lengths(z: NDArray[Any], centre: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the length of each row, less ``centre`` where there is one, less its mean."""
    z, lengths = as_contiguous(z), np.empty(z.shape[0])
    about = np.zeros(z.shape[1]) if centre is None else centre
    _kernel(_row_lengths, z.dtype)(z, about, lengths)
    return lengths


def weighted_mean(z: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the rows."""
    z, total = as_contiguous(z), np.zeros(z.shape[1])
    _kernel(_weighted_sum, z.dtype)(z, weight, total)
    return total / weight.sum()


def class_sums(z: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the rows of each class, each less its mean."""
    z, total = as_contiguous(z), np.zeros((z.shape[1], z.shape[1]))
    _kernel(_class_sums, z.dtype)(z, np.ascontiguousarray(labels), total)
    return total


def cosines(
    z: NDArray[Any],
    offset: NDArray[np.float64],
    labels: NDArray[np.int64],
    patterns: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the cosine of each row less its mean with the pattern of what is predicted.

    From the pattern the row is taken away where that is its label.
    """
    z, out = as_contiguous(z), np.empty(z.shape[0])
    labels, patterns = np.ascontiguousarray(labels), np.ascontiguousarray(patterns)
    _kernel(_cosines, z.dtype)(z, offset, labels, patterns, out)
    return out
