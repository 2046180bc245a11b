# pyright: basic
"""The noises, compiled: one look into a table for every value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance.shifts.compiled.lines import compiled, to_byte
from temperance.shifts.noise import COUNT_BITS, additive, gain, poisson_quantiles

if TYPE_CHECKING:
    from temperance.shifts.draws import Draws


def gaussian(x: Any, sigma: float, draws: Draws, out: Any) -> None:
    """Add noise."""
    _added(x.ravel(), draws.cells("noise", x.shape).ravel(), additive(sigma), out.ravel())


@compiled
def _added(x: Any, cells: Any, table: Any, out: Any) -> None:
    for j in range(x.size):
        value = nb.int32(x[j]) + nb.int32(table[cells[j]])
        out[j] = nb.uint8(min(max(value, nb.int32(0)), nb.int32(255)))


def speckle(x: Any, sigma: float, draws: Draws, out: Any) -> None:
    """Multiply by noise."""
    _multiplied(x.ravel(), draws.cells("noise", x.shape).ravel(), gain(sigma), out.ravel())


@compiled
def _multiplied(x: Any, cells: Any, table: Any, out: Any) -> None:
    for j in range(x.size):
        out[j] = to_byte(nb.float32(x[j]) * table[cells[j]])


def shot(x: Any, photons: float, draws: Draws, out: Any) -> None:
    """Count photons."""
    _counted(
        x.ravel(), draws.bits("noise", x.shape).ravel(), poisson_quantiles(photons), out.ravel()
    )


@compiled
def _counted(x: Any, bits: Any, table: Any, out: Any) -> None:
    for j in range(x.size):
        out[j] = table[(np.intp(x[j]) << COUNT_BITS) + (np.intp(bits[j]) >> (16 - COUNT_BITS))]
