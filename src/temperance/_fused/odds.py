# pyright: basic
"""The passes of unsupervised temperature scaling, compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._fused.elementary import (
    LN2,
    LOG2_E,
    LOWEST,
    UNLIKELY,
    VECTOR,
    U,
    as_contiguous,
    exponentials,
    jit,
    largest,
    log,
    read_only,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _log_odds(z: Any, odds: Any) -> float:
    count = U(z.shape[1])
    whole = (count + U(VECTOR - 1)) & ~U(VECTOR - 1)
    exponents, powers = np.full(whole, LOWEST), np.empty(whole)
    total = 0.0  # for the sake of which LLVM works on several vectors at once
    for i in range(z.shape[0]):
        row, o = z[i], odds[i]
        best = largest(row)
        top = np.float64(best)
        for k in range(count):
            u = np.float64(row[k]) - top
            o[k] = u
            exponents[k] = max(u * LOG2_E, LOWEST)
        s = exponentials(exponents, powers, whole)
        for k in range(count):  # s - e is 1 at least, but for the class that is predicted
            rest = log(s - powers[k])
            total += rest
            o[k] -= rest
        first = 0
        while row[first] != best:
            first += 1
        o[first] = UNLIKELY
    return total


def _exponential_sums(odds: Any, v: float, sums: Any) -> float:
    count, scale, total = U(odds.shape[1]), v * LOG2_E, 0.0
    exponents, powers = np.empty(2 * count), np.empty(2 * count)
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    for i in range(0, odds.shape[0], 2):  # in pairs: fewer sums to load and to store
        pair = odds[i : i + 2]
        flat = pair.reshape(pair.size)
        for k in range(U(flat.size)):
            exponents[k] = max(flat[k] * scale, LOWEST)
        for k in range(U(flat.size), 2 * count):
            exponents[k] = LOWEST
        total += exponentials(exponents, powers, 2 * count)
        for k in range(count):
            u, v1, e, f = exponents[k], exponents[count + k], powers[k], powers[count + k]
            s0[k] += e + f
            e *= u
            f *= v1
            s1[k] += e + f
            e *= u
            f *= v1
            s2[k] += e + f
            s3[k] += e * u + f * v1
    for k in range(count):
        s1[k] *= LN2
        s2[k] *= LN2**2
        s3[k] *= LN2**3
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


def _odds_mass(z: Any, odds: Any, v: float, mass: Any, gap: Any) -> None:
    count, scale = U(z.shape[1]), v * LOG2_E
    exponents, powers = np.empty(count), np.empty(count)
    for i in range(z.shape[0]):
        row, chances = z[i], odds[i]
        top = np.float64(largest(row))
        for k in range(count):
            exponents[k] = max(chances[k] * scale, LOWEST)
        mass[i] = exponentials(exponents, powers, count)
        below = 0.0
        for k in range(count):
            below += powers[k] * (top - np.float64(row[k]))
        gap[i] = below


# ------------------------------------------------------------------------------------- doors


@cache
def _odds(dtype: np.dtype[Any]) -> Any:
    signature = read_only(nb.from_dtype(dtype), 2), types.Array(types.float64, 2, "C")
    return jit(_log_odds, signature)


def log_odds(z: NDArray[Any]) -> NDArray[np.float64]:
    """Return log p/(1 - p) of the classes that are not predicted, p = softmax(z)."""
    z = as_contiguous(z)
    odds = np.empty(z.shape)
    _odds(z.dtype)(z, odds)
    return odds


@cache
def _sums(function: Any) -> Any:
    table = types.Array(types.float64, 2, "C")
    return jit(function, (read_only(types.float64, 2), types.float64, table))


def exponential_sums(odds: NDArray[np.float64], v: float) -> NDArray[np.float64]:
    """Return ``Σ_i (v o_ik)^r exp(v o_ik)`` for r = 0 … 3 (rows) and each class (columns)."""
    sums = np.zeros((4, odds.shape[1]))
    _sums(_exponential_sums)(np.ascontiguousarray(odds), v, sums)
    return sums


def squared_sums(odds: NDArray[np.float64], v: float, points: int) -> NDArray[np.float64]:
    """Return ``Σ_i exp(v o_ik)`` for v, 2 v, 4 v … (rows) and each class (columns)."""
    sums = np.zeros((points, odds.shape[1]))
    _sums(_squared_sums)(np.ascontiguousarray(odds), v, sums)
    return sums


@cache
def _mass(dtype: np.dtype[Any]) -> Any:
    z, odds = read_only(nb.from_dtype(dtype), 2), read_only(types.float64, 2)
    column = types.Array(types.float64, 1, "C")
    return jit(_odds_mass, (z, odds, types.float64, column, column))


def odds_mass(
    z: NDArray[Any], odds: NDArray[np.float64], v: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``Σ_k W_k`` and ``Σ_k W_k (max z - z_k)`` of each row, W = odds^v."""
    z = as_contiguous(z)
    mass, gap = np.empty((2, z.shape[0]))
    _mass(z.dtype)(z, np.ascontiguousarray(odds), v, mass, gap)
    return mass, gap
