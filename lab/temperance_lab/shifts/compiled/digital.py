# pyright: basic
"""Contrast and pixelation, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance_lab.shifts.compiled.lines import compiled, inlined, lines, to_byte
from temperance_lab.shifts.compiled.stripes import (
    call_to_read,
    call_to_write,
    copy,
    mean_of_four,
    mean_of_three,
    mean_of_two,
    show,
)
from temperance_lab.shifts.digital import cells

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

ROWS = 4  # of cells, worked on at once
AHEAD = 16  # rows that are on their way into the cache


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
    _, height, width, channels = x.shape
    rows, columns = _rows(height, factor), _columns(width, factor, channels)
    _pixelated(lines(x), rows, channels, columns, lines(out))


@lru_cache
def _rows(length: int, factor: float) -> tuple[Any, Any]:
    """First pixel of each cell to average, and to show; and the end of the last."""
    shown, groups = cells(length, factor)
    averaged = np.sort(np.concatenate([first for _, _, first in groups]))
    seen = np.searchsorted(shown, np.arange(len(averaged)))
    return np.append(averaged, length), np.append(seen, length)


@lru_cache
def _columns(width: int, factor: float, channels: int) -> tuple[Any, Any, Any, Any]:
    """Sizes of cells; and what pixels show: the mean of which size from how far to the left.

    Few answers are there, so a line is put together from as many lines of means, each with a mask
    for the pixels that show it.
    """
    shown, groups = cells(width, factor)
    kind, first = np.empty((2, int(shown[-1]) + 1), np.int64)
    for k, (_, which, begin) in enumerate(groups):
        kind[which], first[which] = k, begin
    seen = np.stack([kind[shown], np.arange(width) - first[shown]])
    answers = np.unique(seen, axis=1)
    masks = (seen[:, np.newaxis] == answers[:, :, np.newaxis]).all(axis=0)
    sizes = np.array([size for size, _, _ in groups])
    masks = np.repeat(masks, channels, axis=1)
    return sizes, answers[0], answers[1] * channels, np.uint8(255) * masks


@compiled
def _pixelated(x: Any, rows: Any, channels: int, columns: Any, out: Any) -> None:
    """Lines are told by where they begin: to cut them out takes longer than to average them."""
    tops, shown = rows
    sizes, kinds, steps, masks = columns
    n, height, length = x.shape
    few, left = ROWS * length, steps.max()
    plane = left + few
    room = np.zeros((sizes.size + 1) * plane, np.uint8)
    low = left + (0 if sizes[0] == 1 else sizes.size) * plane  # a mean of one pixel is the pixel
    begins, covers = left + kinds * plane - steps, masks.ravel()
    source, target = x.ravel(), out.ravel()
    for i in range(n):
        for start in range(0, tops.size - 1, ROWS):
            end = min(start + ROWS, tops.size - 1)
            for k in range(start, end):
                top, size = (i * height + tops[k]) * length, tops[k + 1] - tops[k]
                _mean(source, top, length, size, room, low + (k - start) * length, length)
                call_to_read(source, top + AHEAD * length, size * length)
            for k in range(int(sizes[0] == 1), sizes.size):
                kept = few - (sizes[k] - 1) * channels
                _mean(room, low, channels, sizes[k], room, left + k * plane, kept)
            for k in range(start, end):
                place, same = (i * height + shown[k]) * length, shown[k + 1] - shown[k]
                call_to_write(target, place + AHEAD * length, same * length)
                show(room, begins, covers, target, place, length, same)
                begins += length
            begins -= (end - start) * length


@inlined
def _mean(flat: Any, start: int, step: int, size: int, out: Any, place: int, n: int) -> None:
    """Means of bytes ``step`` apart, n of them, rounded to the nearest and halves up."""
    if size == 1:
        copy(flat, start, step, out, place, n)
    elif size == 2:
        mean_of_two(flat, start, step, out, place, n)
    elif size == 3:
        mean_of_three(flat, start, step, out, place, n)
    elif size == 4:
        mean_of_four(flat, start, step, out, place, n)
    else:
        for j in range(n):
            total = size // 2
            for k in range(size):
                total += np.int64(flat[start + j + k * step])
            out[place + j] = nb.uint8(total // size)
