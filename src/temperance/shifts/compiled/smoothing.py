# pyright: basic
"""Filters that separate, compiled: down the columns, the plane turned, and down again.

Rows are summed in vectors whatever the reach of the filter; sums across would start everywhere in
a vector. A row beyond the border is told by the one it repeats, and nothing is framed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from temperance.shifts.compiled.lines import compiled, to_byte
from temperance.shifts.compiled.tiles import ROWS, SIDE, sum_around, turn
from temperance.shifts.planes import fold


class Smoother(NamedTuple):
    """Where rows begin, and pixels when turned; the weights from the centre on; and channels."""

    down: Any
    across: Any
    weights: Any
    channels: int


def smoother(shape: tuple[int, ...], kernel: Any, border: str) -> Smoother:
    """Filter images (H, W, C) by an odd, symmetric kernel in both directions."""
    height, width, channels = shape
    reach = len(kernel) // 2
    weights = kernel[reach:].astype(np.float32)

    def begins(side: int, stride: int) -> Any:
        return stride * fold(np.arange(-len(weights), _up(side) + len(weights)), side, border)

    down, across = begins(height, _up(width * channels)), begins(width, channels * _up(height))
    return Smoother(down, across, weights, channels)


@compiled
def _up(number: int) -> int:
    """Round up to a multiple of the side of a tile."""
    return -(-number // SIDE) * SIDE


@compiled
def smoothing_room(height: int, length: int, channels: int) -> Any:
    """Return room for planes (H, W·C): for one, for it turned, and for eight rows or pixels."""
    tall, wide = _up(height), _up(length)
    eight = SIDE * max(wide, channels * tall)
    plane, turned = np.zeros((height, wide), np.float32), np.zeros((wide, tall), np.float32)
    return plane, turned, np.empty(eight, np.float32), np.empty(eight, np.uint8)


@compiled
def smooth_plane(plane: Any, smoother: Any, room: Any, out: Any) -> None:
    """Filter a plane (H, W·C)."""
    channels, eight = smoother[3], room[2]
    for y in range(plane.shape[0]):
        line, copy = plane[y], room[0][y]
        for j in range(line.size):
            copy[j] = line[j]
    _smooth_columns(smoother, room)
    for pixel in range(0, out.shape[1] // channels, SIDE):
        _smooth_pixels(pixel, smoother, room)
        _lay_pixels(eight, pixel * channels, channels, out)


@compiled
def smooth_to_bytes(smoother: Any, room: Any, out: Any) -> None:
    """Filter what lies in the first room, and round."""
    channels, eight, rounded = smoother[3], room[2], room[3]
    _smooth_columns(smoother, room)
    for pixel in range(0, out.shape[1] // channels, SIDE):
        _smooth_pixels(pixel, smoother, room)
        for j in range(SIDE * channels * _up(out.shape[0])):
            rounded[j] = to_byte(eight[j])
        _lay_pixels(rounded, pixel * channels, channels, out)


@compiled
def _smooth_columns(smoother: Any, room: Any) -> None:
    """Filter down the columns, into columns."""
    down, _, weights, _ = smoother
    plane, turned, eight, _ = room
    (height, wide), tall = plane.shape, turned.shape[1]
    for y in range(0, height, SIDE):
        for part in range(0, SIDE, ROWS):
            sum_around(plane, down, y + part, weights, eight, part * wide, wide)
        for j in range(0, wide, SIDE):
            turn(eight, j, wide, turned, j * tall + y, tall)


@compiled
def _smooth_pixels(pixel: int, smoother: Any, room: Any) -> None:
    """Filter across, for eight pixels of all rows."""
    _, across, weights, channels = smoother
    stride = channels * room[1].shape[1]
    for part in range(0, SIDE, ROWS):
        sum_around(room[1], across, pixel + part, weights, room[2], part * stride, stride)


@compiled
def _lay_pixels(eight: Any, column: int, channels: int, out: Any) -> None:
    """Turn eight pixels of all rows back into their place."""
    height, length = out.shape
    tall, flat = _up(height), out.ravel()
    rows, columns = height // SIDE * SIDE, (length - column) // SIDE * SIDE
    columns = min(columns, SIDE * channels)
    for j in range(0, columns, SIDE):
        for y in range(0, rows, SIDE):
            turn(eight, j * tall + y, tall, flat, y * length + column + j, length)
    for j in range(min(length - column, SIDE * channels)):
        for y in range(0 if j >= columns else rows, height):
            out[y, column + j] = eight[nb.uintp(j * tall + y)]
