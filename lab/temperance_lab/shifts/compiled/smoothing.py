# pyright: basic
"""Filters that separate, compiled: down the columns, and then across.

Eight columns at a time are laid into a narrow strip with a frame above and below, which stays in
the first-level cache; its rows are vectors. The sums are turned into strips of eight rows, and the
same is done along those. Sums are float32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from temperance_lab.shifts.compiled.lines import compiled, inlined, to_byte
from temperance_lab.shifts.compiled.stripes import call_to_write
from temperance_lab.shifts.compiled.tiles import ROWS, SIDE, lay_eight, sum_colours, sum_greys, turn
from temperance_lab.shifts.planes import fold

GROUP = math.lcm(SIDE, ROWS)


class Smoother(NamedTuple):
    """Rows and pixels that those in a frame repeat; the weights from the centre on; channels."""

    down: Any
    across: Any
    weights: Any
    channels: int


def smoother(shape: tuple[int, ...], kernel: Any, border: str) -> Smoother:
    """Filter images (H, W, C) by an odd, symmetric kernel in both directions."""
    reach = len(kernel) // 2
    down, across = (
        fold(np.arange(-reach, -(-side // GROUP) * GROUP + reach), side, border)
        for side in shape[:2]
    )
    return Smoother(down, across, kernel[reach:].astype(np.float32), shape[2])


@compiled
def smoothing_room(smoother: Any) -> Any:
    """Return room for a strip of columns, for all strips of rows, and for the sums of one."""
    down, across, weights, channels = smoother
    strips = (down.size - 2 * (weights.size - 1)) // SIDE
    sums = SIDE * max(down.size, across.size * channels)
    return (
        np.zeros(down.size * SIDE, np.float32),
        np.empty(strips * across.size * channels * SIDE, np.float32),
        np.empty(sums, np.float32),
        np.empty(sums, np.uint8),
    )


@compiled
def smooth_plane(plane: Any, smoother: Any, room: Any, out: Any) -> None:
    """Filter a plane (H, W·C)."""
    smooth_columns(plane, smoother, room)
    for y in range(0, out.shape[0], SIDE):
        _smooth_strip(y, out.shape[1], smoother, room)
        _lay_strip(room[2], y, out)


@compiled
def smooth_rows_to_bytes(y: int, smoother: Any, room: Any, out: Any) -> None:
    """Filter rows y to y + 7 across, after all columns, and round."""
    sums, rounded = room[2], room[3]
    call_to_write(out, y * out.shape[1], SIDE * out.shape[1])
    _smooth_strip(y, out.shape[1], smoother, room)
    for j in range(out.shape[1] * SIDE):
        rounded[j] = to_byte(sums[j])
    _lay_strip(rounded, y, out)


@compiled
def smooth_columns(plane: Any, smoother: Any, room: Any) -> None:
    """Filter down the columns, into strips of rows."""
    down, across, weights, channels = smoother
    strip, strips, sums, _ = room
    reach, length = weights.size - 1, across.size * channels * SIDE
    for column in range(0, plane.shape[1], SIDE):
        _cut(plane, column, down, strip)
        for y in range(0, plane.shape[0], ROWS):
            sum_greys(strip, (reach + y) * SIDE, weights, sums, y * SIDE)
        place = (reach * channels + column) * SIDE
        for y in range(0, plane.shape[0], SIDE):
            turn(sums, y * SIDE, SIDE, strips, place, SIDE)
            place += length


@inlined
def _cut(plane: Any, column: int, down: Any, strip: Any) -> None:
    """Lay eight columns into a strip, or what there is of them."""
    length = plane.shape[1]
    if column + SIDE <= length:
        for i in range(down.size):
            lay_eight(plane, down[i] * length + column, strip, i * SIDE)
    else:
        for i in range(down.size):
            for j in range(length - column):
                strip[i * SIDE + j] = plane[down[i], column + j]


@compiled
def _smooth_strip(y: int, length: int, smoother: Any, room: Any) -> None:
    """Fill the frame of the strip of rows y to y + 7, and filter along it."""
    _, across, weights, channels = smoother
    strips, reach, step = room[1], weights.size - 1, channels * SIDE
    begin, width = y // SIDE * across.size * step, length // channels
    inside = begin + reach * step
    for first, last in ((0, reach), (reach + width, across.size)):
        for k in range(first, last):
            for c in range(0, step, SIDE):
                lay_eight(strips, inside + across[k] * step + c, strips, begin + k * step + c)
    for pixel in range(0, width, ROWS):
        if channels == 1:
            sum_greys(strips, inside + pixel * SIDE, weights, room[2], pixel * SIDE)
        else:
            for place in range(pixel * step, (pixel + 1) * step, SIDE):
                sum_colours(strips, inside + place, weights, room[2], place)


@inlined
def _lay_strip(sums: Any, y: int, out: Any) -> None:
    """Turn a strip of rows back into its place."""
    height, length = out.shape
    columns = length // SIDE * SIDE if y + SIDE <= height else 0
    for j in range(0, columns, SIDE):
        turn(sums, j * SIDE, SIDE, out, y * length + j, length)
    for j in range(columns, length):
        for k in range(min(SIDE, height - y)):
            out[y + k, j] = sums[j * SIDE + k]
