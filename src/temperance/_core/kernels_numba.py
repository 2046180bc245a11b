"""The functions of `kernels_numpy` compiled by Numba, ten times faster; docstrings are there.

Loops are short and simple, so that LLVM turns them into vector instructions. exp and log are
polynomials for the same reason; they are right to 8e-16 and 3e-16, against mpmath in the tests.

Every loop is bounded by the shape of an array, and every label is compared with the number of
columns, so no value of a logit or label leads out of an array. Where `kernels_numpy` returns NaN
for a row with NaN, so does the compiled function. Soft labels and arrays of other libraries are
left to `kernels_numpy`.

A function is compiled when it is first called for a dtype, never at import, and releases the
interpreter lock. Machine code is kept where `compiled_cache` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import TypeGuard, TypeVar, cast

import numba as nb
import numpy as np
from numpy.typing import NDArray

from temperance._core import kernels_numpy as reference
from temperance._core.arrays import Array, Floats, is_numpy
from temperance._core.checks import LARGEST, are_sound
from temperance._core.kernels_numpy import UNCOUNTED, WRONG_LABEL
from temperance._core.optimise import Moments
from temperance._core.sums import EvaluationSums

Function = TypeVar("Function", bound=Callable[..., object])
Reals = NDArray[np.float32 | np.float64]
Integers = NDArray[np.int64]
Work = tuple[Floats, Floats, Floats, Floats]

BLOCKS_PER_CALL = 8  # kernels make no copies of a block, so that more blocks cost no memory
CHUNK = 1_024  # numbers of an array that stays in the first-level cache with its companions
NEAR_EDGE = 0.5 - 1e-6  # distance from the middle of a bin, in widths, that is near an edge
SHORT = 32  # classes up to which a vector of metrics holds several rows
ORDERS = reference.DERIVATIVES

LOG2_E, LN2 = 1.4426950408889634, 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # LN2_HIGH times 2^10 is exact
SQRT2 = math.sqrt(2)
LOWEST = -1021.0  # power of 2 that needs no care
MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign
MANTISSA, EXPONENT_OF_ONE = 0x000FFFFFFFFFFFFF, 0x3FF0000000000000
ROUND = 1.5 * 2.0**52  # added, leaves an integer in the low bits
UNITS = np.array([LN2**r for r in range(ORDERS + 1)])

# What LLVM may do to sums; polynomials, and rounding by adding a large number, must stay.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
EXACT = {"contract"}


def part(fastmath: set[str]) -> Callable[[Function], Function]:
    """Compile a function into the kernels that call it."""
    compiled = nb.njit(forceinline=True, error_model="numpy", fastmath=fastmath)
    return cast("Callable[[Function], Function]", compiled)


def kernel(function: Function) -> Function:
    """Compile a function, and call it with arrays of few kinds: it is compiled once a dtype."""
    options = partial(nb.njit, nogil=True, error_model="numpy", fastmath=SUMS)
    try:
        compiled = options(cache=True)(function)
    except RuntimeError:  # neither this directory nor the user's cache can be written
        compiled = options()(function)

    @wraps(function)
    def call(*given: object) -> object:
        return compiled(*[_readable(value) for value in given])

    return cast("Function", call)


def _readable(value: object) -> object:
    """Return an array row after row, read-only, of a dtype that kernels know."""
    if not is_numpy(value):
        return value
    half = value.dtype.kind == "f" and value.dtype.itemsize < 4
    dtype = np.float32 if half else value.dtype if value.dtype.kind == "f" else np.int64
    view = np.ascontiguousarray(value, dtype).view()
    view.flags.writeable = False
    return view


def _are_hard(labels: Integers | Floats) -> TypeGuard[Integers]:
    return labels.ndim == 1


NO_WEIGHTS, NO_LABELS = np.zeros(0), np.zeros(0, np.int64)


# ------------------------------------------------------------------ parts: exp, log, maximum


@part(EXACT)
def two_to(x: float) -> float:
    """Return 2^x for x ≤ 0, at least 2^LOWEST: ``x = n + f``, ``2^x = 2^n (1 + f q(f))``."""
    x = LOWEST if x < LOWEST else x
    shifted = x + ROUND
    f = x - (shifted - ROUND)
    q = ((7.070978188179365e-09 * f + 1.0205905970852828e-07) * f + 1.3215451631814141e-06) * f
    q = ((q + 1.5252672922413522e-05) * f + 0.00015403530424778412) * f + 0.0013333558200797856
    q = ((q * f + 0.009618129107618665) * f + 0.05550410866465166) * f + 0.24022650695910075
    q = (q * f + 0.6931471805599462) * f + 1.0
    bits = np.float64(q).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


@part(EXACT)
def logarithm(s: float) -> float:
    """Return log s for 1 ≤ s < 2^1000: ``s = 2^n m``, ``log m = 2 artanh((m - 1) / (m + 1))``."""
    bits = np.float64(s).view(np.int64)
    m = np.int64((bits & MANTISSA) | EXPONENT_OF_ONE).view(np.float64)
    n = np.float64((bits >> 52) - 1023)
    high = m > SQRT2
    n = n + 1 if high else n
    m = m * 0.5 if high else m
    f = (m - 1) / (m + 1)
    g = f * f
    q = ((0.07308224842521703 * g + 0.07665860800278021) * g + 0.09091444562630861) * g
    q = ((q + 0.1111110556739754) * g + 0.14285714312987743) * g + 0.19999999999949752
    q = q * g + 0.3333333333333335
    return n * LN2_HIGH + ((f + f * g * q) * 2 + n * LN2_LOW)


@part(EXACT)
def largest(row: Reals) -> float:
    """Return the largest number of a row, compared as integers: LLVM has vectors for these only.

    The bits of positive floats are ordered as integers are, those of negative floats the other way
    round. A NaN is either the largest or the smallest.
    """
    best = np.int64(-MAGNITUDE)
    for k in range(row.size):
        bits = np.float64(row[k]).view(np.int64)
        best = max(best, bits ^ ((bits >> 63) & MAGNITUDE))
    return np.int64(best ^ ((best >> 63) & MAGNITUDE)).view(np.float64)


@part(EXACT)
def first_largest(row: Reals, top: float) -> int:
    """Return the place of the first number that is ``top`` or NaN."""
    place = row.size - 1
    for k in range(row.size):
        place = min(place, k if row[k] == top or row[k] != row[k] else row.size)
    return place


@part(SUMS)
def total(row: Floats) -> float:
    """Return the sum of a row."""
    s = 0.0
    for k in range(row.size):
        s += row[k]
    return s


@part(SUMS)
def dot(x: Floats, y: Floats, count: int) -> float:
    """Return ``Σ x y``."""
    s = 0.0
    for i in range(count):
        s += x[i] * y[i]
    return s


@part(SUMS)
def shifted_exponents(row: Reals, top: float, scale: float, u: Floats) -> float:
    """Write ``(z - top) scale``, LOWEST where that is less, and return the sum of ``z - top``."""
    s = 0.0
    for k in range(row.size):
        d = np.float64(row[k]) - top
        s += d
        x = d * scale
        u[k] = LOWEST if x < LOWEST else x
    return s


@part(EXACT)
def exponentiate(
    z: Reals, start: int, scale: float, u: Floats, e: Floats, tops: Floats, shifts: Floats
) -> int:
    """Write ``u = (z - max z) scale``, 2^u, max z, Σ (z - max z) of some rows; return how many."""
    count = min(tops.size, z.shape[0] - start)
    for i in range(count):
        row = z[start + i]
        tops[i] = largest(row)
        shifts[i] = shifted_exponents(row, tops[i], scale, u[i])
    x, y = u.reshape(u.size), e.reshape(e.size)
    for k in range(x.size):
        y[k] = two_to(x[k])
    return count


@part(EXACT)
def work_arrays(z: Reals) -> Work:
    """Return the arrays that `exponentiate` writes."""
    rows: int = max(1, CHUNK // z.shape[1])
    rows = min(z.shape[0], rows - rows % 64 if rows > 64 else rows)  # whole vectors
    shape = rows, z.shape[1]
    return np.zeros(shape), np.zeros(shape), np.empty(rows), np.empty(rows)


# ------------------------------------------------------------------- NLL as a function of 1/T


@part(SUMS)
def power_sums(u: Floats, e: Floats, s: Floats, i: int) -> None:
    """Write ``Σ_k u_k^r e_k`` of one row, r = 0 … 6."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = 0.0
    for k in range(u.size):
        x, t = u[k], e[k]
        square = x * x
        s0 += t
        s1 += t * x
        t *= square
        s2 += t
        s3 += t * x
        t *= square
        s4 += t
        s5 += t * x
        s6 += t * square
    s[0, i], s[1, i], s[2, i], s[3, i] = s0, s1, s2, s3
    s[4, i], s[5, i], s[6, i] = s4, s5, s6


