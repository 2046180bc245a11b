# pyright: basic
"""Contrast and pixelation, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import extending, types

from temperance.shifts.compiled.lines import compiled, lines, to_byte
from temperance.shifts.digital import cells

if TYPE_CHECKING:
    from temperance.shifts.draws import Draws

intrinsic: Any = extending.intrinsic


def contrast(x: Any, factor: float, _draws: Draws, out: Any) -> None:
    """Shrink towards the mean colour."""
    _contrasted(lines(x), x.shape[3], np.float32(factor), lines(out))


@compiled
def _contrasted(x: Any, channels: int, factor: float, out: Any) -> None:
    n, height, length = x.shape
    sums = np.empty(length, np.int32)
    grey = np.empty(length, np.float32)
    for i in range(n):
        sums[:] = 0
        for y in range(height):
            line = x[i, y]
            for j in range(length):
                sums[j] += nb.int32(line[j])
        for c in range(channels):
            mean = sums[c::channels].sum() * channels / (height * length)
            grey[c::channels] = (1 - factor) * mean
        for y in range(height):
            line, done = x[i, y], out[i, y]
            for j in range(length):
                done[j] = to_byte(nb.float32(line[j]) * factor + grey[j])


def pixelate(x: Any, factor: float, _draws: Draws, out: Any) -> None:
    """Show means over cells."""
    height, width, channels = x.shape[1:]
    _, groups = cells(width, factor)
    sizes = np.array([size for size, _, _ in groups])
    _pixelated(
        lines(x),
        *_rows(height, factor),
        sizes,
        channels,
        _places(width, factor, channels),
        lines(out),
    )


@lru_cache
def _rows(length: int, factor: float) -> tuple[Any, Any]:
    """First pixel of each cell to average, and to show; and the end of the last."""
    shown, groups = cells(length, factor)
    averaged = np.sort(np.concatenate([first for _, _, first in groups]))
    seen = np.searchsorted(shown, np.arange(len(averaged)))
    return np.append(averaged, length), np.append(seen, length)


@lru_cache
def _places(width: int, factor: float, channels: int) -> Any:
    """Where a pixel finds its mean, those of neighbours by twos, threes, … lying side by side."""
    shown, groups = cells(width, factor)
    place = np.empty(int(shown[-1]) + 1, np.uint32)
    for row, (_, which, first) in enumerate(groups):
        place[which] = row * width + first
    return place[shown] * np.uint32(channels)


@compiled
def _pixelated(
    x: Any, tops: Any, shown: Any, sizes: Any, channels: int, places: Any, out: Any
) -> None:
    n, _, length = x.shape
    means = np.empty((sizes.size + 1, length), np.uint8)
    flat, single = means.ravel(), sizes[0] == 1
    line = means[0 if single else sizes.size]  # a mean of one pixel is the pixel
    for i in range(n):
        rows = x[i].ravel()
        for cell in range(tops.size - 1):
            _mean(rows[tops[cell] * length :], length, tops[cell + 1] - tops[cell], line)
            for k in range(int(single), sizes.size):
                _mean(line, channels, sizes[k], means[k, : length - (sizes[k] - 1) * channels])
            first = out[i, shown[cell]]
            _pick(flat, places, channels, first)
            for y in range(shown[cell] + 1, shown[cell + 1]):
                again = out[i, y]
                for j in range(length):
                    again[j] = first[j]


@compiled
def _mean(flat: Any, step: int, size: int, out: Any) -> None:
    """Means of bytes ``step`` apart, rounded to the nearest and halves up."""
    n = out.size
    if size == 1:
        for j in range(n):
            out[j] = flat[j]
    elif size == 2:
        b = flat[step:]
        for j in range(n):
            out[j] = nb.uint8((nb.uint16(flat[j]) + nb.uint16(b[j]) + nb.uint16(1)) >> 1)
    else:
        _mean_of_many(flat, step, size, out)


@compiled
def _mean_of_many(flat: Any, step: int, size: int, out: Any) -> None:
    n = out.size
    if size == 3:
        b, c = flat[step:], flat[2 * step :]
        for j in range(n):
            total = nb.uint32(flat[j]) + nb.uint32(b[j]) + nb.uint32(c[j]) + nb.uint32(1)
            out[j] = nb.uint8((total * nb.uint32(21846)) >> nb.uint32(16))  # a third
    elif size == 4:
        b, c, d = flat[step:], flat[2 * step :], flat[3 * step :]
        for j in range(n):
            total = (nb.uint16(flat[j]) + nb.uint16(b[j])) + (nb.uint16(c[j]) + nb.uint16(d[j]))
            out[j] = nb.uint8((total + nb.uint16(2)) >> 2)
    else:
        for j in range(n):
            total = size // 2
            for k in range(size):
                total += np.int64(flat[j + k * step])
            out[j] = nb.uint8(total // size)


@compiled
def _pick(flat: Any, places: Any, channels: int, out: Any) -> None:
    """Fetch pixels: of colours the last but one byte is written twice, to move four at once."""
    last = places.size - 1
    if channels == 3:
        for j in range(last):
            copy_four(flat, nb.uintp(places[j]), out, nb.uintp(3 * j))
    for j in range(last if channels == 3 else 0, last + 1):
        for c in range(channels):
            out[channels * j + c] = flat[places[j] + nb.uint32(c)]


@intrinsic
def copy_four(_: Any, source: Any, start: Any, target: Any, place: Any) -> Any:
    """Copy four bytes, wherever they lie."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def word(array: Any, kind: Any, index: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [index]), ir.IntType(32).as_pointer())

        value = builder.load(word(args[0], signature.args[0], args[1]), align=1)
        builder.store(value, word(args[2], signature.args[2], args[3]), align=1)
        return context.get_dummy_value()

    return types.void(source, start, target, place), generate
