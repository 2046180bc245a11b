# pyright: basic
"""The pass of `temperance._kernels.temperature_moments`, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._fused.elementary import (
    CHUNK,
    LANES,
    LN2,
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
    largest,
    log,
    read_only,
    side_by_side,
)
from temperance._kernels import centred_moments, cumulants_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_centred = inlined(fastmath=SUMS)(centred_moments)
_cumulants = inlined(fastmath=SUMS)(cumulants_of)


@inlined(fastmath=SUMS)
def _last_centred(
    m1: float, m2: float, m3: float, m4: float, m5: float, m6: float, m7: float, m8: float
) -> Any:
    """Return the central moments 7 and 8 from moments about zero."""
    a = m1 * m1
    c7 = 7 * m6 - m1 * (21 * m5 - m1 * (35 * m4 - m1 * (35 * m3 - m1 * (21 * m2 - 6 * a))))
    c8 = 56 * m5 - m1 * (70 * m4 - m1 * (56 * m3 - m1 * (28 * m2 - 7 * a)))
    return m7 - m1 * c7, m8 - m1 * (8 * m7 - m1 * (28 * m6 - m1 * c8))


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


# Sums over the classes of a row are kept for 64 rows, in lanes side by side. All lanes are in one
# array: of several LLVM would have to find out whether they overlap.
_TOP, _S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7, _S8, _SHIFTS, _GAP, _MASS, _END = (
    U(LANES * j) for j in range(14)
)
_STATISTICS = 12
_LN2_2, _LN2_3, _LN2_4, _LN2_5, _LN2_6, _LN2_7 = (LN2**r for r in range(2, 8))


@inlined(fastmath=SUMS)
def _wide_sums(row: Any, scale: float, exponents: Any, powers: Any, lanes: Any, i: Any) -> None:
    """Write ``Σ_k u^r 2^u`` of one row. Three short loops: a long one needs too many registers."""
    top = np.float64(largest(row))
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = shifts = 0.0
    for start in range(0, row.shape[0], CHUNK):
        part = row[start : start + CHUNK]
        count = U(part.shape[0])
        whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
        for k in range(count, whole):
            exponents[k] = LOWEST
        for k in range(count):
            d = np.float64(part[k]) - top
            shifts += d
            exponents[k] = max(d * scale, LOWEST)
        s0 += exponentials(exponents, powers, whole)
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
            e *= square
            s6 += e
            s7 += e * u
            s8 += e * square
    lanes[_TOP + i], lanes[_SHIFTS + i] = top, shifts
    lanes[_S0 + i], lanes[_S1 + i], lanes[_S2 + i], lanes[_S3 + i] = s0, s1, s2, s3
    lanes[_S4 + i], lanes[_S5 + i], lanes[_S6 + i] = s4, s5, s6
    lanes[_S7 + i], lanes[_S8 + i] = s7, s8


@inlined(fastmath=SUMS)
def _narrow_sums(rows: Any, scale: float, x: Any, exponents: Any, powers: Any, lanes: Any) -> float:
    """Write the same of up to 64 rows, classes in pairs: fewer sums to load and to store."""
    count, n_classes = U(rows.shape[0]), rows.shape[1]
    side_by_side(rows, x, lanes)
    for i in range(_S0, _GAP):
        lanes[i] = 0.0
    for k in range(n_classes):
        column, u = x[k], exponents[k * LANES : (k + 1) * LANES]
        for i in range(count):
            d = np.float64(column[i]) - lanes[i]
            lanes[_SHIFTS + i] += d
            u[i] = max(d * scale, LOWEST)
    total = exponentials(exponents, powers, U(exponents.size))
    for k in range(0, exponents.size, 2 * LANES):
        us, es = exponents[k : k + 2 * LANES], powers[k : k + 2 * LANES]
        for i in range(count):
            u, v, e, f = us[i], us[i + U(LANES)], es[i], es[i + U(LANES)]
            uu, vv = u * u, v * v
            lanes[_S0 + i] += e + f
            lanes[_S1 + i] += e * u + f * v
            e *= uu
            f *= vv
            lanes[_S2 + i] += e + f
            lanes[_S3 + i] += e * u + f * v
            e *= uu
            f *= vv
            lanes[_S4 + i] += e + f
            lanes[_S5 + i] += e * u + f * v
            e *= uu
            f *= vv
            lanes[_S6 + i] += e + f
            lanes[_S7 + i] += e * u + f * v
            lanes[_S8 + i] += e * uu + f * vv
    return total


@inlined(fastmath=SUMS)
def _finish(lanes: Any, count: Any, beta: float, n_classes: int, sums: Any) -> None:
    """Add the statistics of as many rows as are in the lanes."""
    value = t1 = t2 = t3 = t4 = t5 = t6 = t7 = t8 = below = means = total = 0.0
    for i in range(count):
        s0, gap, mass = lanes[_S0 + i], lanes[_GAP + i], lanes[_MASS + i]
        f1 = LN2 / s0
        m1 = lanes[_S1 + i] * f1
        m2 = lanes[_S2 + i] * (f1 * LN2)
        m3 = lanes[_S3 + i] * (f1 * _LN2_2)
        m4 = lanes[_S4 + i] * (f1 * _LN2_3)
        m5 = lanes[_S5 + i] * (f1 * _LN2_4)
        m6 = lanes[_S6 + i] * (f1 * _LN2_5)
        m7 = lanes[_S7 + i] * (f1 * _LN2_6)
        m8 = lanes[_S8 + i] * (f1 * _LN2_7)
        c2, c3, c4, c5, c6 = _centred(m1, m2, m3, m4, m5, m6)
        c7, c8 = _last_centred(m1, m2, m3, m4, m5, m6, m7, m8)
        k2, k3, k4, k5, k6 = _cumulants(c2, c3, c4, c5, c6)
        square = c2 * c2
        value += mass * log(s0) + beta * gap
        t1 += mass * m1 + beta * gap
        t2 += mass * k2
        t3 += mass * k3
        t4 += mass * k4
        t5 += mass * k5
        t6 += mass * k6
        t7 += mass * (c7 - 21 * c5 * c2 - 35 * c4 * c3 + 210 * c3 * square)
        even = 28 * c6 * c2 + 35 * c4 * c4 - 420 * c4 * square + 630 * square * square
        t8 += mass * (c8 - even - c3 * (56 * c5 - 560 * c3 * c2))
        below += gap
        means += mass * (lanes[_SHIFTS + i] / n_classes)
        total += mass
    sums[0] += value
    sums[1] += t1
    sums[2] += t2
    sums[3] += t3
    sums[4] += t4
    sums[5] += t5
    sums[6] += t6
    sums[7] += t7
    sums[8] += t8
    sums[9] += below
    sums[10] += means
    sums[11] += total


@inlined(fastmath=SUMS)
def _label_lanes(rows: Any, start: int, hard: Any, soft: Any, weight: Any, lanes: Any) -> None:
    """Write ``Σ_k W_k (max z - z_k)`` and ``A = Σ_k W_k`` of each row."""
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


# Work arrays come from outside: to compile the making of one takes longer than to make many.


def _wide_moments(
    z: Any, hard: Any, soft: Any, weight: Any, beta: float, exponents: Any, powers: Any, lanes: Any
) -> Any:
    n, n_classes = z.shape
    sums = lanes[_END:]
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_sums(rows[i], beta * LOG2_E, exponents, powers, lanes, U(i))
        _label_lanes(rows, start, hard, soft, weight, lanes)
        _finish(lanes, U(rows.shape[0]), beta, n_classes, sums)


def _narrow_moments(
    z: Any,
    hard: Any,
    soft: Any,
    weight: Any,
    beta: float,
    exponents: Any,
    powers: Any,
    lanes: Any,
    x: Any,
) -> Any:
    n, n_classes = z.shape
    sums = lanes[_END:]
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        sums[0] += 0 * _narrow_sums(rows, beta * LOG2_E, x, exponents, powers, lanes)
        _label_lanes(rows, start, hard, soft, weight, lanes)
        _finish(lanes, U(rows.shape[0]), beta, n_classes, sums)


# -------------------------------------------------------------------------------------- door

_NONE = np.zeros(0)
_NO_LABELS = np.zeros(0, np.int64)
_NO_SOFT = np.zeros((0, 0))


@cache
def _moments(wide: bool, dtype: np.dtype[Any]) -> Any:
    logits, work = nb.from_dtype(dtype), types.Array(types.float64, 1, "C")
    signature = (
        read_only(logits, 2),
        read_only(types.int64, 1),
        read_only(types.float64, 2),
        read_only(types.float64, 1),
        types.float64,
        *(work, work, work),
    )
    if wide:
        return jit(_wide_moments, signature)
    return jit(_narrow_moments, (*signature, types.Array(logits, 2, "C")))


def temperature_moments(
    z: NDArray[Any], y: NDArray[Any] | None, weight: NDArray[np.float64] | None, beta: float
) -> tuple[float, ...]:
    """Return what `temperance._kernels.temperature_moments` returns, with two more derivatives."""
    z, k = as_contiguous(z), z.shape[1]
    is_hard, is_soft = y is not None and y.ndim == 1, y is not None and y.ndim == 2
    wide = k > NARROW
    size = CHUNK if wide else (k + 1) // 2 * (2 * LANES)
    lanes = np.zeros(int(_END) + _STATISTICS)
    work = (np.full(size, LOWEST), np.empty(size), lanes)
    _moments(wide, z.dtype)(
        z,
        np.ascontiguousarray(y) if is_hard else _NO_LABELS,
        np.ascontiguousarray(y) if is_soft else _NO_SOFT,
        _NONE if weight is None else np.ascontiguousarray(weight),
        beta,
        *(work if wide else (*work, np.empty((k + 1, LANES), z.dtype))),
    )
    *sums, below, means, mass = lanes[int(_END) :].tolist()
    return (*sums, below, -below - means, -means, mass)
