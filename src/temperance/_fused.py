# pyright: basic
"""The passes of `temperance._kernels` and of the metrics, compiled (extra: ``fast``).

A row is read once and everything about it is summed while it is in the first-level cache; nothing
of the size of a block is written. exp and log are polynomials, so that LLVM turns the loops into
vector instructions without any library: right to 8e-16 and 3e-16, against mpmath in the tests.

Rows of many classes (*wide*) are summed one after the other. Rows of few classes (*narrow*) would
leave most of a vector empty, so 64 of them are laid side by side, one to a lane.

Machine code is kept beside this file or, where that cannot be written, in the user's cache. Every
function here is compiled when it is first called for a dtype, never at import. They release the
interpreter lock.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import extending, types

from temperance._kernels import cumulants_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NARROW = 32  # classes up to which rows are laid side by side
LANES = 64  # of them

# What LLVM may do to sums. Polynomials, and a rounding by adding a large number, must stay.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
STRICT = {"contract"}

LOWEST = -1021.0  # 2 to this is the smallest that needs no care, and nothing beside 1
LOG2_E, LN2 = 1.4426950408889634, 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first is exact times 2^10
SHIFT = 1.5 * 2.0**52  # added to a float, leaves the nearest integer in its last bits
SQRT2 = math.sqrt(2)
UNLIKELY = -1e30  # odds of what is not counted


def _jit(function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    """Compile with the error model of NumPy, and keep the code where there is a place for it."""
    settings = {"nogil": True, "error_model": "numpy", "fastmath": SUMS} | options
    try:
        return nb.njit(*signature, cache=True, **settings)(function)
    except RuntimeError:  # neither this directory nor the user's cache can be written
        return nb.njit(*signature, **settings)(function)


def _inlined(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    return nb.njit(forceinline=True, error_model="numpy", **options)


# ------------------------------------------------------------------------------- elementary

intrinsic: Any = extending.intrinsic


@intrinsic
def _bits(_: Any, x: Any) -> Any:
    """Return the bits of a float as an integer."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.uint64))

    return types.uint64(x), generate


@intrinsic
def _float(_: Any, x: Any) -> Any:
    """Return the float with these bits."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(x), generate


@intrinsic
def _larger(_: Any, x: Any, y: Any) -> Any:
    """Return the larger of two numbers that are not NaN, which lets LLVM compare eight at once."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        flags = ("nnan", "nsz")
        above = builder.fcmp_ordered(">", *args, flags=flags)
        return builder.select(above, *args, flags=flags)

    return x(x, y), generate


@_inlined(fastmath=STRICT)
def exp2(x: float) -> float:
    """Return 2^x for -1021 ≤ x ≤ 0: ``x = n + f`` with n whole, ``2^x = 2^n (1 + f q(f))``."""
    shifted = x + SHIFT
    f = x - (shifted - SHIFT)
    q = 7.070978188179365e-09
    q = q * f + 1.0205905970852828e-07
    q = q * f + 1.3215451631814141e-06
    q = q * f + 1.5252672922413522e-05
    q = q * f + 0.00015403530424778412
    q = q * f + 0.0013333558200797856
    q = q * f + 0.009618129107618665
    q = q * f + 0.05550410866465166
    q = q * f + 0.24022650695910075
    q = q * f + 0.6931471805599462
    return _float(_bits(q * f + 1.0) + (_bits(shifted) << np.uint64(52)))


@_inlined(fastmath=STRICT)
def log(s: float) -> float:
    """Return log s for 1 ≤ s < 2^1000: ``s = 2^n m``, ``log m = 2 artanh((m - 1) / (m + 1))``."""
    bits = _bits(s)
    m = _float((bits & np.uint64(0x000FFFFFFFFFFFFF)) | np.uint64(0x3FF0000000000000))
    n = _float((bits >> np.uint64(52)) | np.uint64(0x4330000000000000)) - (2.0**52 + 1023)
    above = m > SQRT2
    m = 0.5 * m if above else m
    n = n + 1 if above else n
    f = (m - 1) / (m + 1)
    g = f * f
    q = 1 / 21
    q = q * g + 1 / 19
    q = q * g + 1 / 17
    q = q * g + 1 / 15
    q = q * g + 1 / 13
    q = q * g + 1 / 11
    q = q * g + 1 / 9
    q = q * g + 1 / 7
    q = q * g + 1 / 5
    q = q * g + 1 / 3
    return n * LN2_HIGH + (2 * (f + f * g * q) + n * LN2_LOW)


