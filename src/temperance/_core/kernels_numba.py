# pyright: basic
"""The functions of `kernels_numpy` compiled by Numba, ten times faster; docstrings are there.

A chunk of rows at a time is copied into arrays that stay in the first-level cache. Loops over these
arrays are short and simple, so that LLVM turns them into vector instructions. exp and log are
polynomials for the same reason; they are right to 8e-16 and 3e-16, against mpmath in the tests.

Every loop is bounded by the shape of an array, and every label is compared with the number of
columns, so no value of a logit or label leads out of an array. Where `kernels_numpy` returns NaN
for a row with NaN, so does the compiled function.

Machine code is kept beside this file or, where that cannot be written, in the user's cache. A
function is compiled when it is first called for a dtype, never at import, and releases the
interpreter lock.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import Any

import numba as nb
import numpy as np

from temperance._core import kernels_numpy as reference
from temperance._core.arrays import is_numpy
from temperance._core.checks import LARGEST, are_sound
from temperance._core.kernels_numpy import *  # noqa: F403 - bin_index, bin_sums
from temperance._core.kernels_numpy import NO_LABEL, UNCOUNTED, WRONG_LABEL
from temperance._core.sums import EvaluationSums, Moments

BLOCKS_PER_CALL = 8  # kernels make no copies of a block, so that more blocks cost no memory
CHUNK = 2_048  # numbers of an array that stays in the first-level cache
SHORT = 32  # classes up to which metrics work class by class
ORDERS = reference.DERIVATIVES

LOG2_E, LN2 = 1.4426950408889634, 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # LN2_HIGH times 2^10 is exact
SQRT2 = math.sqrt(2)
LOWEST, LOWEST_32 = -1021.0, np.float32(-126)  # powers of 2 that need no care
MAGNITUDE, MAGNITUDE_32 = 0x7FFFFFFFFFFFFFFF, np.int32(0x7FFFFFFF)  # all bits but the sign
MANTISSA, EXPONENT_OF_ONE = 0x000FFFFFFFFFFFFF, 0x3FF0000000000000
ROUND, ROUND_32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)  # added, leave an integer in low bits
UNITS = np.array([LN2**r for r in range(ORDERS + 1)])
RANGE_32 = 1e-20, 1e20  # distances between logits that float32 holds

# What LLVM may do to sums; polynomials, and rounding by adding a large number, must stay.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
EXACT = {"contract"}


def part(fastmath: set[str]) -> Any:
    """Compile a function into the kernels that call it."""
    return nb.njit(forceinline=True, error_model="numpy", fastmath=fastmath)


def kernel(function: Any) -> Any:
    """Compile a function, and call it with arrays of few kinds: it is compiled once a dtype."""
    options: Any = {"nogil": True, "error_model": "numpy", "fastmath": SUMS}
    try:
        compiled = nb.njit(cache=True, **options)(function)
    except RuntimeError:  # neither this directory nor the user's cache can be written
        compiled = nb.njit(**options)(function)

    @wraps(function)
    def call(*given: Any) -> Any:
        return compiled(*[_readable(value) for value in given])

    return call


def _readable(value: Any) -> Any:
    """Return an array row after row, read-only, of a dtype that kernels know; None as no rows."""
    if value is None:
        return NONE
    if not is_numpy(value):
        return value
    half = value.dtype.kind == "f" and value.dtype.itemsize < 4
    dtype = np.float32 if half else value.dtype if value.dtype.kind == "f" else np.int64
    view = np.ascontiguousarray(value, dtype).view()
    view.flags.writeable = False
    return view


NONE = _readable(np.zeros(0))
NO_LABELS = _readable(np.zeros(0, np.int64))


# ------------------------------------------------------------------ parts: exp, log, maximum


@part(EXACT)
def two_to(x):
    """Return 2^x for -1021 ≤ x ≤ 0: ``x = n + f`` with n whole, ``2^x = 2^n (1 + f q(f))``."""
    shifted = x + ROUND
    f = x - (shifted - ROUND)
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
    q = q * f + 1.0
    bits = np.float64(q).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


_C32 = tuple(
    np.float32(c)
    for c in (0.0001545316295, 0.001339086336, 0.009618082557, 0.05550357114, 0.2402265076)
)
_LINEAR_32, _ONE_32 = np.float32(0.693147188), np.float32(1)


@part(EXACT)
def two_to_32(x):
    """Return 2^x for -126 ≤ x ≤ 0 in float32, right to 2e-7."""
    shifted = x + ROUND_32
    f = x - (shifted - ROUND_32)
    q = _C32[0]
    q = q * f + _C32[1]
    q = q * f + _C32[2]
    q = q * f + _C32[3]
    q = q * f + _C32[4]
    q = q * f + _LINEAR_32
    q = q * f + _ONE_32
    bits = np.float32(q).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32)


@part(EXACT)
def logarithm(s):
    """Return log s for 1 ≤ s < 2^1000: ``s = 2^n m``, ``log m = 2 artanh((m - 1) / (m + 1))``."""
    bits = np.float64(s).view(np.int64)
    m = np.int64((bits & MANTISSA) | EXPONENT_OF_ONE).view(np.float64)
    n = np.float64((bits >> 52) - 1023)
    high = m > SQRT2
    n = n + 1 if high else n
    m = m * 0.5 if high else m
    f = (m - 1) / (m + 1)
    g = f * f
    q = 0.07308224842521703
    q = q * g + 0.07665860800278021
    q = q * g + 0.09091444562630861
    q = q * g + 0.1111110556739754
    q = q * g + 0.14285714312987743
    q = q * g + 0.19999999999949752
    q = q * g + 0.3333333333333335
    return n * LN2_HIGH + ((f + f * g * q) * 2 + n * LN2_LOW)


@part(EXACT)
def exponentials(u, e):
    """Write 2^u of numbers between LOWEST and 0."""
    for k in range(u.size):
        e[k] = two_to(u[k])


@part(EXACT)
def largest(row):
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
def largest_magnitude(row):
    """Return the largest absolute value of a row, NaN where there is one."""
    best = np.int64(0)
    for k in range(row.size):
        best = max(best, np.float64(row[k]).view(np.int64) & MAGNITUDE)
    return np.int64(best).view(np.float64)


@part(EXACT)
def first_largest(row, top):
    """Return the place of the first number that is ``top`` or NaN."""
    place = row.size - 1
    for k in range(row.size):
        place = min(place, k if row[k] == top or row[k] != row[k] else row.size)
    return place


@part(SUMS)
def total(row):
    """Return the sum of a row."""
    s = 0.0
    for k in range(row.size):
        s += np.float64(row[k])
    return s


@part(SUMS)
def dot(x, y, count):
    """Return ``Σ x y``."""
    s = 0.0
    for i in range(count):
        s += x[i] * y[i]
    return s


@part(SUMS)
def scaled(row, factor, out):
    """Write a row times a factor."""
    for k in range(row.size):
        out[k] = row[k] * factor


@part(SUMS)
def shifted_exponents(row, top, scale, u):
    """Write ``(z - top) scale``, LOWEST where that is less, and return the sum of ``z - top``."""
    s = 0.0
    for k in range(row.size):
        d = np.float64(row[k]) - top
        s += d
        x = d * scale
        u[k] = LOWEST if x < LOWEST else x
    return s


@part(EXACT)
def exponentiate(z, start, scale, u, e, tops, shifts):
    """Write ``u = (z - max z) scale``, 2^u, max z, Σ (z - max z) of some rows; return how many."""
    count = min(tops.size, z.shape[0] - start)
    for i in range(count):
        row = z[start + i]
        tops[i] = largest(row)
        shifts[i] = shifted_exponents(row, tops[i], scale, u[i])
    exponentials(u.reshape(u.size), e.reshape(e.size))
    return count


@part(EXACT)
def work_arrays(z):
    """Return the arrays that `exponentiate` writes."""
    rows = max(1, CHUNK // z.shape[1])
    rows = min(z.shape[0], rows - rows % 64 if rows > 64 else rows)  # whole vectors
    shape = rows, z.shape[1]
    return np.zeros(shape), np.zeros(shape), np.empty(rows), np.empty(rows)


# ------------------------------------------------------------------- NLL as a function of 1/T


@part(SUMS)
def power_sums(u, e, s, i):
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
def cumulants(s, count):
    """Replace ``Σ_k u_k^r 2^u_k`` of each row by ``log Σ 2^u`` and the cumulants of u."""
    for i in range(count):
        one = 1 / s[0, i]
        m, m2, m3 = s[1, i] * one, s[2, i] * one, s[3, i] * one
        m4, m5, m6 = s[4, i] * one, s[5, i] * one, s[6, i] * one
        # Round p makes E[u^(r - p) (u - m)^p] of that with p - 1, until r = p.
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
def moment_sums(z, labels, weight, scale):
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


def temperature_moments(logits, labels, weight, beta, *, rough=False) -> Moments:
    if not is_numpy(logits):
        return reference.temperature_moments(logits, labels, weight, beta, rough=rough)
    hard, gap, mass = NO_LABELS if labels is None else labels, 0.0, weight
    if hard.ndim == 2:
        every = np.ones(len(logits)) if weight is None else weight
        with np.errstate(over="ignore", invalid="ignore"):  # validity is checked below
            u = logits.max(axis=1, keepdims=True) - logits.astype(np.float64)
            gap, mass = float(every @ np.vecdot(u, hard)), every * hard.sum(axis=1)
        hard = NO_LABELS
    sums = moment_sums(logits, hard, mass, beta * LOG2_E)
    gaps, shifts, count, reach = sums[ORDERS + 1 :].tolist()
    if not (reach <= LARGEST or are_sound(logits)):
        return reference.NO_MOMENTS
    value, first, *others = (sums[: ORDERS + 1] * UNITS).tolist()
    gap, logit_range = gap + gaps, -shifts / logits.shape[1]
    derivatives = (first + beta * gap, *others)
    slopes = gap - logit_range, gap
    return Moments(value + beta * gap, derivatives, *slopes, logit_range, count)


# --------------------------------------------------------------------------------- metrics


@part(SUMS)
def sums_of_rows(z, start, work, predicted, s, squares):
    """Write max z, Σ (z - max z), argmax, Σ e and Σ e² of some rows, with e = exp(z - max z)."""
    u, e, tops, shifts = work
    for i in range(exponentiate(z, start, LOG2_E, u, e, tops, shifts)):
        row, s0, s1 = e[i], 0.0, 0.0
        for k in range(row.size):
            s0 += row[k]
            s1 += row[k] * row[k]
        s[i], squares[i], predicted[i] = s0, s1, first_largest(z[start + i], tops[i])


@part(SUMS)
def sums_of_short_rows(z, start, work, predicted, s, squares):
    """Write the same of rows of few classes, class by class: a vector then holds several rows."""
    u, e, tops, shifts = work
    rows, n_classes = min(tops.size, z.shape[0] - start), z.shape[1]
    x, y = u.reshape(n_classes, tops.size), e.reshape(n_classes, tops.size)
    numbers, width = z[start : start + rows].reshape(rows * n_classes), np.uint64(n_classes)
    for k in range(width):
        for i in range(np.uint64(rows)):  # an unsigned index is not negative, which LLVM must know
            x[k, i] = numbers[i * width + k]
    for i in range(rows):
        tops[i], predicted[i], shifts[i], s[i], squares[i] = x[0, i], 0, 0.0, 0.0, 0.0
    for k in range(1, n_classes):
        for i in range(rows):
            predicted[i] = k if x[k, i] > tops[i] else predicted[i]
            tops[i] = x[k, i] if x[k, i] > tops[i] else tops[i]
    for k in range(n_classes):
        for i in range(rows):
            d = x[k, i] - tops[i]
            shifts[i] += d
            d *= LOG2_E
            x[k, i] = LOWEST if d < LOWEST else d
    exponentials(u.reshape(u.size), e.reshape(e.size))
    for k in range(n_classes):
        for i in range(rows):
            s[i] += y[k, i]
            squares[i] += y[k, i] * y[k, i]


@part(EXACT)
def outcomes_of_chunk(z, labels, start, work, predicted, confidence, correct, nll, brier):
    """Write the outcomes of some rows, and return how many; -1 where a label has no column."""
    _, _, tops, shifts = work
    count, wrong = min(tops.size, z.shape[0] - start), 0
    for i in range(count):
        wrong += labels[start + i] < 0 or labels[start + i] >= z.shape[1]
    if wrong:
        return -1
    if z.shape[1] <= SHORT:
        sums_of_short_rows(z, start, work, predicted, confidence, brier)
    else:
        sums_of_rows(z, start, work, predicted, confidence, brier)
    rows = z[start : start + count]
    numbers = rows.reshape(rows.size)
    for i in range(np.uint64(count)):
        y = np.uint64(labels[np.uint64(start) + i])
        nll[i] = np.float64(numbers[i * np.uint64(z.shape[1]) + y]) - tops[i]
        correct[i] = 1.0 if np.uint64(predicted[i]) == y else 0.0
    for i in range(count):
        s, own, unfit = confidence[i], nll[i], math.nan if shifts[i] != shifts[i] else 0.0
        sure, x = 1 / s, own * LOG2_E
        score = (brier[i] * sure - 2 * two_to(LOWEST if x < LOWEST else x)) * sure + 1
        confidence[i], correct[i] = sure + unfit, 0.0 if unfit != unfit else correct[i]
        nll[i] = logarithm(s) - own + unfit
        brier[i] = (score if score > 0 else 0.0) + unfit
    return count


@kernel
def outcome_rows(z, labels):
    """Return the outcomes of all rows, one kind a row."""
    work, out = work_arrays(z), np.empty((4, z.shape[0]))
    rows = work[2].size
    predicted = np.empty(rows, np.int64)
    for start in range(0, z.shape[0], rows):
        some = slice(start, start + rows)
        c, r, n, b = out[0, some], out[1, some], out[2, some], out[3, some]
        if outcomes_of_chunk(z, labels, start, work, predicted, c, r, n, b) < 0:
            raise IndexError(WRONG_LABEL)
    return out


def outcomes(logits, labels):
    if labels.ndim == 2:
        return reference.outcomes(logits, labels)
    confidence, correct, nll, brier = outcome_rows(logits, labels)
    return confidence, correct, nll, brier


@part(EXACT)
def find_bins(confidence, edges, places, count):
    """Write the bin of each confidence; rounding of the product is settled by the edges."""
    last = edges.size - 2
    for i in range(count):
        c = confidence[i]
        places[i] = min(np.int64(c * (last + 1)), last) if 0 < c <= 1 else 0
    for i in range(np.uint64(count)):
        c, place = confidence[i], np.uint64(places[i])
        up, down = c > edges[place + np.uint64(1)], c <= edges[place] and place > 0
        places[i] += np.int64(up) - np.int64(down)


@kernel
def evaluation(z, labels, weight, edges):
    """Return sums of weight, correctness, NLL and Brier score; of bins; and the reach or NaN."""
    work, scores, bins, reach = work_arrays(z), np.zeros(4), np.zeros((edges.size - 1, 3)), 0.0
    _, _, tops, shifts = work
    rows = tops.size
    mass, places, confidence = np.ones(rows), np.empty(rows, np.int64), np.empty(rows)
    correct, nll, brier = np.empty(rows), np.empty(rows), np.empty(rows)
    for start in range(0, z.shape[0], rows):
        n = outcomes_of_chunk(z, labels, start, work, places, confidence, correct, nll, brier)
        if n < 0:
            return scores, bins, math.nan
        for i in range(n):
            reach += abs(tops[i]) + abs(shifts[i])
            mass[i] = weight[start + i] if weight.size else 1.0
        scores[0] += total(mass[:n])
        scores[1] += dot(mass, correct, n)
        scores[2] += dot(mass, nll, n)
        scores[3] += dot(mass, brier, n)
        find_bins(confidence, edges, places, n)
        for i in range(n):
            place = np.uint64(places[i])
            bins[place, 0] += mass[i]
            bins[place, 1] += mass[i] * confidence[i]
            bins[place, 2] += mass[i] * correct[i]
    return scores, bins, reach


def evaluation_sums(logits, labels, weight, edges) -> EvaluationSums:
    if labels.ndim == 2:
        return reference.evaluation_sums(logits, labels, weight, edges)
    scores, bins, reach = evaluation(logits, labels, weight, edges)
    if math.isnan(reach) or not (reach <= LARGEST or are_sound(logits)):
        return EvaluationSums.invalid(edges.size - 1)
    n, correct, nll, brier = scores.tolist()
    return EvaluationSums(n, correct, nll, brier, bins.T, weight is not None)


# ------------------------------------------------------------------------- vector and matrix


@kernel
def residual_rows(v, labels, weight):
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
            scaled(e[i], w / s, row)
            missed[y] += w > 0 and e[i, y] <= 0.5 * s
            row[y] -= w
            loss += w * (logarithm(s) - (v[start + i, y] - tops[i]))
    return out, loss, missed


def residuals(v, labels, weight):
    if labels.ndim == 2:
        return reference.residuals(v, labels, weight)
    v[:], loss, missed = residual_rows(v, labels, weight)
    return float(loss), missed


# ------------------------------------------------- weights of unsupervised temperature scaling


@part(EXACT)
def subtract_log_rest(e, s, row):
    """Turn ``log e`` into ``log e - log(s - e)``; of the predicted class the number is not used."""
    for k in range(row.size):
        rest = s - e[k]
        x = row[k] - logarithm(1.0 if rest < 1 else rest)
        row[k] = UNCOUNTED if x < UNCOUNTED else x


@kernel
def non_predicted_log_odds(z):
    u, e, tops, shifts = work_arrays(z)
    odds, counts = np.empty(z.shape), np.zeros(z.shape[1], np.int64)
    for start in range(0, z.shape[0], tops.size):
        for i in range(exponentiate(z, start, LOG2_E, u, e, tops, shifts)):
            row, out = z[start + i], odds[start + i]
            for k in range(row.size):
                out[k] = np.float64(row[k]) - tops[i]
            subtract_log_rest(e[i], total(e[i]), out)
            if shifts[i] != shifts[i]:
                out[:] = math.nan
            predicted = first_largest(row, tops[i])
            out[predicted] = UNCOUNTED
            counts[predicted] += 1
    return odds, counts


@part(SUMS)
def add_powers(u, e, sums):
    """Add ``u^r e`` of each class over four rows, r = 0 … 6."""
    for k in range(sums.shape[1]):
        x, a, y, b = u[0, k], e[0, k], u[1, k], e[1, k]
        z, c, w, d = u[2, k], e[2, k], u[3, k], e[3, k]
        for r in range(ORDERS + 1):
            sums[r, k] += (a + b) + (c + d)
            a, b, c, d = a * x, b * y, c * z, d * w


@kernel
def derivative_sums(odds, v):
    """Return ``Σ_i u_ik^r 2^u_ik`` with ``u = v o``; classes in strips whose sums stay in cache."""
    n, n_classes = odds.shape
    sums, width = np.zeros((ORDERS + 1, n_classes)), min(n_classes, CHUNK // 8)
    u, e = np.zeros((4, width)), np.zeros((4, width))
    for first in range(0, n_classes, width):
        strip = slice(first, min(first + width, n_classes))
        for start in range(0, n, 4):
            u[:] = LOWEST
            for i in range(min(4, n - start)):
                shifted_exponents(odds[start + i, strip], 0.0, v, u[i])
            exponentials(u.reshape(u.size), e.reshape(e.size))
            add_powers(u, e, sums[:, strip])
    return sums


def weight_derivatives(odds, v):
    return derivative_sums(odds, v * LOG2_E) * UNITS[:, None]


@part(SUMS)
def add_and_square(e, sums):
    """Add e to the sums, and replace it by its square."""
    for k in range(e.size):
        sums[k] += e[k]
        e[k] *= e[k]


@kernel
def weight_doublings(odds, v, points):
    u, e = np.empty(odds.shape[1]), np.empty(odds.shape[1])
    sums = np.zeros((points, odds.shape[1]))
    for i in range(odds.shape[0]):
        shifted_exponents(odds[i], 0.0, v * LOG2_E, u)
        exponentials(u, e)
        for j in range(points):
            add_and_square(e, sums[j])
    return sums


@part(SUMS)
def gap_of_row(row, top, e):
    """Return ``Σ e (top - z)``."""
    s = 0.0
    for k in range(row.size):
        d = top - np.float64(row[k])
        s += e[k] * (LARGEST if d > LARGEST else d)
    return s


@kernel
def weight_mass(z, odds, v):
    u, e, tops, _ = work_arrays(odds)
    mass, gap = np.empty(z.shape[0]), np.empty(z.shape[0])
    for start in range(0, z.shape[0], tops.size):
        count = min(tops.size, z.shape[0] - start)
        for i in range(count):
            shifted_exponents(odds[start + i], 0.0, v * LOG2_E, u[i])
        exponentials(u.reshape(u.size), e.reshape(e.size))
        for i in range(count):
            row = z[start + i]
            mass[start + i], gap[start + i] = total(e[i]), gap_of_row(row, largest(row), e[i])
    return mass, gap


# ----------------------------------------------------------------- rows, classes, prototypes


@part(SUMS)
def centre_row(row):
    """Subtract the mean of a row."""
    mean = total(row) / row.size
    for k in range(row.size):
        row[k] -= mean


@part(EXACT)
def divide_by_largest(row):
    """Divide a row by its largest absolute value, and return that: squares must not overflow."""
    scale = largest_magnitude(row)
    if scale != 0:
        for k in range(row.size):
            row[k] /= scale
    return scale


@kernel
def weighted_mean(z, weight):
    sums = np.zeros(z.shape[1])
    for i in range(z.shape[0]):
        row = z[i]
        for k in range(row.size):
            sums[k] += weight[i] * np.float64(row[k])
    return sums / weight.sum()


@kernel
def lengths_of_rows(z, centre):
    """Return the length of each row less ``centre``, less its mean."""
    a, lengths = np.empty(z.shape[1]), np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        row = z[i]
        for k in range(row.size):
            a[k] = np.float64(row[k]) - centre[k]
        centre_row(a)
        scale = divide_by_largest(a)
        lengths[i] = scale * math.sqrt(dot(a, a, a.size))
    return lengths


def row_lengths(z, centre=None):
    return lengths_of_rows(z, np.zeros(z.shape[1]) if centre is None else centre)


@kernel
def class_sums(z, labels):
    sums, a = np.zeros((z.shape[1], z.shape[1])), np.empty(z.shape[1])
    for i in range(z.shape[0]):
        y = labels[i]
        if not 0 <= y < z.shape[1]:
            raise IndexError(WRONG_LABEL)
        scaled(z[i], 1.0, a)
        centre_row(a)
        row = sums[y]
        for k in range(row.size):
            row[k] += a[k]
    return sums


@kernel
def similarity(z, prototypes, labels, offset):
    """Return the cosine of each row with the prototype of the class it is predicted as."""
    a, b, cosines = np.empty(z.shape[1]), np.empty(z.shape[1]), np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        row = z[i]
        for k in range(row.size):
            a[k] = np.float64(row[k]) + offset[k]
        predicted = first_largest(a, largest(a))
        centre_row(a)
        prototype, own = prototypes[predicted], 1.0 if predicted == labels[i] else 0.0
        for k in range(row.size):
            b[k] = prototype[k] - own * a[k]
        if divide_by_largest(a) != 0 and divide_by_largest(b) != 0:
            squares = dot(a, a, a.size) * dot(b, b, b.size)
            cosines[i] = dot(a, b, a.size) / math.sqrt(squares)
    return cosines


def prototype_similarity(z, prototypes, labels=None, offset=None):
    known = np.full(len(z), NO_LABEL) if labels is None else labels
    return similarity(z, prototypes, known, np.zeros(z.shape[1]) if offset is None else offset)


# ---------------------------------------------------------- softmax of a sample, many times


@kernel
def shifted_rows(z):
    """Return ``z - max z`` in float32, argmax, and the largest distance of all, or NaN."""
    out, predicted, furthest = np.empty(z.shape, np.float32), np.empty(z.shape[0], np.int64), 0.0
    for i in range(z.shape[0]):
        row, moved = z[i], out[i]
        top = largest(row)
        predicted[i] = first_largest(row, top)
        for k in range(row.size):
            moved[k] = np.float64(row[k]) - top
        reach = largest_magnitude(moved)
        furthest = furthest if reach <= furthest else reach
    return out, predicted, furthest


def prepare_sample(z):
    shifted, predicted, furthest = shifted_rows(z)
    if RANGE_32[0] <= furthest <= RANGE_32[1]:
        return shifted, predicted
    with np.errstate(over="ignore", invalid="ignore"):
        return z - z.max(axis=1, keepdims=True).astype(np.float64), predicted


@part(EXACT)
def mapped_exponents(row, beta, bias, u):
    """Write ``β z + b`` less its largest, in float32; see `largest`."""
    best = np.int32(-MAGNITUDE_32)
    for k in range(row.size):
        u[k] = row[k] * beta + bias[k]
        bits = np.float32(u[k]).view(np.int32)
        best = max(best, bits ^ ((bits >> np.int32(31)) & MAGNITUDE_32))
    top = np.int32(best ^ ((best >> np.int32(31)) & MAGNITUDE_32)).view(np.float32)
    for k in range(row.size):
        x = u[k] - top
        u[k] = LOWEST_32 if x < LOWEST_32 else x


@part(EXACT)
def exponentials_32(u, e):
    """Write 2^u of numbers between LOWEST_32 and 0."""
    for k in range(u.size):
        e[k] = two_to_32(u[k])


@part(SUMS)
def add_softmax(e, sums):
    """Add ``e / Σ e`` to the sums, and return 1 / Σ e."""
    s = np.float32(0)
    for k in range(e.size):
        s += e[k]
    one = np.float32(1) / s
    for k in range(e.size):
        e[k] *= one
        sums[k] += e[k]
    return one


@kernel
def softmax_sums(z, beta, bias, predicted, as_rows):
    """Return sums of p = 2^(β z + b) / Σ 2^(β z + b), of max p, of p at ``predicted``; or p."""
    rows = min(z.shape[0], 64, max(1, CHUNK // z.shape[1]))  # few: p is added in float32
    u, e = np.zeros((rows, z.shape[1]), np.float32), np.zeros((rows, z.shape[1]), np.float32)
    some, means = np.zeros(z.shape[1], np.float32), np.zeros(z.shape[1])
    p = np.empty(z.shape if as_rows else (0, 0), np.float32)
    confidence = at_prediction = 0.0
    for start in range(0, z.shape[0], rows):
        count = min(rows, z.shape[0] - start)
        for i in range(count):
            mapped_exponents(z[start + i], beta, bias, u[i])
        exponentials_32(u.reshape(u.size), e.reshape(e.size))
        for i in range(count):
            confidence += add_softmax(e[i], some)
            if as_rows:
                p[start + i] = e[i]
                continue
            y = predicted[start + i]
            if not 0 <= y < z.shape[1]:
                raise IndexError(WRONG_LABEL)
            at_prediction += e[i, y]
        for k in range(means.size):
            means[k] += some[k]
            some[k] = 0
    return means, confidence, at_prediction, p


def _softmax_sums(z, inv_temperature, bias, predicted, as_rows):
    kind = z.dtype.type if z.dtype.itemsize >= 4 else np.float32
    beta, scaled_bias = kind(inv_temperature * LOG2_E), (bias * LOG2_E).astype(kind)
    return softmax_sums(z, beta, scaled_bias, predicted, as_rows)


def softmax_rows(z, inv_temperature, bias):
    return _softmax_sums(z, inv_temperature, bias, NO_LABELS, True)[3]


def softmax_means(z, inv_temperature, bias, predicted):
    n = len(z)
    means, confidence, at_prediction, _ = _softmax_sums(z, inv_temperature, bias, predicted, False)
    return means / n, confidence / n, at_prediction / n