@part(EXACT)
def cumulants(s: Floats, count: int) -> None:
    """Replace ``Σ_k u_k^r 2^u_k`` of each row by ``log Σ 2^u`` and the cumulants of u."""
    for i in range(count):
        one = 1 / s[0, i]
        m, m2, m3 = s[1, i] * one, s[2, i] * one, s[3, i] * one
        m4, m5, m6 = s[4, i] * one, s[5, i] * one, s[6, i] * one
        # Round p turns E[u^(r - p + 1) (u - m)^(p - 1)] into E[u^(r - p) (u - m)^p].
        c2, c3, c4, c5, c6 = m2 - m * m, m3 - m * m2, m4 - m * m3, m5 - m * m4, m6 - m * m5
        c3, c4, c5, c6 = c3 - m * c2, c4 - m * c3, c5 - m * c4, c6 - m * c5
        c3, c4, c5, c6 = c3 - m * c2, c4 - m * c3, c5 - m * c4, c6 - m * c5
        c4, c5, c6 = c4 - m * c3, c5 - m * c4, c6 - m * c5
        c5, c6 = c5 - m * c4, c6 - m * c5
        c6 = c6 - m * c5
        s[0, i], s[1, i], s[2, i], s[3, i] = logarithm(s[0, i]), m, c2, c3
        s[4, i] = c4 - 3 * c2 * c2
        s[5, i] = c5 - 10 * c3 * c2
        s[6, i] = c6 - 15 * c4 * c2 - 10 * c3 * c3 + 30 * c2 * c2 * c2


