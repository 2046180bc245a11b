# pyright: basic
"""JPEG without the coding, compiled.

The cosine transform down the columns is the same sums of rows for all blocks that lie side by side;
then the blocks are turned, and it is done again. Coefficients stay turned until they are back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance_lab.shifts.compiled.lines import compiled, inlined, larger, smaller, to_byte
from temperance_lab.shifts.compiled.tiles import copy, turn
from temperance_lab.shifts.jpeg import HALVES, quantiser
from temperance_lab.shifts.jpeg import TO_LUMA_CHROMA as M

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

LANES = 16  # columns of two blocks
C1, C2, C3, C5, C6, C7 = (
    nb.float32(np.sqrt(2) * np.cos(k * np.pi / 16)) for k in (1, 2, 3, 5, 6, 7)
)


def jpeg(x: Any, quality: int, _draws: Draws, out: Any) -> None:
    """Pass images through JPEG."""
    luma, chroma = _units(quality)
    if x.shape[3] == 1:
        _grey(x[..., 0], luma, out[..., 0])
    else:
        _coloured(x, luma, chroma, out)


@lru_cache
def _units(quality: int) -> tuple[Any, Any]:
    """Units of the coefficients of luma and chroma, times 8, and one over them; turned."""
    luma, chroma = (_turned(8.0 * quantiser(quality, kind)) for kind in ("luma", "chroma"))
    return luma, chroma


def _turned(units: Any) -> Any:
    units = np.tile(units.reshape(8, 8).T, LANES // 8).ravel()
    return np.stack([units, 1 / units]).astype(np.float32)


@inlined
def _up(number: int) -> int:
    return -(-number // LANES) * LANES


@compiled
def _grey(x: Any, units: Any, out: Any) -> None:
    n, height, width = x.shape
    plane = np.empty((-(-height // 8) * 8, _up(width)), np.float32)
    for i in range(n):
        for y in range(plane.shape[0]):
            line, filled = x[i, min(y, height - 1)], plane[y]
            for j in range(width):
                filled[j] = nb.float32(line[j]) - nb.float32(128)
            filled[width:] = filled[width - 1]
        _quantise(plane, units)
        for y in range(height):
            line, done = plane[y], out[i, y]
            for j in range(width):
                done[j] = to_byte(line[j] + nb.float32(128))


@compiled
def _coloured(x: Any, luma_units: Any, chroma_units: Any, out: Any) -> None:
    n, height, width, _ = x.shape
    tall, wide = -(-height // 16) * 8, -(-width // 16) * 8
    luma = np.empty((2 * tall, 2 * wide), np.float32)
    blue, red = np.zeros((tall, _up(wide)), np.float32), np.zeros((tall, _up(wide)), np.float32)
    for i in range(n):
        split(x[i].reshape(height, width * 3), luma, blue, red)
        _quantise(luma, luma_units)
        _quantise(blue, chroma_units)
        _quantise(red, chroma_units)
        join(luma, blue, red, out[i].reshape(height, width * 3))


@compiled
def split(image: Any, luma: Any, blue: Any, red: Any) -> None:
    """Luma less 128, and chroma halved; the last rows and columns are repeated."""
    height, width = image.shape[0], image.shape[1] // 3
    wide = luma.shape[1]
    b, r = np.empty((2, wide), np.float32), np.empty((2, wide), np.float32)
    colours = np.empty((3, width), np.uint8)
    for y in range(0, luma.shape[0], 2):
        for k in range(2):
            line = image[min(y + k, height - 1)]
            _convert(line, colours, luma[y + k], b[k], r[k])
            for j in range(width, wide):
                luma[y + k, j], b[k, j], r[k, j] = (
                    luma[y + k, width - 1],
                    b[k, width - 1],
                    r[k, width - 1],
                )
        if y < height:
            _halve(b, blue[y // 2, : wide // 2])
            _halve(r, red[y // 2, : wide // 2])
        else:
            blue[y // 2], red[y // 2] = blue[y // 2 - 1], red[y // 2 - 1]


@compiled
def _convert(line: Any, colours: Any, luma: Any, blue: Any, red: Any) -> None:
    """Colours are taken apart first: in one loop they would be in short vectors."""
    reds, greens, blues = colours[0], colours[1], colours[2]
    for j in range(nb.uintp(reds.size)):
        at = nb.uintp(3) * j
        reds[j], greens[j], blues[j] = line[at], line[at + nb.uintp(1)], line[at + nb.uintp(2)]
    half, less = HALVES[0, 0], HALVES[1, 0]
    for j in range(reds.size):
        r, g, b = nb.float32(reds[j]), nb.float32(greens[j]), nb.float32(blues[j])
        luma[j] = np.floor(M[0, 0] * r + M[0, 1] * g + M[0, 2] * b + half) - nb.float32(128)
        blue[j] = np.floor(M[1, 0] * r + M[1, 1] * g + M[1, 2] * b + less)
        red[j] = np.floor(M[2, 0] * r + M[2, 1] * g + M[2, 2] * b + less)


@compiled
def _halve(pair: Any, out: Any) -> None:
    """Means of 2 × 2, rounded up and down in turn."""
    a, b = pair[0], pair[1]
    for j in range(out.size):
        total = (a[2 * j] + b[2 * j]) + (a[2 * j + 1] + b[2 * j + 1])
        out[j] = np.floor((total + nb.float32(1 + (j & 1))) * nb.float32(0.25))


@compiled
def _quantise(plane: Any, units: Any) -> None:
    """Transform, round and transform back all blocks, in place."""
    height, width = plane.shape
    flat = plane.ravel()
    lines, turned = np.empty(8 * LANES, np.float32), np.empty(8 * LANES, np.float32)
    for corner in range(0, height * width, 8 * width):
        for at in range(corner, corner + width, LANES):
            for c in range(0, LANES, 8):
                copy(flat, at + c, width, lines, c, LANES)
            _transform(lines)
            _turn(lines, turned)
            _transform(turned)
            _round(turned, units)
            _restore(turned)
            _turn(turned, lines)
            _restore(lines)
            for k in range(8 * LANES):
                value = np.rint(lines[k] * nb.float32(1 / 64))
                lines[k] = smaller(larger(value, nb.float32(-128)), nb.float32(127))
            for c in range(0, LANES, 8):
                copy(lines, c, LANES, flat, at + c, width)


@inlined
def _turn(source: Any, target: Any) -> None:
    for c in range(0, LANES, 8):
        turn(source, c, LANES, target, c, LANES)


@inlined
def _round(lines: Any, units: Any) -> None:
    """Round coefficients to multiples of their units; a product, set right, is a quotient."""
    for k in range(8 * LANES):
        unit, share, value = units[0, k], units[1, k], lines[k]
        near = value * share
        lines[k] = np.rint(near + (value - near * unit) * share) * unit


@inlined
def _transform(x: Any) -> None:
    """Cosine transform of all columns of eight, times √8: the first row is their sum."""
    s = LANES
    for b in range(LANES):
        a0, a7 = x[b] + x[b + 7 * s], x[b] - x[b + 7 * s]
        a1, a6 = x[b + s] + x[b + 6 * s], x[b + s] - x[b + 6 * s]
        a2, a5 = x[b + 2 * s] + x[b + 5 * s], x[b + 2 * s] - x[b + 5 * s]
        a3, a4 = x[b + 3 * s] + x[b + 4 * s], x[b + 3 * s] - x[b + 4 * s]
        e0, e3, e1, e2 = a0 + a3, a0 - a3, a1 + a2, a1 - a2
        x[b] = e0 + e1
        x[b + 4 * s] = e0 - e1
        x[b + 2 * s] = C2 * e3 + C6 * e2
        x[b + 6 * s] = C6 * e3 - C2 * e2
        x[b + s] = C1 * a7 + C3 * a6 + C5 * a5 + C7 * a4
        x[b + 3 * s] = C3 * a7 - C7 * a6 - C1 * a5 - C5 * a4
        x[b + 5 * s] = C5 * a7 - C1 * a6 + C7 * a5 + C3 * a4
        x[b + 7 * s] = C7 * a7 - C5 * a6 + C3 * a5 - C1 * a4


@inlined
def _restore(x: Any) -> None:
    """Inverse of the cosine transform, times √8."""
    s = LANES
    for b in range(LANES):
        c1, c3, c5, c7 = x[b + s], x[b + 3 * s], x[b + 5 * s], x[b + 7 * s]
        o0 = C1 * c1 + C3 * c3 + C5 * c5 + C7 * c7
        o1 = C3 * c1 - C7 * c3 - C1 * c5 - C5 * c7
        o2 = C5 * c1 - C1 * c3 + C7 * c5 + C3 * c7
        o3 = C7 * c1 - C5 * c3 + C3 * c5 - C1 * c7
        p, q = x[b] + x[b + 4 * s], x[b] - x[b + 4 * s]
        c2, c6 = x[b + 2 * s], x[b + 6 * s]
        t, u = C2 * c2 + C6 * c6, C6 * c2 - C2 * c6
        e0, e3, e1, e2 = p + t, p - t, q + u, q - u
        x[b], x[b + 7 * s] = e0 + o0, e0 - o0
        x[b + s], x[b + 6 * s] = e1 + o1, e1 - o1
        x[b + 2 * s], x[b + 5 * s] = e2 + o2, e2 - o2
        x[b + 3 * s], x[b + 4 * s] = e3 + o3, e3 - o3


@compiled
def join(luma: Any, blue: Any, red: Any, out: Any) -> None:
    """Interpolate chroma, from the centres of 2 × 2 pixels, and return to red, green, blue."""
    height, width = out.shape[0], out.shape[1] // 3
    tall, wide = (height + 1) // 2, (width + 1) // 2
    near, far = np.empty(wide, np.float32), np.empty(wide, np.float32)
    b, r = np.empty(2 * wide, np.float32), np.empty(2 * wide, np.float32)
    for y in range(height):
        here = y // 2
        beside = min(max(here + 2 * (y % 2) - 1, 0), tall - 1)
        _double(blue[here], blue[beside], near, b)
        _double(red[here], red[beside], far, r)
        _colour(luma[y], b, r, out[y])


@compiled
def _double(here: Any, beside: Any, line: Any, out: Any) -> None:
    n = line.size
    for j in range(n):
        line[j] = nb.float32(0.75) * here[j] + nb.float32(0.25) * beside[j]
    out[0], out[2 * n - 1] = np.rint(line[0]), np.rint(line[n - 1])
    for j in range(n - 1):
        out[2 * j + 1] = np.rint(nb.float32(0.75) * line[j] + nb.float32(0.25) * line[j + 1])
        out[2 * j + 2] = np.rint(nb.float32(0.25) * line[j] + nb.float32(0.75) * line[j + 1])


@compiled
def _colour(luma: Any, blue: Any, red: Any, out: Any) -> None:
    for j in range(out.size // 3):
        y, b, r = luma[j] + nb.float32(128), blue[j], red[j]
        out[3 * j] = to_byte(y + nb.float32(1.402) * r)
        out[3 * j + 1] = to_byte(y - nb.float32(0.344136) * b - nb.float32(0.714136) * r)
        out[3 * j + 2] = to_byte(y + nb.float32(1.772) * b)