@_inlined()
def _largest(row: Any) -> Any:
    top = row[0]
    for k in range(row.shape[0]):
        top = _larger(row[k], top)
    return top


_cumulants = _inlined(fastmath=SUMS)(cumulants_of)


@_inlined(fastmath=SUMS)
def _scaled_cumulants(
    s0: float, s1: float, s2: float, s3: float, s4: float, s5: float, s6: float
) -> Any:
    """Return the cumulants of u from the sums of ``(u / log 2)^r exp(u)``."""
    f1 = LN2 / s0
    f2, f3, f4, f5 = f1 * LN2, f1 * LN2**2, f1 * LN2**3, f1 * LN2**4
    return _cumulants(s1 * f1, s2 * f2, s3 * f3, s4 * f4, s5 * f5, s6 * (f1 * LN2**5))


@_inlined(fastmath=SUMS)
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


# --------------------------------------------------------------- moments of the temperature


def _wide_moments(z: Any, hard: Any, soft: Any, weight: Any, beta: float) -> Any:
    n, n_classes = z.shape
    scale = beta * LOG2_E
    value = t1 = t2 = t3 = t4 = t5 = t6 = below = means = total = 0.0
    for i in range(n):
        row = z[i]
        top = np.float64(_largest(row))
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = shifts = 0.0
        for k in range(n_classes):
            d = np.float64(row[k]) - top
            shifts += d
            u = max(d * scale, LOWEST)
            e = exp2(u)
            s0 += e
            e *= u
            s1 += e
            e *= u
            s2 += e
            e *= u
            s3 += e
            e *= u
            s4 += e
            e *= u
            s5 += e
            e *= u
            s6 += e
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


# Places of the sums in the lanes of a group of narrow rows. Unsigned: a place that may be negative
# would be counted from the end, and the test for that keeps LLVM from using vectors.
_U = np.uint64
_TOP, _S0, _S1, _S2, _S3, _S4, _S5, _S6, _SHIFTS, _GAP, _MASS, _END = (
    _U(LANES * j) for j in range(12)
)


@_inlined(fastmath=SUMS)
def _side_by_side(rows: Any, x: Any, lanes: Any) -> None:
    """Write up to 64 rows into the columns of x, and the largest of each into the first lanes."""
    count = _U(rows.shape[0])
    for k in range(rows.shape[1]):
        column = x[k]
        for i in range(count):
            column[i] = rows[i, k]
    column = x[0]
    for i in range(count):
        lanes[i] = column[i]
    for k in range(1, rows.shape[1]):
        column = x[k]
        for i in range(count):
            lanes[i] = _larger(column[i], lanes[i])


@_inlined(fastmath=SUMS)
def _label_lanes(rows: Any, start: int, hard: Any, soft: Any, weight: Any, lanes: Any) -> None:
    """Write what `_labelled` returns of each row, which is in its lane already."""
    count = _U(rows.shape[0])
    if hard.size and not weight.size:
        labels = hard[start : start + LANES]
        for i in range(count):
            lanes[_GAP + i] = lanes[i] - rows[i, labels[i]]
            lanes[_MASS + i] = 1.0
        return
    for i in range(rows.shape[0]):
        gap, mass = _labelled(rows[i], lanes[i], start + i, hard, soft, weight)
        lanes[_GAP + _U(i)] = gap
        lanes[_MASS + _U(i)] = mass


def _narrow_moments(z: Any, hard: Any, soft: Any, weight: Any, beta: float) -> Any:
    n, n_classes = z.shape
    scale = beta * LOG2_E
    x, lanes = np.empty((n_classes, LANES)), np.empty(LANES * 12)
    value = t1 = t2 = t3 = t4 = t5 = t6 = below = means = total = 0.0
    for start in range(0, n, LANES):
        rows = z[start : start + LANES]
        count = _U(rows.shape[0])
        _side_by_side(rows, x, lanes)
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


# ---------------------------------------------------------------------------------- beliefs


def _beliefs(z: Any, beta: float, bias: Any, p: Any, share: Any) -> Any:
    n, n_classes = z.shape
    u = np.empty(n_classes)
    sure = kept = 0.0
    for i in range(n):
        row = z[i]
        for k in range(n_classes):
            u[k] = np.float64(row[k]) * beta + bias[k]
        top = _largest(u)
        s = 0.0
        for k in range(n_classes):
            e = exp2(max((u[k] - top) * LOG2_E, LOWEST))
            u[k] = e
            s += e
        each = 1 / s
        for k in range(n_classes):
            e = u[k] * each
            p[i, k] = e
            share[k] += e
        top, first = _largest(row), 0
        while row[first] != top:
            first += 1
        sure += each
        kept += u[first] * each
    return sure, kept