@kernel
def moment_sums(z: Reals, labels: Integers, weight: Floats, scale: float) -> Floats:
    """Return Σ A log Σ 2^u, Σ A κ_r, Σ A (max z - z_y), Σ A Σ_k (z_k - max z), Σ A, the reach."""
    u, e, tops, shifts = work_arrays(z)
    s, mass, gaps = np.empty((ORDERS + 1, tops.size)), np.ones(tops.size), np.zeros(tops.size)
    sums = np.zeros(ORDERS + 5)
    for start in range(0, z.shape[0], tops.size):
        count = exponentiate(z, start, scale, u, e, tops, shifts)
        for i in range(count):
            power_sums(u[i], e[i], s, i)
            sums[ORDERS + 4] += abs(tops[i]) + abs(shifts[i])
            if weight.size:
                mass[i] = weight[start + i]
            if labels.size:
                y = labels[start + i]
                if not 0 <= y < z.shape[1]:
                    raise IndexError(WRONG_LABEL)
                gaps[i] = tops[i] - z[start + i, y]
        cumulants(s, count)
        for r in range(ORDERS + 1):
            sums[r] += dot(s[r], mass, count)
        sums[ORDERS + 1] += dot(gaps, mass, count)
        sums[ORDERS + 2] += dot(shifts, mass, count)
        sums[ORDERS + 3] += total(mass[:count])
    return sums


