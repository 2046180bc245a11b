# pyright: basic
"""The passes of unsupervised temperature scaling, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.fused.elementary import (
    CHUNK,
    LN2,
    LOG2_E,
    LOWEST,
    UNLIKELY,
    VECTOR,
    U,
    as_contiguous,
    desk,
    exp2,
    exponentials,
    jit,
    largest,
    log,
    read_only,
    twice_artanh,
)
from temperance._core.fused.traced import formula

if TYPE_CHECKING:
    from numpy.typing import NDArray


ORDERS = 6  # derivatives of the weights in 1/w
_AT_ONCE = 4  # rows whose powers are added together: fewer sums to load and to store


def _add_powers(sums: Any, exponents: Any, powers: Any, k: Any, count: Any) -> None:
    """Add ``u^r 2^u`` of a class of some rows, for r = 0 … 6."""
    us = [exponents[k + count * j] for j in range(_AT_ONCE)]
    terms = [powers[k + count * j] for j in range(_AT_ONCE)]
    for r in range(ORDERS + 1):
        if r:
            terms = [e * u for e, u in zip(terms, us, strict=True)]
        sums[k + count * r] = sums[k + count * r] + ((terms[0] + terms[1]) + (terms[2] + terms[3]))


add_powers = formula(_add_powers, 0)


def _log_odds(z: Any, odds: Any, counts: Any, powers: Any) -> float:
    n, n_classes = z.shape
    at_once = max(1, CHUNK // n_classes)
    total = 0.0  # for the sake of which LLVM works on several vectors at once
    for start in range(0, n, at_once):
        rows = z[start : start + at_once]
        flat = odds[start : start + at_once].reshape(rows.size)
        for i in range(rows.shape[0]):
            row, first = rows[i], U(i * n_classes)
            top = np.float64(largest(row))
            for k in range(U(n_classes)):
                flat[first + k] = np.float64(row[k]) - top
        for k in range(U(rows.size)):
            e = exp2(max(flat[k] * LOG2_E, LOWEST))
            total += e
            powers[k] = e
        for i in range(rows.shape[0]):
            first, predicted, s = U(i * n_classes), U(0), 0.0
            while flat[first + predicted] != 0:
                predicted += U(1)
            for k in range(U(n_classes)):
                s += powers[first + k]
            whole = log(s)
            for k in range(U(n_classes)):  # log(s - e) = log s - 2 artanh e / (2 s - e)
                e = powers[first + k]
                share = twice_artanh(e / (2 * s - e)) - whole
                total += share
                flat[first + k] += share
            flat[first + predicted] = UNLIKELY
            counts[predicted] += 1
    return total


def _exponential_sums(odds: Any, v: float, sums: Any, exponents: Any, powers: Any) -> float:
    count, scale, total = U(odds.shape[1]), v * LOG2_E, 0.0
    whole = U(_AT_ONCE) * count
    for i in range(0, odds.shape[0], _AT_ONCE):
        rows = odds[i : i + _AT_ONCE]
        flat = rows.reshape(rows.size)
        for k in range(U(flat.size)):
            exponents[k] = max(flat[k] * scale, LOWEST)
        for k in range(U(flat.size), whole):
            exponents[k] = LOWEST
        total += exponentials(exponents, powers, whole)
        for k in range(count):
            add_powers(sums, exponents, powers, k, count)
    return total


def _squared_sums(odds: Any, v: float, sums: Any) -> None:
    count, scale = U(odds.shape[1]), v * LOG2_E
    exponents, powers = np.empty(count), np.empty(count)
    for i in range(odds.shape[0]):
        row = odds[i]
        for k in range(count):
            exponents[k] = max(row[k] * scale, LOWEST)
        exponentials(exponents, powers, count)
        for j in range(sums.shape[0]):
            one = sums[j]
            for k in range(count):
                e = powers[k]
                one[k] += e
                powers[k] = e * e


def _odds_mass(
    z: Any, odds: Any, v: float, mass: Any, gap: Any, exponents: Any, powers: Any
) -> float:
    n, n_classes = z.shape
    scale, total, at_once = v * LOG2_E, 0.0, max(1, CHUNK // n_classes)
    for start in range(0, n, at_once):
        rows = z[start : start + at_once]
        flat = odds[start : start + at_once].reshape(rows.size)
        for k in range(U(rows.size)):
            exponents[k] = max(flat[k] * scale, LOWEST)
        total += exponentials(exponents, powers, U(rows.size))
        for i in range(rows.shape[0]):
            row, first = rows[i], U(i * n_classes)
            top, here, below = np.float64(largest(row)), 0.0, 0.0
            for k in range(U(n_classes)):
                here += powers[first + k]
                below += powers[first + k] * (top - np.float64(row[k]))
            mass[start + i], gap[start + i] = here, below
    return total


# ------------------------------------------------------------------------------------- doors


_NUMBERS, _TABLE = types.Array(types.float64, 1, "C"), types.Array(types.float64, 2, "C")
_ODDS = read_only(types.float64, 2)
_UNITS = (LN2 ** np.arange(ORDERS + 1))[:, None]


def _work(size: int) -> list[NDArray[np.float64]]:
    whole = -(-size // VECTOR) * VECTOR
    return desk(whole, whole)


@cache
def _odds(dtype: np.dtype[Any]) -> Any:
    counts = types.Array(types.int64, 1, "C")
    given = read_only(nb.from_dtype(dtype), 2), _TABLE, counts
    return jit(_log_odds, (*given, _NUMBERS))


def log_odds(z: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return log p/(1 - p) of the classes that are not predicted, and how often each one is."""
    z, k = as_contiguous(z), z.shape[1]
    odds, counts = np.empty(z.shape), np.zeros(k, np.int64)
    _odds(z.dtype)(z, odds, counts, _work(max(CHUNK, k))[0])
    return odds, counts