# ------------------------------------------------------------------- unsupervised temperature


def _log_odds(z: Any, odds: Any) -> None:
    u = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        row, e = z[i], odds[i]
        top = _largest(row)
        s = 0.0
        for k in range(row.shape[0]):
            u[k] = np.float64(row[k]) - np.float64(top)
            e[k] = exp2(max(u[k] * LOG2_E, LOWEST))
            s += e[k]
        for k in range(row.shape[0]):  # s - e is 1 at least, but for the class that is predicted
            e[k] = u[k] - log(s - e[k])
        first = 0
        while row[first] != top:
            first += 1
        e[first] = UNLIKELY


def _exponential_sums(odds: Any, v: float) -> Any:
    n, n_classes = odds.shape
    sums = np.zeros((4, n_classes))
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    scale = v * LOG2_E
    for i in range(n):
        row = odds[i]
        for k in range(n_classes):
            u = max(row[k] * scale, LOWEST)
            e = exp2(u)
            s0[k] += e
            e *= u
            s1[k] += e
            e *= u
            s2[k] += e
            e *= u
            s3[k] += e
    for k in range(n_classes):
        s1[k] *= LN2
        s2[k] *= LN2**2
        s3[k] *= LN2**3
    return sums


def _odds_mass(z: Any, odds: Any, v: float, share: float, mass: Any) -> float:
    scale, total = v * LOG2_E, 0.0
    for i in range(z.shape[0]):
        row, chances = z[i], odds[i]
        top = np.float64(_largest(row))
        weight = gap = 0.0
        for k in range(row.shape[0]):
            w = exp2(max(chances[k] * scale, LOWEST))
            weight += w
            gap += w * (top - np.float64(row[k]))
        mass[i] = 1 + share * weight
        total += share * gap
    return total


# ---------------------------------------------------------------------------------- metrics


@_inlined(fastmath=STRICT)
def _finished(own: float, s: float, squares: float) -> Any:
    """Return confidence, NLL and Brier score from ``u_y``, ``Σ exp u`` and ``Σ exp 2u``."""
    own_e = exp2(max(own * LOG2_E, LOWEST))
    confidence = 1 / s
    return confidence, log(s) - own, max((squares * confidence - 2 * own_e) * confidence + 1, 0.0)


@_inlined()
def _is_first(row: Any, y: int) -> bool:
    """Return whether no earlier logit equals that of class y."""
    for k in range(y):  # noqa: SIM110 - compiled code has no generators
        if row[k] == row[y]:
            return False
    return True


def _wide_outcomes(z: Any, y: Any, confidence: Any, correct: Any, nll: Any, brier: Any) -> None:
    for i in range(z.shape[0]):
        row = z[i]
        top = np.float64(_largest(row))
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
        count = _U(rows.shape[0])
        _side_by_side(rows, x, lanes)
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
            lanes[_S2 + _U(i)] = own
            right[i] = 1.0 if own == 0 and _is_first(rows[i], labels[i]) else 0.0
        sure, loss = confidence[start : start + LANES], nll[start : start + LANES]
        for i in range(count):
            sure[i], loss[i], lanes[_S0 + i] = _finished(
                lanes[_S2 + i], lanes[_S0 + i], lanes[_S1 + i]
            )
        for i in range(count):
            brier[_U(start) + i] = lanes[_S0 + i]


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


# ----------------------------------------------------------------------------------- doors

_NONE = np.zeros(0)
_NO_LABELS = np.zeros(0, np.int64)
_NO_SOFT = np.zeros((0, 0))


def _read_only(dtype: Any, ndim: int) -> Any:
    """Type of an array that is not written to, which those that could be are taken for too."""
    return types.Array(dtype, ndim, "C", readonly=True)


@cache
def _moments(wide: bool, dtype: np.dtype[Any]) -> Any:
    signature = (
        _read_only(nb.from_dtype(dtype), 2),
        _read_only(types.int64, 1),
        _read_only(types.float64, 2),
        _read_only(types.float64, 1),
        types.float64,
    )
    return _jit(_wide_moments if wide else _narrow_moments, signature)


def _rows(z: NDArray[Any]) -> NDArray[Any]:
    """Return logits as the kernels read them: float32 or float64, row after row."""
    return np.ascontiguousarray(z.astype(np.float32) if z.dtype.itemsize < 4 else z)