def temperature_moments(
    logits: Array, labels: Integers | Floats | None, weight: Floats | None, beta: float
) -> Moments:
    hard = NO_LABELS if labels is None else labels
    if not is_numpy(logits) or not _are_hard(hard):
        return reference.temperature_moments(logits, labels, weight, beta)
    sums = moment_sums(logits, hard, NO_WEIGHTS if weight is None else weight, beta * LOG2_E)
    gap, shifts, count, reach = sums[ORDERS + 1 :].tolist()
    if not (reach <= LARGEST or are_sound(logits)):
        return reference.NO_MOMENTS
    value, first, *others = (sums[: ORDERS + 1] * UNITS).tolist()
    logit_range, target = -shifts / logits.shape[1], beta * gap
    slopes = gap - logit_range, gap
    return Moments(value + target, (first + target, *others), *slopes, logit_range, count)


# --------------------------------------------------------------------------------- metrics


@part(SUMS)
def sums_of_rows(
    z: Reals, start: int, work: Work, predicted: Integers, s: Floats, squares: Floats
) -> None:
    """Write max z, Σ (z - max z), argmax, Σ e and Σ e² of some rows, with e = exp(z - max z)."""
    u, e, tops, shifts = work
    for i in range(exponentiate(z, start, LOG2_E, u, e, tops, shifts)):
        s[i], squares[i] = total(e[i]), dot(e[i], e[i], z.shape[1])
        predicted[i] = first_largest(z[start + i], tops[i])


@part(SUMS)
def sums_of_short_rows(
    z: Reals, start: int, work: Work, predicted: Integers, s: Floats, squares: Floats
) -> None:
    """Write the sums of rows of few classes, class by class: a vector holds several rows."""
    u, _, tops, shifts = work
    count, x = min(tops.size, z.shape[0] - start), u.reshape(z.shape[1], tops.size)
    for i in range(count):
        for k in range(z.shape[1]):
            x[k, i] = z[start + i, k]
    for i in range(count):
        tops[i], predicted[i], shifts[i], s[i], squares[i] = x[0, i], 0, 0.0, 0.0, 0.0
    for k in range(1, z.shape[1]):
        for i in range(count):
            predicted[i] = k if x[k, i] > tops[i] else predicted[i]
            tops[i] = x[k, i] if x[k, i] > tops[i] else tops[i]
    for k in range(z.shape[1]):
        for i in range(count):
            d = x[k, i] - tops[i]
            e = two_to(d * LOG2_E)
            shifts[i] += d
            s[i] += e
            squares[i] += e * e


@part(EXACT)
def outcomes_of_chunk(
    z: Reals,
    labels: Integers,
    start: int,
    work: Work,
    predicted: Integers,
    confidence: Floats,
    correct: Floats,
    nll: Floats,
    brier: Floats,
) -> int:
    """Write the outcomes of some rows, and return how many."""
    _, _, tops, shifts = work
    count = min(tops.size, z.shape[0] - start)
    if z.shape[1] <= SHORT:
        sums_of_short_rows(z, start, work, predicted, confidence, brier)
    else:
        sums_of_rows(z, start, work, predicted, confidence, brier)
    for i in range(count):
        y = labels[start + i]
        if not 0 <= y < z.shape[1]:
            raise IndexError(WRONG_LABEL)
        nll[i] = np.float64(z[start + i, y]) - tops[i]
        correct[i] = predicted[i] == y
    for i in range(count):
        s, own, unfit = confidence[i], nll[i], math.nan if shifts[i] != shifts[i] else 0.0
        one = 1 / s
        score = (brier[i] * one - 2 * two_to(own * LOG2_E)) * one + 1
        confidence[i], correct[i] = one + unfit, 0.0 if unfit != unfit else correct[i]
        nll[i] = logarithm(s) - own + unfit
        brier[i] = (score if score > 0 else 0.0) + unfit
    return count


