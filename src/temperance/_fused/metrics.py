# pyright: basic
"""The pass of the metrics, compiled."""

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
    STRICT,
    U,
    as_contiguous,
    exp2,
    inlined,
    jit,
    largest,
    log,
    read_only,
    side_by_side,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_S0, _S1, _S2 = (U(LANES * j) for j in range(1, 4))
_NONE = np.zeros(0)


@inlined(fastmath=STRICT)
def _finished(own: float, s: float, squares: float) -> Any:
    """Return confidence, NLL and Brier score from ``u_y``, ``Σ exp u`` and ``Σ exp 2u``."""
    own_e = exp2(max(own * LOG2_E, LOWEST))
    confidence = 1 / s
    return confidence, log(s) - own, max((squares * confidence - 2 * own_e) * confidence + 1, 0.0)


@inlined()
def _is_first(row: Any, y: int) -> bool:
    """Return whether no earlier logit equals that of class y."""
    for k in range(y):  # noqa: SIM110 - compiled code has no generators
        if row[k] == row[y]:
            return False
    return True


def _wide_outcomes(z: Any, y: Any, confidence: Any, correct: Any, nll: Any, brier: Any) -> None:
    for i in range(z.shape[0]):
        row = z[i]
        top = np.float64(largest(row))
        s = squares = 0.0
        for k in range(row.shape[0]):
            e = exp2(max((np.float64(row[k]) - top) * LOG2_E, LOWEST))
            s += e
            squares += e * e
        own = np.float64(row[y[i]]) - top
        confidence[i], nll[i], brier[i] = _finished(own, s, squares)
        correct[i] = 1.0 if own == 0 and _is_first(row, y[i]) else 0.0


def _narrow_outcomes(z: Any, y: Any, confidence: Any, correct: Any, nll: Any, brier: Any) -> None:
    n, n_classes = z.shape
    x, lanes = np.empty((n_classes, LANES)), np.empty(LANES * 4)
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        count = U(rows.shape[0])
        side_by_side(rows, x, lanes)
        for i in range(_S0, _S2):
            lanes[i] = 0.0
        for k in range(n_classes):
            column = x[k]
            for i in range(count):
                e = exp2(max((column[i] - lanes[i]) * LOG2_E, LOWEST))
                lanes[_S0 + i] += e
                lanes[_S1 + i] += e * e
        labels, right = y[start : start + LANES], correct[start : start + LANES]
        for i in range(rows.shape[0]):
            own = np.float64(rows[i, labels[i]]) - lanes[i]
            lanes[_S2 + U(i)] = own
            right[i] = 1.0 if own == 0 and _is_first(rows[i], labels[i]) else 0.0
        sure, loss = confidence[start : start + LANES], nll[start : start + LANES]
        for i in range(count):
            sure[i], loss[i], lanes[_S0 + i] = _finished(
                lanes[_S2 + i], lanes[_S0 + i], lanes[_S1 + i]
            )
        for i in range(count):
            brier[U(start) + i] = lanes[_S0 + i]


def _bin_sums(confidence: Any, correct: Any, weight: Any, edges: Any) -> Any:
    n_bins = edges.size - 1
    sums = np.zeros((3, n_bins))
    for i in range(confidence.size):
        c = confidence[i]
        place = min(max(int(c * n_bins), 0), n_bins - 1)
        while place > 0 and c <= edges[place]:
            place -= 1
        while place < n_bins - 1 and c > edges[place + 1]:
            place += 1
        w = weight[i] if weight.size else 1.0
        sums[0, place] += w
        sums[1, place] += w * c
        sums[2, place] += w * correct[i]
    return sums


# ------------------------------------------------------------------------------------- doors


@cache
def _outcomes(wide: bool, dtype: np.dtype[Any]) -> Any:
    column = types.Array(types.float64, 1, "C")
    rows = read_only(nb.from_dtype(dtype), 2)
    signature = (rows, read_only(types.int64, 1), column, column, column, column)
    if wide:
        return jit(_wide_outcomes, signature)
    return jit(_narrow_outcomes, signature, fastmath=STRICT)  # lanes are not added up


def outcomes(z: NDArray[Any], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Return confidence, whether it is right, NLL and Brier score of each row with a hard label."""
    z = as_contiguous(z)
    columns = tuple(np.empty((4, z.shape[0])))
    _outcomes(z.shape[1] > NARROW, z.dtype)(z, np.ascontiguousarray(y), *columns)
    return columns


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