def temperature_moments(
    z: NDArray[Any], y: NDArray[Any] | None, weight: NDArray[np.float64] | None, beta: float
) -> tuple[float, ...]:
    """Return what `temperance._kernels.temperature_moments` returns for this block."""
    z = _rows(z)
    is_hard, is_soft = y is not None and y.ndim == 1, y is not None and y.ndim == 2
    return _moments(z.shape[1] > NARROW, z.dtype)(
        z,
        np.ascontiguousarray(y) if is_hard else _NO_LABELS,
        np.ascontiguousarray(y) if is_soft else _NO_SOFT,
        _NONE if weight is None else np.ascontiguousarray(weight),
        beta,
    )


@cache
def _belief(dtype: np.dtype[Any]) -> Any:
    signature = (
        _read_only(nb.from_dtype(dtype), 2),
        types.float64,
        _read_only(types.float64, 1),
        types.Array(types.float32, 2, "C"),
        types.Array(types.float64, 1, "C"),
    )
    return _jit(_beliefs, signature)


def beliefs(
    z: NDArray[Any], beta: float, bias: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, float, NDArray[np.float32]]:
    """Return means of p = softmax(β z + b), of its largest, of that of argmax z; and p itself."""
    z, n = _rows(z), len(z)
    p, share = np.empty(z.shape, np.float32), np.zeros(z.shape[1])
    sure, kept = _belief(z.dtype)(z, beta, np.ascontiguousarray(bias), p, share)
    return share / n, sure / n, kept / n, p


@cache
def _outcomes(wide: bool, dtype: np.dtype[Any]) -> Any:
    column = types.Array(types.float64, 1, "C")
    rows = _read_only(nb.from_dtype(dtype), 2)
    signature = (rows, _read_only(types.int64, 1), column, column, column, column)
    if wide:
        return _jit(_wide_outcomes, signature)
    return _jit(_narrow_outcomes, signature, fastmath=STRICT)  # lanes are not added up


def outcomes(z: NDArray[Any], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Return confidence, whether it is right, NLL and Brier score of each row with a hard label."""
    z = _rows(z)
    columns = tuple(np.empty((4, z.shape[0])))
    _outcomes(z.shape[1] > NARROW, z.dtype)(z, np.ascontiguousarray(y), *columns)
    return columns


@cache
def _binning() -> Any:
    return _jit(_bin_sums, (_read_only(types.float64, 1),) * 4, fastmath=STRICT)


def bin_sums(
    confidence: NDArray[np.float64],
    correct: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weight, confidence and correctness, summed over the bins between ``edges``."""
    columns = (confidence, correct, _NONE if weight is None else weight, edges)
    return _binning()(*(np.ascontiguousarray(column) for column in columns))


@cache
def _odds(dtype: np.dtype[Any]) -> Any:
    signature = _read_only(nb.from_dtype(dtype), 2), types.Array(types.float64, 2, "C")
    return _jit(_log_odds, signature)


def log_odds(z: NDArray[Any]) -> NDArray[np.float64]:
    """Return log p/(1 - p) of the classes that are not predicted, p = softmax(z)."""
    z = _rows(z)
    odds = np.empty(z.shape)
    _odds(z.dtype)(z, odds)
    return odds


@cache
def _sums() -> Any:
    return _jit(_exponential_sums, (_read_only(types.float64, 2), types.float64))


def exponential_sums(odds: NDArray[np.float64], v: float) -> NDArray[np.float64]:
    """Return ``Σ_i (v o_ik)^r exp(v o_ik)`` for r = 0 … 3 (rows) and each class (columns)."""
    return _sums()(np.ascontiguousarray(odds), v)


@cache
def _mass(dtype: np.dtype[Any]) -> Any:
    z, odds = _read_only(nb.from_dtype(dtype), 2), _read_only(types.float64, 2)
    mass = types.Array(types.float64, 1, "C")
    return _jit(_odds_mass, (z, odds, types.float64, types.float64, mass))


def odds_mass(
    z: NDArray[Any], odds: NDArray[np.float64], v: float, share: float
) -> tuple[NDArray[np.float64], float]:
    """Return ``A = 1 + c Σ_k W_k`` of each row and ``c Σ W (max z - z)``, W = odds^v."""
    z = _rows(z)
    mass = np.empty(z.shape[0])
    return mass, _mass(z.dtype)(z, np.ascontiguousarray(odds), v, share, mass)
