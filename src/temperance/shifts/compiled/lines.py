# pyright: basic
"""Weighted sums of shifted lines: what blurs, streaks and slopes are made of.

A plane is copied once into a frame of pixels beyond its border. In the frame a filter is a list of
taps, each a distance in memory and a weight, and filtering many rows is one long sum of shifted
lines, which LLVM turns into vector instructions. Sums are float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from temperance._fused import elementary
from temperance.shifts.planes import fold

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
    channels: int

    @property
    def stride(self) -> int:
        """Numbers from a row to the next."""
        return len(self.columns) * self.channels


def frame(shape: tuple[int, ...], reach: tuple[int, int], border: str) -> Frame:
    """Frame around images (H, W, C) of a reach downwards and sideways."""
    rows, columns = (
        fold(np.arange(-more, side + more), side, border)
        for side, more in zip(shape, reach, strict=False)
    )
    return Frame(rows, columns, shape[2])


@compiled
def lay(image: Any, frame: Any, out: Any) -> None:
    """Copy an image (H, W·C) into its frame."""
    rows, columns, channels = frame
    left = (columns.size - image.shape[1] // channels) // 2
    for i in range(rows.size):
        line, framed = image[rows[i]], out[i]
        middle = framed[left * channels :]
        for j in range(line.size):
            middle[j] = line[j]
        for start in (0, columns.size - left):
            for k in range(start, start + left):
                for c in range(channels):
                    framed[k * channels + c] = line[columns[k] * channels + c]


def taps(offsets: Any, weights: Any) -> tuple[Any, Any]:
    """Distances in memory and weights, filled up by zeros to a multiple of four, for `weigh`."""
    fill = -len(offsets) % 4
    offsets = np.pad(np.asarray(offsets, np.int64), (0, fill), mode="edge")
    return offsets, np.pad(weights.astype(np.float32), (0, fill))


@compiled
def weigh(flat: Any, start: int, offsets: Any, weights: Any, out: Any) -> None:
    """Σ_k w_k flat[start + offset_k + j] for every j of ``out``, four or eight taps at a time."""
    n = out.size
    first = offsets.size % 8
    if first == 0:
        for j in range(n):
            out[j] = nb.float32(0)
    else:
        at, w = offsets[:4], weights[:4]
        a, b = flat[start + at[0] :], flat[start + at[1] :]
        c, d = flat[start + at[2] :], flat[start + at[3] :]
        p, q, r, s = w[0], w[1], w[2], w[3]
        for j in range(n):
            out[j] = (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
    for k in range(first, offsets.size, 8):
        at, w = offsets[k : k + 8], weights[k : k + 8]
        a, b, c = flat[start + at[0] :], flat[start + at[1] :], flat[start + at[2] :]
        d, e, f = flat[start + at[3] :], flat[start + at[4] :], flat[start + at[5] :]
        g, h = flat[start + at[6] :], flat[start + at[7] :]
        p, q, r, s, t, u, v, x = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
        for j in range(n):
            left = p * a[j] + q * b[j] + r * c[j] + s * d[j]
            right = t * e[j] + u * f[j] + v * g[j] + x * h[j]
            out[j] += left + right


@compiled
def framed(frame: Any) -> Any:
    """Return room for an image in its frame, and for what `weigh` reads beyond."""
    rows, columns, channels = frame
    return np.zeros((rows.size + 8, columns.size * channels), np.float32)
