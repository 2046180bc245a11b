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
    as_contiguous,
    exp2,
    jit,
    largest,
    log,
    read_only,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _log_odds(z: Any, odds: Any) -> None:
    u = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        row, e = z[i], odds[i]
        top = largest(row)
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
        top = np.float64(largest(row))
        weight = gap = 0.0
        for k in range(row.shape[0]):
            w = exp2(max(chances[k] * scale, LOWEST))
            weight += w
            gap += w * (top - np.float64(row[k]))
        mass[i] = 1 + share * weight
        total += share * gap
    return total


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
def _sums() -> Any:
    return jit(_exponential_sums, (read_only(types.float64, 2), types.float64))


def exponential_sums(odds: NDArray[np.float64], v: float) -> NDArray[np.float64]:
    """Return ``Σ_i (v o_ik)^r exp(v o_ik)`` for r = 0 … 3 (rows) and each class (columns)."""
    return _sums()(np.ascontiguousarray(odds), v)


@cache
def _mass(dtype: np.dtype[Any]) -> Any:
    z, odds = read_only(nb.from_dtype(dtype), 2), read_only(types.float64, 2)
    mass = types.Array(types.float64, 1, "C")
    return jit(_odds_mass, (z, odds, types.float64, types.float64, mass))


def odds_mass(
    z: NDArray[Any], odds: NDArray[np.float64], v: float, share: float
) -> tuple[NDArray[np.float64], float]:
    """Return ``A = 1 + c Σ_k W_k`` of each row and ``c Σ W (max z - z)``, W = odds^v."""
    z = as_contiguous(z)
    mass = np.empty(z.shape[0])
    return mass, _mass(z.dtype)(z, np.ascontiguousarray(odds), v, share, mass)
