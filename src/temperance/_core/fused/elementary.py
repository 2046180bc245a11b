# pyright: basic
"""What every kernel is made with: how it is compiled and kept, exp and log, room to write on.

exp, log and artanh are polynomials, so that LLVM turns loops of them into vector instructions. They
need no library and are right to 8e-16, 3e-16 and 4e-16, against mpmath in the tests.
"""

from __future__ import annotations

import itertools
import math
import threading
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba import types

from temperance._core.fused.traced import STRICT, SUMS, formula, intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NARROW = 32  # classes up to which rows are laid side by side
LANES = 64  # of them
CHUNK = 512  # classes of a wide row whose exponentials are in the first-level cache together
VECTOR = 16  # of which whole multiples are summed
LINE = 64  # bytes that come together

LOWEST = -1021.0  # 2 to this is the smallest that needs no care, and nothing beside 1
LOG2_E, LN2 = 1.4426950408889634, 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first is exact times 2^10
SQRT2 = math.sqrt(2)
UNLIKELY = -1e30  # odds of what is not counted


def jit(function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    """Compile with the error model of NumPy, and keep the code where there is a place for it."""
    settings = {"nogil": True, "error_model": "numpy", "fastmath": SUMS} | options
    written = fingerprint(Path(function.__code__.co_filename).parent)
    function.__qualname__ = f"{function.__name__}_{written}"  # which the file of its code is called
    try:
        return nb.njit(*signature, cache=True, **settings)(function)
    except RuntimeError:  # neither this directory nor the user's cache can be written
        return nb.njit(*signature, **settings)(function)


@cache
def fingerprint(folder: Path) -> str:
    """Return some digits that stand for every line of code in a folder and in this one.

    Numba keeps machine code as long as the file of its function stays as it is. But what that calls
    is compiled into it, from other files, and an upgrade leaves old machine code where it was.
    """
    files = sorted({*folder.glob("*.py"), *Path(__file__).parent.glob("*.py")})
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


def inlined(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile into what calls it, without the wrappers by which others would."""
    settings: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return nb.njit(forceinline=True, error_model="numpy", **settings, **options)


# ------------------------------------------------------------------------------- elementary


@intrinsic
def larger(_: Any, x: Any, y: Any) -> Any:
    """Return the larger of two numbers that are not NaN, which lets LLVM compare eight at once."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        flags = ("nnan", "nsz")
        above = builder.fcmp_ordered(">", *args, flags=flags)
        return builder.select(above, *args, flags=flags)

    return x(x, y), generate


def horner(x: Any, *coefficients: float) -> Any:
    """Return a polynomial, its highest power first."""
    q: Any = coefficients[0]
    for c in coefficients[1:]:
        q = q * x + c
    return q


def power_of_two(x: Any, digits: int, *coefficients: float) -> Any:
    """Return 2^x for x ≤ 0: ``x = n + f`` with n whole, ``2^x = 2^n (1 + f q(f))``."""
    shift = 1.5 * 2.0**digits  # added to a float, leaves the nearest integer in its last bits
    shifted = x + shift
    f = x - (shifted - shift)
    return (horner(f, *coefficients, 1.0).bits() + (shifted.bits() << digits)).number()


def two_to(x: Any) -> Any:
    """Return 2^x for -1021 ≤ x ≤ 0."""
    return power_of_two(
        x,
        52,
        7.070978188179365e-09,
        1.0205905970852828e-07,
        1.3215451631814141e-06,
        1.5252672922413522e-05,
        0.00015403530424778412,
        0.0013333558200797856,
        0.009618129107618665,
        0.05550410866465166,
        0.24022650695910075,
        0.6931471805599462,
    )


def logarithm(s: Any) -> Any:
    """Return log s for 1 ≤ s < 2^1000: ``s = 2^n m``, ``log m = 2 artanh((m - 1) / (m + 1))``."""
    bits = s.bits()
    m = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).number()
    n = ((bits >> 52) | 0x4330000000000000).number() - (2.0**52 + 1023)
    n = m.above(SQRT2, n + 1, n)
    m = m.above(SQRT2, m * 0.5, m)
    f = (m - 1) / (m + 1)
    g = f * f
    q = horner(
        g,
        0.07308224842521703,
        0.07665860800278021,
        0.09091444562630861,
        0.1111110556739754,
        0.14285714312987743,
        0.19999999999949752,
        0.3333333333333335,
    )
    return n * LN2_HIGH + ((f + f * g * q) * 2 + n * LN2_LOW)


def doubled_artanh(f: Any) -> Any:
    """Return 2 artanh f, which is log (1 + f) / (1 - f), for 0 ≤ f ≤ 1/3."""
    g = f * f
    q = horner(
        g,
        0.08435350330548605,
        0.05161334635249541,
        0.0675117123587855,
        0.07686637438179002,
        0.09091130554209872,
        0.11111106278964857,
        0.14285714338330496,
        0.19999999999780063,
        0.33333333333333487,
    )
    return (f + f * g * q) * 2


exp2 = formula(two_to, flags=STRICT)
log = formula(logarithm, flags=STRICT)
twice_artanh = formula(doubled_artanh, flags=STRICT)
fetch = formula(lambda numbers, i: numbers.fetch(i), 0)


@inlined()
def largest(row: Any) -> Any:
    top = row[0]
    for k in range(row.shape[0]):
        top = larger(row[k], top)
    return top


# Unsigned: a place that may be negative would be counted from the end, and the test for that keeps
# LLVM from using vectors.
U = np.uint64


@inlined(fastmath=SUMS)
def exponentials(exponents: Any, powers: Any, count: Any) -> float:
    """Write ``2^u`` of the first exponents and return their sum.

    The sum is more than a service: for its sake LLVM works on several vectors at once.
    """
    total = 0.0
    for k in range(count):
        e = exp2(exponents[k])
        total += e
        powers[k] = e
    return total


# -------------------------------------------------------------------------------- signatures


def read_only(dtype: Any, ndim: int) -> Any:
    """Type of an array that is not written to, which those that could be are taken for too."""
    return types.Array(dtype, ndim, "C", readonly=True)


def as_contiguous(z: NDArray[Any]) -> NDArray[Any]:
    """Return logits as the kernels read them: float32 or float64, row after row."""
    return np.ascontiguousarray(z.astype(np.float32) if z.dtype.itemsize < 4 else z)


class _Desk(threading.local):
    """What a thread writes on, again and again: it stays in the cache."""

    def __init__(self) -> None:
        self.room = np.empty(0)
        self.parts: dict[tuple[int, ...], list[NDArray[np.float64]]] = {}


_DESK = _Desk()


def desk(*sizes: int) -> list[NDArray[np.float64]]:
    """Return work arrays of one call, each a multiple of a line long, with what the last left."""
    if sizes not in _DESK.parts:
        _DESK.parts[sizes] = _laid_out(sizes)
    return _DESK.parts[sizes]


def _laid_out(sizes: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """Divide the desk, or a larger one."""
    total, spare = sum(sizes), LINE // 8
    if _DESK.room.size < total:  # it begins with a line of the cache: no vector then lies on two
        room = np.zeros(total + spare)
        start = -room.ctypes.data % LINE // 8
        _DESK.room = room[start : start + total]
        _DESK.parts.clear()
    ends = itertools.accumulate(sizes)
    return [_DESK.room[end - size : end] for size, end in zip(sizes, ends, strict=True)]