@kernel
def outcome_rows(z: Reals, labels: Integers) -> Floats:
    """Return the outcomes of all rows, one kind a row."""
    work, out = work_arrays(z), np.empty((4, z.shape[0]))
    rows = work[2].size
    predicted = np.empty(rows, np.int64)
    for start in range(0, z.shape[0], rows):
        some = slice(start, start + rows)
        c, r, n, b = out[0, some], out[1, some], out[2, some], out[3, some]
        outcomes_of_chunk(z, labels, start, work, predicted, c, r, n, b)
    return out


def outcomes(logits: Reals, labels: Integers | Floats) -> tuple[Floats, Floats, Floats, Floats]:
    if not _are_hard(labels):
        return reference.outcomes(logits, labels)
    return tuple(outcome_rows(logits, labels))


@part(EXACT)
def bin_indices(confidence: Floats, edges: Floats, n: int, places: Integers) -> None:
    """Write the bin of each confidence; near an edge the product may be rounded across it."""
    last, near = edges.size - 2, 0
    for i in range(n):
        x = confidence[i] * (last + 1)
        places[i] = min(np.int64(x if x > 0 else 0.0), last)  # NaN has no integer
        near += abs(x - places[i] - 0.5) > NEAR_EDGE
    for i in range(n if near else 0):
        c, place = confidence[i], places[i]
        if abs(c * (last + 1) - place - 0.5) > NEAR_EDGE:
            place += c > edges[place + 1]
            places[i] = place - (place > 0 and c <= edges[place])


@kernel
def evaluation(
    z: Reals, labels: Integers, weight: Floats, edges: Floats
) -> tuple[Floats, Floats, float]:
    """Return sums of weight, correctness, NLL and Brier score; of bins; and the reach."""
    work, scores, bins, reach = work_arrays(z), np.zeros(4), np.zeros((edges.size - 1, 3)), 0.0
    _, _, tops, shifts = work
    rows = tops.size
    mass, predicted, confidence = np.ones(rows), np.empty(rows, np.int64), np.empty(rows)
    correct, nll, brier = np.empty(rows), np.empty(rows), np.empty(rows)
    for start in range(0, z.shape[0], rows):
        n = outcomes_of_chunk(z, labels, start, work, predicted, confidence, correct, nll, brier)
        for i in range(n):
            reach += abs(tops[i]) + abs(shifts[i])
        if weight.size:
            mass = weight[start : start + n]
        scores[0] += total(mass[:n])
        scores[1] += dot(mass, correct, n)
        scores[2] += dot(mass, nll, n)
        scores[3] += dot(mass, brier, n)
        bin_indices(confidence, edges, n, predicted)
        for i in range(n):
            place = predicted[i]
            bins[place, 0] += mass[i]
            bins[place, 1] += mass[i] * confidence[i]
            bins[place, 2] += mass[i] * correct[i]
    return scores, bins, reach


def evaluation_sums(
    logits: Reals, labels: Integers | Floats, weight: Floats | None, edges: Floats
) -> EvaluationSums:
    if not _are_hard(labels):
        return reference.evaluation_sums(logits, labels, weight, edges)
    masses = NO_WEIGHTS if weight is None else weight
    scores, bins, reach = evaluation(logits, labels, masses, edges)
    if not (reach <= LARGEST or are_sound(logits)):
        scores[:] = math.nan
    return EvaluationSums(scores, bins.T, int(weight is not None))


# ------------------------------------------------------------------------- vector and matrix


@kernel
def residual_rows(v: Floats, labels: Integers, weight: Floats) -> tuple[Floats, float, Integers]:
    """Return ``w (softmax(v) - 1{y})``, the NLL, and rows with p_y ≤ 1/2 by class."""
    u, e, tops, shifts = work_arrays(v)
    out, missed, loss = np.empty_like(v), np.zeros(v.shape[1], np.int64), 0.0
    for start in range(0, v.shape[0], tops.size):
        count = exponentiate(v, start, LOG2_E, u, e, tops, shifts)
        for i in range(count):
            row, y = out[start + i], labels[start + i]
            if not 0 <= y < row.size:
                raise IndexError(WRONG_LABEL)
            w = weight[start + i] if weight.size else 1.0
            s = math.nan if shifts[i] != shifts[i] else total(e[i])
            for k in range(row.size):
                row[k] = e[i, k] * (w / s)
            missed[y] += w > 0 and e[i, y] <= 0.5 * s
            row[y] -= w
            loss += w * (logarithm(s) - (v[start + i, y] - tops[i]))
    return out, loss, missed