@cache
def _exponentials() -> Any:
    return jit(_exponential_sums, (_ODDS, types.float64, _NUMBERS, _NUMBERS, _NUMBERS))


def exponential_sums(odds: NDArray[np.float64], v: float) -> NDArray[np.float64]:
    """Return ``Σ_i (v o_ik)^r exp(v o_ik)`` for r = 0 … 6 (rows) and each class (columns)."""
    k = odds.shape[1]
    sums = np.zeros((ORDERS + 1) * k)
    _exponentials()(np.ascontiguousarray(odds), v, sums, *_work(_AT_ONCE * k))
    return sums.reshape(ORDERS + 1, k) * _UNITS


@cache
def _squares() -> Any:
    return jit(_squared_sums, (_ODDS, types.float64, _TABLE))


def squared_sums(odds: NDArray[np.float64], v: float, points: int) -> NDArray[np.float64]:
    """Return ``Σ_i exp(v o_ik)`` for v, 2 v, 4 v … (rows) and each class (columns)."""
    sums = np.zeros((points, odds.shape[1]))
    _squares()(np.ascontiguousarray(odds), v, sums)
    return sums


@cache
def _mass(dtype: np.dtype[Any]) -> Any:
    columns = (_NUMBERS,) * 4
    return jit(_odds_mass, (read_only(nb.from_dtype(dtype), 2), _ODDS, types.float64, *columns))


def odds_mass(
    z: NDArray[Any], odds: NDArray[np.float64], v: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``Σ_k W_k`` and ``Σ_k W_k (max z - z_k)`` of each row, W = odds^v."""
    z = as_contiguous(z)
    mass, gap = np.empty((2, z.shape[0]))
    work = _work(max(CHUNK, z.shape[1]))
    _mass(z.dtype)(z, np.ascontiguousarray(odds), v, mass, gap, *work)
    return mass, gap
