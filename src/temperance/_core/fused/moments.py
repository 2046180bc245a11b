# pyright: basic
"""The pass of `temperance._core.kernels.temperature_moments`, compiled."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.checks import LARGEST, are_sound
from temperance._core.fused.elementary import (
    CHUNK,
    LANES,
    LINE,
    LN2,
    LOG2_E,
    LOWEST,
    NARROW,
    VECTOR,
    U,
    as_contiguous,
    desk,
    exponentials,
    fetch,
    inlined,
    jit,
    larger,
    largest,
    logarithm,
    read_only,
)
from temperance._core.fused.traced import SUMS, formula
from temperance._core.kernels import cumulants_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS = 8  # derivatives

# Sums over the classes of a row are kept for 64 rows, in lanes side by side. All lanes are in one
# array: of several LLVM would have to find out whether they overlap.
_TOP, _SHIFTS, _MASS, _GAP, _S0, _S1 = (U(LANES * j) for j in range(6))
_END = _S0 + U(LANES * (ORDERS + 1))


# -------------------------------------------------------------------------------- formulas


def _powers(u: Any, e: Any) -> tuple[Any, ...]:
    """Return ``u^r e`` for r = 0 … 8."""
    square, terms = u * u, [e, e * u]
    for _ in range(ORDERS // 2 - 1):
        e = e * square
        terms += [e, e * u]
    return (*terms, e * square)


def _plus(sums: Any, terms: Any) -> tuple[Any, ...]:
    return tuple(s + t for s, t in zip(sums, terms, strict=True))


def _read(lanes: Any, i: Any, first: Any, count: int) -> tuple[Any, ...]:
    return tuple(lanes[i + (int(first) + LANES * j)] for j in range(count))


def _write(lanes: Any, i: Any, first: Any, numbers: Any) -> None:
    for j, number in enumerate(numbers):
        lanes[i + (int(first) + LANES * j)] = number


def _centred(moments: list[Any]) -> list[Any]:
    """Return the central moments 2 … 8 from moments about zero, as the namesake of NumPy does."""
    m = moments[0]
    c = [b - m * a for a, b in pairwise(moments)]
    for done in (1, *range(1, len(c))):
        c[done:] = [b - m * a for a, b in pairwise(c[done - 1 :])]
    return c


def _last_cumulants(c2: Any, c3: Any, c4: Any, c5: Any, c6: Any, c7: Any, c8: Any) -> Any:
    """Return κ_7 and κ_8 from central moments."""
    square = c2 * c2
    even = 28 * c6 * c2 + 35 * c4 * c4 - 420 * c4 * square + 630 * square * square
    return (
        c7 - 21 * c5 * c2 - 35 * c4 * c3 + 210 * c3 * square,
        c8 - even - c3 * (56 * c5 - 560 * c3 * c2),
    )


def _plus_row(totals: Any, lanes: Any, i: Any) -> tuple[Any, ...]:
    """Add what is summed over rows: log Σ 2^u, cumulants, and what bounds them and the logits."""
    top, shifts, mass, gap, s0, *sums = _read(lanes, i, _TOP, ORDERS + 5)
    one = 1 / s0
    moments = [s * one for s in sums]
    centred = _centred(moments)
    cumulants = *cumulants_of(*centred[:5]), *_last_cumulants(*centred)
    each = logarithm(s0.strict()), moments[0], *cumulants, gap, shifts
    reach = abs(top) + abs(shifts)
    return _plus(totals, (*(mass * x for x in each), mass, reach))


def _put_row(lanes: Any, i: Any, top: Any, shifts: Any, s0: Any, sums: Any) -> None:
    for at, number in zip((_TOP, _SHIFTS, _S0), (top, shifts, s0), strict=True):
        lanes[i + int(at)] = number
    _write(lanes, i, _S1, sums)


def _add_pair(us: Any, es: Any, j: Any, lanes: Any, i: Any) -> None:
    """Add the powers of two classes: fewer sums to load and to store."""
    sums = _read(lanes, i, _S0, ORDERS + 1)
    for at in (j, j + LANES):
        sums = _plus(sums, _powers(us[at], es[at]))
    _write(lanes, i, _S0, sums)


def _add_totals(sums: Any, totals: Any) -> None:
    for j, total in enumerate(totals):
        sums[j] = sums[j] + total


_TOTALS = ORDERS + 5
_NO_SUMS, _NO_TOTALS = (0.0,) * ORDERS, (0.0,) * _TOTALS

plus_powers = formula(lambda sums, u, e: _plus(sums, _powers(u, e)[1:]), ORDERS)
plus_row = formula(_plus_row, _TOTALS)
put_row, add_pair, add_totals = (formula(f, 0) for f in (_put_row, _add_pair, _add_totals))


# ----------------------------------------------------------------------------------- loops


@inlined(fastmath=SUMS)
def _wide_sums(row: Any, scale: float, exponents: Any, powers: Any, lanes: Any, i: Any) -> None:
    """Write ``Σ_k u^r 2^u`` of one row. Three short loops: a long one needs too many registers."""
    top, shifts, s0, sums = np.float64(largest(row)), 0.0, 0.0, _NO_SUMS
    for start in range(0, row.shape[0], CHUNK):
        part = row[start : start + CHUNK]
        count = U(part.shape[0])
        for k in range(U(0), count, U(LINE // row.itemsize)):
            fetch(part, U(row.shape[0]) + k)  # of the next row, which comes while this is summed
        whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
        for k in range(count, whole):
            exponents[k] = LOWEST
        for k in range(count):
            d = np.float64(part[k]) - top
            shifts += d
            exponents[k] = larger(d * scale, LOWEST)
        s0 += exponentials(exponents, powers, whole)
        for k in range(whole):
            sums = plus_powers(sums, exponents[k], powers[k])
    put_row(lanes, i, top, shifts, s0, sums)


@inlined(fastmath=SUMS)
def _narrow_sums(rows: Any, scale: float, exponents: Any, powers: Any, lanes: Any) -> float:
    """Write the same of up to 64 rows; what is returned only keeps LLVM busy."""
    count, n_classes = U(rows.shape[0]), U(rows.shape[1])
    for i in range(count):
        row = rows[i]
        top = row[0]
        for k in range(n_classes):
            exponents[k * U(LANES) + i] = row[k]
            top = larger(row[k], top)
        lanes[i] = top
    for i in range(_S0, _END):
        lanes[i] = 0.0
    for i in range(count):
        lanes[_SHIFTS + i] = 0.0
    for k in range(n_classes):
        u = exponents[k * U(LANES) : (k + U(1)) * U(LANES)]
        for i in range(count):
            d = u[i] - lanes[i]
            lanes[_SHIFTS + i] += d
            u[i] = larger(d * scale, LOWEST)
    total = exponentials(exponents, powers, U(exponents.size))
    for k in range(U(0), U(exponents.size), U(2 * LANES)):
        for i in range(count):
            add_pair(exponents, powers, k + i, lanes, i)
    return total


@inlined(fastmath=SUMS)
def _finish(rows: Any, start: Any, labels: Any, mass: Any, lanes: Any, sums: Any) -> None:
    """Add the rows in the lanes to the sums."""
    count, first, totals = U(rows.shape[0]), U(start), _NO_TOTALS
    for i in range(count):
        lanes[_GAP + i] = 0.0
        lanes[_MASS + i] = 1.0
    if mass.size:
        for i in range(count):
            lanes[_MASS + i] = mass[first + i]
    if labels.size:
        for i in range(count):
            lanes[_GAP + i] = lanes[i] - rows[i, U(labels[first + i])]
    for i in range(count):
        totals = plus_row(totals, lanes, i)
    add_totals(sums, totals)


# Work arrays come from outside: to compile the making of one takes longer than to make many.


def _wide_moments(
    z: Any, labels: Any, mass: Any, scale: float, exponents: Any, powers: Any, lanes: Any, sums: Any
) -> None:
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        for i in range(rows.shape[0]):
            _wide_sums(rows[i], scale, exponents, powers, lanes, U(i))
        _finish(rows, start, labels, mass, lanes, sums)


def _narrow_moments(
    z: Any, labels: Any, mass: Any, scale: float, exponents: Any, powers: Any, lanes: Any, sums: Any
) -> None:
    for i in range(U(exponents.size)):  # what no row fills counts for nothing
        exponents[i] = LOWEST
    for start in range(0, z.shape[0], LANES):
        rows = z[start : start + LANES]
        sums[0] += 0 * _narrow_sums(rows, scale, exponents, powers, lanes)
        _finish(rows, start, labels, mass, lanes, sums)


# -------------------------------------------------------------------------------------- door

_NO_LABELS, _NO_WEIGHTS = np.zeros(0, np.int64), np.zeros(0)
_UNITS = tuple(LN2**r for r in range(ORDERS + 1))


@cache
def _moments(wide: bool, dtype: np.dtype[Any]) -> Any:
    work = types.Array(types.float64, 1, "C")
    signature = (
        read_only(nb.from_dtype(dtype), 2),
        read_only(types.int64, 1),
        read_only(types.float64, 1),
        types.float64,
        *(work, work, work, work),
    )
    return jit(_wide_moments if wide else _narrow_moments, signature)


def temperature_moments(
    z: NDArray[Any], y: NDArray[Any] | None, weight: NDArray[np.float64] | None, beta: float
) -> tuple[float, ...]:
    """Return what `temperance._core.kernels.temperature_moments` returns, with two more derivatives."""
    z, k = as_contiguous(z), z.shape[1]
    wide = k > NARROW
    mass = _NO_WEIGHTS if weight is None else np.ascontiguousarray(weight)
    labels, below = _NO_LABELS, 0.0
    if y is not None and y.ndim == 1:
        labels = np.ascontiguousarray(y)
    elif y is not None:
        every = np.ones(len(z)) if weight is None else weight
        below = float(every @ np.vecdot(z.max(axis=1, keepdims=True) - z.astype(np.float64), y))
        mass = every * y.sum(axis=1)
    size, sums = CHUNK if wide else (k + 1) // 2 * (2 * LANES), np.zeros(_TOTALS)
    _moments(wide, z.dtype)(z, labels, mass, beta * LOG2_E, *desk(size, size, int(_END)), sums)
    *scaled, gap, shifts, total, reach = sums.tolist()
    value, first, *others = [number * unit for number, unit in zip(scaled, _UNITS, strict=True)]
    below += gap
    spread = -shifts / k if reach <= LARGEST or are_sound(z) else math.nan
    target = beta * below
    return (value + target, first + target, *others, below, spread - below, spread, total)