def residuals(
    v: Floats, labels: Integers | Floats, weight: Floats | None
) -> tuple[float, Integers]:
    if not _are_hard(labels):
        return reference.residuals(v, labels, weight)
    v[:], loss, missed = residual_rows(v, labels, NO_WEIGHTS if weight is None else weight)
    return float(loss), missed


# ------------------------------------------------- weights of unsupervised temperature scaling


@part(EXACT)
def write_log_odds(row: Reals, top: float, e: Floats, s: float, out: Floats) -> None:
    """Write ``z - top - log(s - e)``; of the predicted class the number is not used."""
    for k in range(row.size):
        rest = s - e[k]
        x = np.float64(row[k]) - top - logarithm(1.0 if rest < 1 else rest)
        out[k] = UNCOUNTED if x < UNCOUNTED else x


@kernel
def non_predicted_log_odds(z: Reals) -> tuple[Floats, Integers]:
    u, e, tops, shifts = work_arrays(z)
    odds, counts = np.empty(z.shape), np.zeros(z.shape[1], np.int64)
    for start in range(0, z.shape[0], tops.size):
        for i in range(exponentiate(z, start, LOG2_E, u, e, tops, shifts)):
            row, out = z[start + i], odds[start + i]
            write_log_odds(row, tops[i], e[i], total(e[i]), out)
            if shifts[i] != shifts[i]:
                out[:] = math.nan
            predicted = first_largest(row, tops[i])
            out[predicted] = UNCOUNTED
            counts[predicted] += 1
    return odds, counts


@kernel
def derivative_sums(odds: Floats, v: float) -> Floats:
    """Return ``Σ_i u_ik^r 2^u_ik`` with ``u = v o``."""
    sums = np.zeros((ORDERS + 1, odds.shape[1]))
    for i in range(odds.shape[0]):
        for k in range(odds.shape[1]):
            u = odds[i, k] * v
            u = LOWEST if u < LOWEST else u
            term = two_to(u)
            for r in range(ORDERS + 1):
                sums[r, k] += term
                term *= u
    return sums


def weight_derivatives(odds: Floats, v: float) -> Floats:
    return derivative_sums(odds, v * LOG2_E) * UNITS[:, None]


@kernel
def weight_doublings(odds: Floats, v: float, points: int) -> Floats:
    e, sums = np.empty(odds.shape[1]), np.zeros((points, odds.shape[1]))
    for i in range(odds.shape[0]):
        for k in range(e.size):
            e[k] = two_to(odds[i, k] * v * LOG2_E)
        for j in range(points):
            for k in range(e.size):
                sums[j, k] += e[k]
                e[k] *= e[k]
    return sums


@part(SUMS)
def mass_and_gap(row: Reals, top: float, odds: Floats, scale: float) -> tuple[float, float]:
    """Return ``Σ e`` and ``Σ e (top - z)`` with e = 2^(scale o)."""
    mass = gap = 0.0
    for k in range(row.size):
        e, d = two_to(odds[k] * scale), top - np.float64(row[k])
        mass += e
        gap += e * (LARGEST if d > LARGEST else d)
    return mass, gap


@kernel
def weight_mass(z: Reals, odds: Floats, v: float) -> tuple[Floats, Floats]:
    mass, gap = np.empty(z.shape[0]), np.empty(z.shape[0])
    for i in range(z.shape[0]):
        mass[i], gap[i] = mass_and_gap(z[i], largest(z[i]), odds[i], v * LOG2_E)
    return mass, gap
