# pyright: basic
"""The elastic transform, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types

from temperance._core.fused.traced import intrinsic
from temperance_lab.shifts.compiled.lines import compiled, inlined, larger, smaller
from temperance_lab.shifts.compiled.smoothing import smooth_plane, smoother, smoothing_room
from temperance_lab.shifts.geometry import affine_maps, smoothed_moves
from temperance_lab.shifts.planes import gaussian_kernel

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

ONE = 1 << 16  # a pixel, when places are whole numbers
BYTES, WORDS, LONGS = (ir.VectorType(ir.IntType(bits), 4) for bits in (8, 32, 64))


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
    room = smoothing_room(smoother)
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
    """Read pixels; of all but the last, a fourth byte is written, and by the next one again."""
    last = cell.size - 1
    for j in range(last):
        at = nb.uintp(3) * nb.uintp(cell[j])
        read_pixel(image, at, nb.uintp(stride), down[j], right[j], out, nb.uintp(3 * j))
    at, u, v = nb.uintp(3) * nb.uintp(cell[last]), np.int64(down[last]), np.int64(right[last])
    for c in range(3):
        out[3 * last + c] = _between(image, at + nb.uintp(c), stride, nb.uintp(3), u, v)


@intrinsic
def read_pixel(
    _: Any, image: Any, at: Any, stride: Any, down: Any, right: Any, out: Any, place: Any
) -> Any:
    """Read three bytes between four pixels as `_between` does, side by side."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, start, distance, u, v, _, target = args

        def word(k: int, index: Any) -> Any:
            data = context.make_array(signature.args[k])(context, builder, args[k]).data
            return builder.bitcast(builder.gep(data, [index]), BYTES.as_pointer())

        def pixel(index: Any, beyond: int, order: list[int]) -> Any:
            place = word(0, builder.add(index, ir.Constant(index.type, beyond)))
            value = builder.load(place, align=1)
            value = builder.shuffle_vector(value, value, ir.Constant(WORDS, order))
            return builder.zext(value, WORDS)

        under = builder.add(start, distance)
        a, b, c = (pixel(*pair, [0, 1, 2, 3]) for pair in ((start, 0), (start, 3), (under, 0)))
        d = pixel(under, 2, [1, 2, 3, 3])  # not beyond the end of the image
        u, v = _everywhere(builder, u), _everywhere(builder, v)
        above = builder.add(builder.shl(a, _all(WORDS, 16)), builder.mul(v, builder.sub(b, a)))
        below = builder.add(builder.shl(c, _all(WORDS, 16)), builder.mul(v, builder.sub(d, c)))
        above, more, u = (builder.sext(x, LONGS) for x in (above, builder.sub(below, above), u))
        total = builder.add(builder.shl(above, _all(LONGS, 16)), builder.mul(u, more))
        total = builder.add(total, _all(LONGS, ONE * ONE // 2))
        total = builder.trunc(builder.lshr(total, _all(LONGS, 32)), BYTES)
        builder.store(total, word(5, target), align=1)
        return context.get_dummy_value()

    return types.void(image, at, stride, down, right, out, place), generate


def _all(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _everywhere(builder: Any, value: Any) -> Any:
    empty = ir.Constant(WORDS, ir.Undefined)
    single = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, empty, _all(WORDS, 0))


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
