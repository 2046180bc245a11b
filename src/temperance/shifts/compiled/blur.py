# pyright: basic
"""The blurs, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance.shifts.blur import streak_weights, zoom_factors, zoom_positions
from temperance.shifts.compiled.lines import (
    compiled,
    frame,
    framed,
    inlined,
    lay,
    lines,
    taps,
    to_byte,
    weigh,
)
from temperance.shifts.compiled.smoothing import smooth_to_bytes, smoother, smoothing_room
from temperance.shifts.compiled.tiles import ROWS, SIDE, sum_around
from temperance.shifts.planes import gaussian_kernel

if TYPE_CHECKING:
    from temperance.shifts.draws import Draws


def gaussian(x: Any, sigma: float, _draws: Draws, out: Any) -> None:
    """Blur by a Gaussian."""
    _smoothed(lines(x), gaussian_smoother(x.shape[1:], sigma), lines(out))


@lru_cache
def gaussian_smoother(shape: tuple[int, ...], sigma: float) -> Any:
    """Gaussian filter of images whose last pixels are repeated beyond the border."""
    return smoother(shape, gaussian_kernel(sigma, int(4 * sigma + 0.5)), "nearest")


@compiled
def _smoothed(x: Any, smoother: Any, out: Any) -> None:
    room = smoothing_room(x.shape[1], x.shape[2], smoother[3])
    for i in range(x.shape[0]):
        for y in range(x.shape[1]):
            line, copy = x[i, y], room[0][y]
            for j in range(line.size):
                copy[j] = nb.float32(line[j])
        smooth_to_bytes(smoother, room, out[i])


@compiled
def _round(line: Any, out: Any) -> None:
    for j in range(out.size):
        out[j] = to_byte(line[j])


def defocus(x: Any, constants: tuple[float, float], _draws: Draws, out: Any) -> None:
    """Blur by a disc with a smoothed rim."""
    _disc(lines(x), *_discs(x.shape[1:], *constants), lines(out))


@lru_cache
def _discs(shape: tuple[int, ...], radius: float, rim: float) -> tuple[Any, ...]:
    """Frame, half the chord of every row, one over their sum, and the filter of the rim."""
    reach = int(radius)
    half = np.sqrt(radius**2 - np.arange(reach + 1) ** 2).astype(np.int64)
    pixels = 2 * (2 * half + 1).sum() - (2 * half[0] + 1)
    kernel = gaussian_kernel(rim, 2) if radius > 8 else np.pad(gaussian_kernel(rim, 1), 1)
    soft = smoother(shape, kernel, "mirror")
    return frame(shape, (reach, reach), "mirror"), half, np.float32(1 / pixels), soft


@compiled
def _disc(x: Any, frame: Any, half: Any, share: float, soft: Any, out: Any) -> None:
    n, height, length = x.shape
    rows, columns, channels = frame
    inside = np.zeros((rows.size, columns.size * channels), np.uint16)
    upper, lower = np.empty((height, length), np.uint16), np.empty((height, length), np.uint16)
    room = smoothing_room(height, length, channels)
    plane = room[0]
    for i in range(n):
        lay(x[i], frame, inside)
        _sum_chords(inside, half, channels, upper, lower)
        for y in range(height):
            line, above, below = plane[y], upper[y], lower[y]
            for j in range(length):
                line[j] = share * (nb.float32(above[j]) + nb.float32(below[j]))
        if soft[2][1] > nb.float32(1e-6):
            _soften(soft, room, out[i])
        else:  # a rim too narrow to smooth anything
            for y in range(height):
                _round(plane[y], out[i, y])


@compiled
def _soften(soft: Any, room: Any, out: Any) -> None:
    """Filter what lies in the first room by five taps both ways, and round."""
    down, across, weights, channels = soft
    (height, length), wide, eight = out.shape, room[0].shape[1], room[2]
    begins = across // room[1].shape[1]  # of pixels that are not turned
    for y in range(0, height, SIDE):
        for part in range(0, SIDE, ROWS):
            sum_around(room[0], down, y + part, weights, eight, part * wide, wide)
        for k in range(min(SIDE, height - y)):
            _soften_across(eight, k * wide, weights, channels, out[y + k])
            for pixel in (0, 1, length // channels - 2, length // channels - 1):
                for c in range(channels):
                    at, total = k * wide + c, nb.float32(0)
                    for step in range(-2, 3):
                        beside = begins[pixel + step + weights.size]
                        total += weights[abs(step)] * eight[at + beside]
                    out[y + k, pixel * channels + c] = to_byte(total)


@inlined
def _soften_across(flat: Any, start: int, weights: Any, channels: int, out: Any) -> None:
    p, q, r = weights[0], weights[1], weights[2]
    a, b, c = nb.uintp(start), nb.uintp(start + channels), nb.uintp(start + 2 * channels)
    d, e = nb.uintp(start + 3 * channels), nb.uintp(start + 4 * channels)
    at = nb.uintp(2 * channels)
    for j in range(nb.uintp(out.size - 4 * channels)):
        near, far = flat[b + j] + flat[d + j], flat[a + j] + flat[e + j]
        out[at + j] = to_byte(p * flat[c + j] + q * near + r * far)


@compiled
def _sum_chords(inside: Any, half: Any, channels: int, upper: Any, lower: Any) -> None:
    """Sums over half discs: a chord is the shorter one and its two ends.

    Half a disc of up to 257 pixels, 12 in radius, fits into sixteen bits.
    """
    reach, (height, length), stride = half.size - 1, upper.shape, inside.shape[1]
    flat, top, bottom = inside.ravel(), upper.ravel(), lower.ravel()
    chord = np.empty(length, np.uint16)
    upper[:], lower[:] = 0, 0
    for p in range(height + 2 * reach):
        middle = p * stride + reach * channels
        for j in range(nb.uintp(length)):
            chord[j] = flat[nb.uintp(middle) + j]
        for h in range(half[0] + 1):
            if h > 0:
                _lengthen(chord, flat, middle - h * channels, middle + h * channels)
            for dy in range(half.size):
                if half[dy] == h:
                    if reach + dy <= p < height + reach + dy:
                        _add(chord, top, (p - reach - dy) * length)
                    if dy > 0 and reach - dy <= p < height + reach - dy:
                        _add(chord, bottom, (p - reach + dy) * length)


@inlined
def _lengthen(chord: Any, flat: Any, left: int, right: int) -> None:
    a, b = nb.uintp(left), nb.uintp(right)
    for j in range(nb.uintp(chord.size)):
        chord[j] += flat[a + j] + flat[b + j]


@inlined
def _add(chord: Any, total: Any, place: int) -> None:
    at = nb.uintp(place)
    for j in range(nb.uintp(chord.size)):
        total[at + j] += chord[j]


def motion(x: Any, constants: tuple[int, float], draws: Draws, out: Any) -> None:
    """Blur along a line within 45° of the rows."""
    angle = np.pi / 2 * (draws.uniform("angle", (len(x),)) - 0.5)
    steps, weights = taps(*streak_weights(*constants))
    reach = int(steps[-1])
    _streaked(
        lines(x), frame(x.shape[1:], (reach, reach), "nearest"), steps, weights, angle, lines(out)
    )


@compiled
def _streaked(x: Any, frame: Any, steps: Any, weights: Any, angle: Any, out: Any) -> None:
    room = framed(frame)
    line = np.empty(x.shape[2], np.float32)
    offsets = np.empty(steps.size, np.int64)
    for i in range(x.shape[0]):
        lay(x[i], frame, room)
        trace(angle[i], steps, room.shape[1], frame[2], offsets)
        for y in range(x.shape[1]):
            weigh(room.ravel(), y * room.shape[1], offsets, weights, line)
            _round(line, out[i, y])


@compiled
def trace(angle: float, steps: Any, stride: int, channels: int, offsets: Any) -> None:
    """Distances in memory, from the corner of the frame, of steps along a line."""
    reach = steps[-1]
    for k in range(steps.size):
        down = reach + int(np.rint(steps[k] * np.sin(angle)))
        right = reach + int(np.rint(steps[k] * np.cos(angle)))
        offsets[k] = down * stride + right * channels


def zoom(x: Any, constants: tuple[float, float], _draws: Draws, out: Any) -> None:
    """Blur by magnification."""
    _zoomed(lines(x), x.shape[3], *_magnifications(x.shape[1:], *constants), lines(out))


@lru_cache
def _magnifications(shape: tuple[int, ...], limit: float, step: float) -> tuple[Any, ...]:
    """Rows of every magnification; columns as runs; and for both the shares of the next."""
    height, width, channels = shape
    factors = zoom_factors(limit, step)
    top, below = map(np.stack, zip(*(whole_and_share(height, f) for f in factors), strict=True))
    left, right = map(np.stack, zip(*(whole_and_share(width, f) for f in factors), strict=True))
    # Where the distance to the origin stays the same, a run of pixels is read in one go.
    distance = left.astype(np.int64) - np.arange(width)
    ends = np.diff(distance, axis=1, append=width) != 0
    factor, stop = np.nonzero(ends)
    runs = np.stack([factor, (stop + 1) * channels, distance[ends] * channels], axis=1)
    return top, below, runs, np.repeat(right, channels, axis=1)


def whole_and_share(length: int, factor: float) -> tuple[Any, Any]:
    """Pixels before the places of a magnified line, and the share of the next pixel."""
    places = zoom_positions(length, factor)
    before = np.minimum(places.astype(np.uint32), np.uint32(length - 2))
    return before, (places - before).astype(np.float32)


@compiled
def _zoomed(x: Any, channels: int, top: Any, below: Any, runs: Any, right: Any, out: Any) -> None:
    n, height, length = x.shape
    between, total = np.empty(length, np.float32), np.empty(length, np.float32)
    for i in range(n):
        for y in range(height):
            total[:] = 0
            start, factor = 0, -1
            for k in range(runs.shape[0]):
                if runs[k, 0] != factor:
                    start, factor = 0, runs[k, 0]
                    upper = top[factor, y]
                    blend(x[i, upper], x[i, upper + 1], below[factor, y], between)
                stop, distance = runs[k, 1], runs[k, 2]
                before = between[start + distance : stop + distance]
                after = between[start + distance + channels : stop + distance + channels]
                _add_between(before, after, right[factor, start:stop], total[start:stop])
                start = stop
            done, equal = out[i, y], nb.float32(1) / nb.float32(top.shape[0])
            for j in range(length):
                done[j] = to_byte(total[j] * equal)


@compiled
def blend(above: Any, below: Any, share: float, out: Any) -> None:
    """Read between two lines."""
    for j in range(out.size):
        a = nb.float32(above[j])
        out[j] = a + share * (nb.float32(below[j]) - a)


@inlined
def _add_between(before: Any, after: Any, share: Any, total: Any) -> None:
    for j in range(total.size):
        total[j] += before[j] + share[j] * (after[j] - before[j])
