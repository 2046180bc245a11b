# pyright: basic
"""The blurs, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance_lab.shifts.blur import zoom_factors, zoom_positions
from temperance_lab.shifts.compiled.lines import (
    compiled,
    frame,
    framed,
    inlined,
    lay,
    lines,
    to_byte,
)
from temperance_lab.shifts.compiled.smoothing import (
    smooth_columns,
    smooth_rows_to_bytes,
    smoother,
    smoothing_room,
)
from temperance_lab.shifts.compiled.streaks import aside, taps, trace, weigh
from temperance_lab.shifts.compiled.stripes import call_to_read
from temperance_lab.shifts.compiled.tiles import SIDE
from temperance_lab.shifts.planes import gaussian_kernel

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

COLUMNS = 96  # summed along streaks at once


def gaussian(x: Any, sigma: float, _draws: Draws, out: Any) -> None:
    """Blur by a Gaussian."""
    _smoothed(lines(x), gaussian_smoother(x.shape[1:], sigma), lines(out))


@lru_cache
def gaussian_smoother(shape: tuple[int, ...], sigma: float) -> Any:
    """Gaussian filter of images whose last pixels are repeated beyond the border."""
    return smoother(shape, gaussian_kernel(sigma, int(4 * sigma + 0.5)), "nearest")


@compiled
def _smoothed(x: Any, smoother: Any, out: Any) -> None:
    room = smoothing_room(smoother)
    n, height, length = x.shape
    for i in range(n):
        smooth_columns(x[i], smoother, room)
        for y in range(0, height, SIDE):
            call_to_read(x, ((i + 1) * height + y) * length, SIDE * length)  # the next image
            smooth_rows_to_bytes(y, smoother, room, out[i])


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
    edge = frame(shape, ((2, 2), (2, 2)), "mirror")
    return (
        frame(shape, ((reach, reach), (reach, reach)), "mirror"),
        half,
        np.float32(1 / pixels),
        edge,
        kernel[2:].astype(np.float32),
    )


@compiled
def _disc(x: Any, frame: Any, half: Any, share: float, edge: Any, soft: Any, out: Any) -> None:
    n, height, length = x.shape
    rows, columns, _, channels = frame
    inside = np.empty((rows.size, columns.size * channels), np.uint16)
    upper, lower = np.empty((height, length), np.uint16), np.empty((height, length), np.uint16)
    plane = np.empty((height, length), np.float32)
    for i in range(n):
        lay(x[i], frame, inside)
        _sum_chords(inside, half, channels, upper, lower)
        for y in range(height):
            line, above, below = plane[y], upper[y], lower[y]
            for j in range(length):
                line[j] = share * (nb.float32(above[j]) + nb.float32(below[j]))
        if soft[1] > nb.float32(1e-6):
            _soften(plane, edge, soft, out[i])
        else:  # a rim too narrow to smooth anything
            for y in range(height):
                _round(plane[y], out[i, y])


@compiled
def _soften(plane: Any, edge: Any, weights: Any, out: Any) -> None:
    """Filter by five taps down and across, and round."""
    rows, columns, left, channels = edge
    length = plane.shape[1]
    line = np.empty(columns.size * channels, np.float32)
    middle = line[left * channels : left * channels + length]
    for y in range(plane.shape[0]):
        a, b, c = plane[rows[y]], plane[rows[y + 1]], plane[rows[y + 2]]
        d, e = plane[rows[y + 3]], plane[rows[y + 4]]
        _sum_five(a, b, c, d, e, weights, middle)
        for k in (0, 1, columns.size - 2, columns.size - 1):
            for channel in range(channels):
                line[k * channels + channel] = middle[columns[k] * channels + channel]
        _sum_across(line, weights, channels, out[y])


@inlined
def _sum_five(a: Any, b: Any, c: Any, d: Any, e: Any, weights: Any, out: Any) -> None:
    p, q, r = weights[0], weights[1], weights[2]
    for j in range(out.size):
        out[j] = r * (a[j] + e[j]) + (q * (b[j] + d[j]) + p * c[j])


@inlined
def _sum_across(flat: Any, weights: Any, channels: int, out: Any) -> None:
    p, q, r = weights[0], weights[1], weights[2]
    b, c = nb.uintp(channels), nb.uintp(2 * channels)
    d, e = nb.uintp(3 * channels), nb.uintp(4 * channels)
    for j in range(nb.uintp(out.size)):
        near, far = flat[b + j] + flat[d + j], flat[j] + flat[e + j]
        out[j] = to_byte(p * flat[c + j] + q * near + r * far)


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
    steps, weights = taps(*constants)
    reach = int(steps[-1])
    more = aside(reach)
    edge = frame(x.shape[1:], ((more, more), (0, reach)), "nearest")
    _streaked(lines(x), edge, (more, 0), steps, weights, angle, lines(out))


@compiled
def _streaked(
    x: Any, frame: Any, corner: Any, steps: Any, weights: Any, angle: Any, out: Any
) -> None:
    """Some columns at a time: what their streaks read stays in the first-level cache."""
    n, height, length = x.shape
    room, flat = framed(frame), out.ravel()
    line, offsets = np.empty(COLUMNS, np.float32), np.empty(steps.size, np.int64)
    for i in range(n):
        lay(x[i], frame, room)
        trace(angle[i], steps, corner, room.shape[1], frame[3], offsets)
        for start in range(0, length, COLUMNS):
            few = min(COLUMNS, length - start)
            for y in range(height):
                weigh(room, y * room.shape[1] + start, offsets, weights, line, few)
                place = nb.uintp((i * height + y) * length + start)
                for j in range(nb.uintp(few)):
                    flat[place + j] = to_byte(line[j])


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
