# pyright: basic
"""The elastic transform, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance.shifts.compiled.lines import compiled, inlined, larger, smaller
from temperance.shifts.compiled.smoothing import smooth_plane, smoother, smoothing_room
from temperance.shifts.geometry import affine_maps, smoothed_moves
from temperance.shifts.planes import gaussian_kernel

if TYPE_CHECKING:
    from temperance.shifts.draws import Draws

ONE = 1 << 16  # a pixel, when places are whole numbers


def elastic(x: Any, constants: tuple[float, float, float], draws: Draws, out: Any) -> None:
    """Move three points at random and the image with them, then every pixel a little, smoothly."""
    n, height, width, _ = x.shape
    side = min(height, width)
    size, smoothness, affine = (share * side for share in constants)
    maps = affine_maps(n, (height, width), affine, draws)
    if not size:
        moves = np.zeros((n, 2, height, width), np.float32)
    elif 3 * smoothness < side:
        moves = np.empty((n, 2, height, width), np.float32)
        smoothing = _smoother(height, width, smoothness)
        _smooth(draws.bits("move", moves.shape), smoothing, np.float32(size), moves)
    else:  # few numbers say it all, and matrix products are faster
        moves = smoothed_moves(draws.spread("move", (n, 2, height, width)), smoothness)
        moves *= np.float32(size)
    _moved(x, moves, maps, out)


@lru_cache
def _smoother(height: int, width: int, sigma: float) -> Any:
    kernel = gaussian_kernel(sigma, int(3 * sigma + 0.5))
    return smoother((height, width, 1), kernel, "reflect")


@compiled
def _smooth(bits: Any, smoother: Any, size: float, moves: Any) -> None:
    """Smooth random bits, and only then make them uniform on ±size."""
    room = smoothing_room(moves.shape[2], moves.shape[3], 1)
    for i in range(moves.shape[0]):
        for axis in range(2):
            plane = moves[i, axis]
            smooth_plane(bits[i, axis], smoother, room, plane)
            for y in range(plane.shape[0]):
                line = plane[y]
                for j in range(line.size):
                    line[j] = (line[j] - nb.float32(32767.5)) * (size * nb.float32(2 / 65536))


@compiled
def _moved(x: Any, moves: Any, maps: Any, out: Any) -> None:
    n, height, width, channels = x.shape
    cell = np.empty(width, np.int32)
    down, right = np.empty(width, np.int32), np.empty(width, np.int32)
    for i in range(n):
        image = x[i].reshape(height * width * channels)
        for y in range(height):
            _origins(y, moves[i, 0, y], moves[i, 1, y], maps[i], height, cell, down, right)
            if channels == 3:
                _read_colours(image, 3 * width, cell, down, right, out[i, y].reshape(3 * width))
            else:
                _read_greys(image, width, cell, down, right, out[i, y].reshape(width))


@compiled
def _origins(
    y: int, rows: Any, columns: Any, a: Any, height: int, cell: Any, down: Any, right: Any
) -> None:
    """Pixel above and left of where each pixel of a row comes from; how far beyond it, in 2^-16."""
    width, one = cell.size, nb.int32(ONE)
    low, far = nb.int32(height - 2), nb.int32(width - 2)
    p, q, r, s, t, u = a[0, 0], a[1, 0], a[2, 0], a[0, 1], a[1, 1], a[2, 1]
    for j in range(width):
        row, column = nb.float32(y) + rows[j], nb.float32(nb.int32(j)) + columns[j]
        at_row = _mirrored(p * row + q * column + r, height - 1)
        at_column = _mirrored(s * row + t * column + u, width - 1)
        top, left = min(at_row // one, low), min(at_column // one, far)
        cell[j] = top * nb.int32(width) + left
        down[j], right[j] = at_row - top * one, at_column - left * one


@inlined
def _mirrored(place: float, last: int) -> int:
    """Mirror places at the first and the last pixel; in units of 2^-16 pixels."""
    end = nb.float32(last)
    inside = smaller(larger(end - abs(end - abs(place)), nb.float32(0)), end)
    return nb.int32(inside * nb.float32(ONE))


@compiled
def _read_colours(image: Any, stride: int, cell: Any, down: Any, right: Any, out: Any) -> None:
    for j in range(cell.size):
        at, u, v = nb.uintp(3) * nb.uintp(cell[j]), np.int64(down[j]), np.int64(right[j])
        for c in range(3):
            out[3 * j + c] = _between(image, at + nb.uintp(c), stride, nb.uintp(3), u, v)


@compiled
def _read_greys(image: Any, stride: int, cell: Any, down: Any, right: Any, out: Any) -> None:
    for j in range(cell.size):
        at, u, v = nb.uintp(cell[j]), np.int64(down[j]), np.int64(right[j])
        out[j] = _between(image, at, stride, nb.uintp(1), u, v)


@inlined
def _between(image: Any, at: int, stride: int, step: int, down: int, right: int) -> Any:
    """Read between four bytes, in whole numbers: a third faster than in floats."""
    under = at + nb.uintp(stride)
    a, b = np.int64(image[at]), np.int64(image[at + step])
    c, d = np.int64(image[under]), np.int64(image[under + step])
    above = a * ONE + right * (b - a)
    below = c * ONE + right * (d - c)
    return nb.uint8((above * ONE + down * (below - above) + ONE * ONE // 2) // (ONE * ONE))
