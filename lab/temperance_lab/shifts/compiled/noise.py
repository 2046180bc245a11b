# pyright: basic
"""The noises, compiled: one look into a table for every value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance_lab.shifts.compiled.lines import compiled, inlined, to_byte
from temperance_lab.shifts.draws import NORMAL_BITS
from temperance_lab.shifts.noise import COUNT_BITS, additive, gain, poisson_quantiles

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

BLOCK = 1024  # numbers that are looked up before they are used


def gaussian(x: Any, sigma: float, draws: Draws, out: Any) -> None:
    """Add noise."""
    _added(x.ravel(), draws.bits("noise", x.shape).ravel(), additive(sigma), out.ravel())


@compiled
def _added(x: Any, bits: Any, table: Any, out: Any) -> None:
    found = np.empty(BLOCK, table.dtype)
    for start in range(0, x.size, BLOCK):
        begin, end = nb.uintp(start), nb.uintp(min(BLOCK, x.size - start))
        _look_up(bits, begin, end, table, found)
        for j in range(end):
            value = nb.int16(nb.int16(x[begin + j]) + found[j])
            out[begin + j] = nb.uint8(min(max(value, nb.int16(0)), nb.int16(255)))


@inlined
def _look_up(bits: Any, begin: int, end: int, table: Any, out: Any) -> None:
    """Find numbers one by one, so that what is done with them is done in vectors."""
    for j in range(end):
        out[j] = table[nb.uintp(bits[begin + j] >> nb.uint16(16 - NORMAL_BITS))]


def speckle(x: Any, sigma: float, draws: Draws, out: Any) -> None:
    """Multiply by noise."""
    _multiplied(x.ravel(), draws.bits("noise", x.shape).ravel(), gain(sigma), out.ravel())


@compiled
def _multiplied(x: Any, bits: Any, table: Any, out: Any) -> None:
    found = np.empty(BLOCK, table.dtype)
    for start in range(0, x.size, BLOCK):
        begin, end = nb.uintp(start), nb.uintp(min(BLOCK, x.size - start))
        _look_up(bits, begin, end, table, found)
        for j in range(end):
            out[begin + j] = to_byte(nb.float32(x[begin + j]) * found[j])


def shot(x: Any, photons: float, draws: Draws, out: Any) -> None:
    """Count photons."""
    _counted(
        x.ravel(), draws.bits("noise", x.shape).ravel(), poisson_quantiles(photons), out.ravel()
    )


@compiled
def _counted(x: Any, bits: Any, table: Any, out: Any) -> None:
    for j in range(x.size):
        out[j] = table[(np.intp(x[j]) << COUNT_BITS) + (np.intp(bits[j]) >> (16 - COUNT_BITS))]
