# pyright: basic
"""Weighted sums of shifted lines: what blurs, streaks and slopes are made of.

A plane is copied once into a frame of pixels beyond its border. In the frame a filter is a list of
taps, each a distance in memory and a weight, and filtering many rows is one long sum of shifted
lines, which LLVM turns into vector instructions. Sums are float32.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from temperance._core.fused import elementary
from temperance_lab.shifts.planes import fold

FLAGS = {"contract", "nsz", "nnan"}


def compiled(function: Any) -> Any:
    """Compile, assuming no NaNs."""
    return elementary.jit(function, fastmath=FLAGS)


def inlined(function: Any) -> Any:
    """Compile into every caller."""
    return elementary.inlined(fastmath=FLAGS)(function)


def lines(x: Any) -> Any:
    """Images (n, H, W·C)."""
    return x.reshape(*x.shape[:2], -1)


@inlined
def to_byte(value: float) -> Any:
    """Round to the nearest of 0…255, to the even one between two, as NumPy does."""
    whole = nb.int32(np.rint(value))
    return nb.uint8(min(max(whole, nb.int32(0)), nb.int32(255)))


@inlined
def larger(a: float, b: float) -> float:
    """Return the larger of two numbers; ``max`` asks for NaNs first, one by one."""
    return a if a > b else b  # noqa: FURB136


@inlined
def smaller(a: float, b: float) -> float:
    """Return the smaller of two numbers."""
    return a if a < b else b  # noqa: FURB136


class Frame(NamedTuple):
    """For every row and pixel of a plane and of its frame, those that they repeat."""

    rows: Any
    columns: Any
    left: int  # pixels before those of the plane
    channels: int


Sides = tuple[int, int]


@lru_cache
def frame(shape: tuple[int, ...], reach: tuple[Sides, Sides], border: str) -> Frame:
    """Frame around images (H, W, C) that reaches above and below, to the left and to the right."""
    rows, columns = (
        fold(np.arange(-before, side + after), side, border)
        for side, (before, after) in zip(shape, reach, strict=False)
    )
    return Frame(rows, columns, reach[1][0], shape[2])


@compiled
def lay(image: Any, frame: Any, out: Any) -> None:
    """Copy an image (H, W·C) into its frame."""
    rows, columns, left, channels = frame
    right = left + image.shape[1] // channels
    for i in range(rows.size):
        line, framed = image[rows[i]], out[i]
        middle = framed[left * channels :]
        for j in range(line.size):
            middle[j] = line[j]
        for start, stop in ((0, left), (right, columns.size)):
            for k in range(start, stop):
                place, repeated = nb.uintp(k * channels), nb.uintp(columns[k] * channels)
                for c in range(nb.uintp(channels)):
                    framed[place + c] = line[repeated + c]


@compiled
def framed(frame: Any) -> Any:
    """Return room for an image in its frame."""
    rows, columns, _, channels = frame
    return np.empty((rows.size, columns.size * channels), np.float32)
