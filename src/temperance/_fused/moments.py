# pyright: basic
"""The pass of `temperance._kernels.temperature_moments`, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._fused.elementary import (
    LANES,
    LN2,
    LOG2_E,
    LOWEST,
    NARROW,
    SUMS,
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
from temperance._kernels import cumulants_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 512  # classes whose exponentials are kept in the first-level cache
VECTOR = 16  # of which whole multiples are summed

_cumulants = inlined(fastmath=SUMS)(cumulants_of)


@inlined(fastmath=SUMS)
def _scaled_cumulants(
    s0: float, s1: float, s2: float, s3: float, s4: float, s5: float, s6: float
) -> Any:
    """Return the cumulants of u from the sums of ``(u / log 2)^r exp(u)``."""
    f1 = LN2 / s0
    f2, f3, f4, f5 = f1 * LN2, f1 * LN2**2, f1 * LN2**3, f1 * LN2**4
    return _cumulants(s1 * f1, s2 * f2, s3 * f3, s4 * f4, s5 * f5, s6 * (f1 * LN2**5))


@inlined(fastmath=SUMS)
def _labelled(row: Any, top: float, i: int, hard: Any, soft: Any, weight: Any) -> Any:
    """Return ``Σ_k W_k (max z - z_k)`` and ``A = Σ_k W_k`` of row i."""
    mass = weight[i] if weight.size else 1.0
    if hard.size:
        return mass * (top - row[hard[i]]), mass
    if not soft.size:
        return 0.0, mass
    gap = total = 0.0
    for k in range(row.shape[0]):
        gap += soft[i, k] * (top - row[k])
        total += soft[i, k]
    return mass * gap, mass * total


def _wide_moments(z: Any, hard: Any, soft: Any, weight: Any, beta: float) -> Any:
    n, n_classes = z.shape
    scale = beta * LOG2_E
    exponents, powers = np.empty(CHUNK), np.empty(CHUNK)
    value = t1 = t2 = t3 = t4 = t5 = t6 = below = means = total = 0.0
    for i in range(n):
        row = z[i]
        top = np.float64(largest(row))
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = shifts = 0.0
        for start in range(0, n_classes, CHUNK):
            # Three short loops: one long one would not find room in the registers.
            part = row[start : start + CHUNK]
            count = U(part.shape[0])
            whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
            for k in range(count, whole):
                exponents[k] = LOWEST
            for k in range(count):
                d = np.float64(part[k]) - top
                shifts += d
                exponents[k] = max(d * scale, LOWEST)
            for k in range(whole):
                e = exp2(exponents[k])
                s0 += e
                powers[k] = e
            for k in range(whole):
                u, e = exponents[k], powers[k]
                square = u * u
                s1 += e * u
                e *= square
                s2 += e
                s3 += e * u
                e *= square
                s4 += e
                s5 += e * u
                s6 += e * square
        gap, mass = _labelled(row, top, i, hard, soft, weight)
        c = _scaled_cumulants(s0, s1, s2, s3, s4, s5, s6)
        value += mass * log(s0) + beta * gap
        t1 += mass * c[0] + beta * gap
        t2 += mass * c[1]
        t3 += mass * c[2]
        t4 += mass * c[3]
        t5 += mass * c[4]
        t6 += mass * c[5]
        below += gap
        means += mass * (shifts / n_classes)
        total += mass
    return value, t1, t2, t3, t4, t5, t6, below, -below - means, -means, total


# Places of the sums in the lanes of a group of narrow rows.
_TOP, _S0, _S1, _S2, _S3, _S4, _S5, _S6, _SHIFTS, _GAP, _MASS, _END = (
    U(LANES * j) for j in range(12)
)


@inlined(fastmath=SUMS)
def _label_lanes(rows: Any, start: int, hard: Any, soft: Any, weight: Any, lanes: Any) -> None:
    """Write what `_labelled` returns of each row, which is in its lane already."""
    count = U(rows.shape[0])
    if hard.size and not weight.size:
        labels = hard[start : start + LANES]
        for i in range(count):
            lanes[_GAP + i] = lanes[i] - rows[i, labels[i]]
            lanes[_MASS + i] = 1.0
        return
    for i in range(rows.shape[0]):
        gap, mass = _labelled(rows[i], lanes[i], start + i, hard, soft, weight)
        lanes[_GAP + U(i)] = gap
        lanes[_MASS + U(i)] = mass


def _narrow_moments(z: Any, hard: Any, soft: Any, weight: Any, beta: float) -> Any:
    n, n_classes = z.shape
    scale = beta * LOG2_E
    x, lanes = np.empty((n_classes, LANES)), np.empty(LANES * 12)
    value = t1 = t2 = t3 = t4 = t5 = t6 = below = means = total = 0.0
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        count = U(rows.shape[0])
        side_by_side(rows, x, lanes)
        for i in range(_S0, _GAP):
            lanes[i] = 0.0
        for k in range(n_classes):
            column = x[k]
            for i in range(count):
                d = column[i] - lanes[i]
                lanes[_SHIFTS + i] += d
                u = max(d * scale, LOWEST)
                e = exp2(u)
                lanes[_S0 + i] += e
                e *= u
                lanes[_S1 + i] += e
                e *= u
                lanes[_S2 + i] += e
                e *= u
                lanes[_S3 + i] += e
                e *= u
                lanes[_S4 + i] += e
                e *= u
                lanes[_S5 + i] += e
                e *= u
                lanes[_S6 + i] += e
        _label_lanes(rows, start, hard, soft, weight, lanes)
        for i in range(count):
            s0, gap, mass = lanes[_S0 + i], lanes[_GAP + i], lanes[_MASS + i]
            c = _scaled_cumulants(
                s0,
                lanes[_S1 + i],
                lanes[_S2 + i],
                lanes[_S3 + i],
                lanes[_S4 + i],
                lanes[_S5 + i],
                lanes[_S6 + i],
            )
            value += mass * log(s0) + beta * gap
            t1 += mass * c[0] + beta * gap
            t2 += mass * c[1]
            t3 += mass * c[2]
            t4 += mass * c[3]
            t5 += mass * c[4]
            t6 += mass * c[5]
            below += gap
            means += mass * (lanes[_SHIFTS + i] / n_classes)
            total += mass
    return value, t1, t2, t3, t4, t5, t6, below, -below - means, -means, total


# -------------------------------------------------------------------------------------- door

_NONE = np.zeros(0)
_NO_LABELS = np.zeros(0, np.int64)
_NO_SOFT = np.zeros((0, 0))


@cache
def _moments(wide: bool, dtype: np.dtype[Any]) -> Any:
    signature = (
        read_only(nb.from_dtype(dtype), 2),
        read_only(types.int64, 1),
        read_only(types.float64, 2),
        read_only(types.float64, 1),
        types.float64,
    )
    return jit(_wide_moments if wide else _narrow_moments, signature)


def temperature_moments(
    z: NDArray[Any], y: NDArray[Any] | None, weight: NDArray[np.float64] | None, beta: float
) -> tuple[float, ...]:
    """Return what `temperance._kernels.temperature_moments` returns for this block."""
    z = as_contiguous(z)
    is_hard, is_soft = y is not None and y.ndim == 1, y is not None and y.ndim == 2
    return _moments(z.shape[1] > NARROW, z.dtype)(
        z,
        np.ascontiguousarray(y) if is_hard else _NO_LABELS,
        np.ascontiguousarray(y) if is_soft else _NO_SOFT,
        _NONE if weight is None else np.ascontiguousarray(weight),
        beta,
    )
