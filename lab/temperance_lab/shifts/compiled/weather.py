# pyright: basic
"""Snow, fog and spatter, compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from temperance_lab.shifts.compiled.blur import blend, gaussian_smoother, whole_and_share
from temperance_lab.shifts.compiled.lines import (
    compiled,
    frame,
    framed,
    larger,
    lay,
    lines,
    smaller,
    to_byte,
)
from temperance_lab.shifts.compiled.plasma import extremes, grown
from temperance_lab.shifts.compiled.smoothing import smooth_plane, smoother, smoothing_room
from temperance_lab.shifts.compiled.streaks import aside, taps, trace, weigh
from temperance_lab.shifts.draws import normal_quantiles
from temperance_lab.shifts.weather import LUMA, MUD, WATER, plasma_size

if TYPE_CHECKING:
    from temperance_lab.shifts.draws import Draws

RED, GREEN, BLUE = (nb.float32(share) for share in LUMA)


def snow(x: Any, constants: tuple[Any, ...], draws: Draws, out: Any) -> None:
    """Let it snow."""
    mean, spread, magnify, threshold, radius, sigma, keep = constants
    n, height, width, _ = x.shape
    cells = draws.cells("flakes", (n, height, width))
    angle = np.pi / 2 * (draws.uniform("angle", (n,)) - 1.5)  # down, within 45°
    steps, weights = taps(radius, sigma)
    reach = int(steps[-1])
    more = aside(reach)
    _snow(
        lines(x),
        x.shape[3],
        cells,
        np.float32(mean) + np.float32(spread) * normal_quantiles(),
        _magnified(height, width, magnify),
        np.float32(threshold),
        frame((height, width, 1), ((reach, 0), (more, more)), "nearest"),
        (reach, more),
        steps,
        weights,
        angle,
        np.float32(keep),
        lines(out),
    )


@lru_cache
def _magnified(height: int, width: int, factor: float) -> tuple[Any, ...]:
    """Rows above and pixels to the left of where flakes come from, and shares of the next."""
    return (*whole_and_share(height, factor), *whole_and_share(width, factor))


@compiled
def _snow(
    x: Any,
    channels: int,
    cells: Any,
    table: Any,
    places: Any,
    threshold: float,
    frame: Any,
    corner: Any,
    steps: Any,
    weights: Any,
    angle: Any,
    keep: float,
    out: Any,
) -> None:
    n, height = x.shape[:2]
    noise, flakes = np.empty(cells.shape[1:], np.float32), np.empty(cells.shape[1:], np.float32)
    room = framed(frame)
    offsets = np.empty(steps.size, np.int64)
    for i in range(n):
        look_up(cells[i], table, noise)
        _flakes(noise, places, threshold, flakes)
        lay(flakes, frame, room)
        trace(angle[i], steps, corner, room.shape[1], 1, offsets)
        for y in range(height):
            weigh(room, y * room.shape[1], offsets, weights, flakes[y], cells.shape[2])
        for y in range(height):
            fallen = noise[0]
            _sum_turned(flakes[y], flakes[height - 1 - y], fallen)
            if channels == 3:
                _whiten(x[i, y], fallen, keep, out[i, y])
            else:
                _whiten_grey(x[i, y], fallen, keep, out[i, y])


@compiled
def look_up(cells: Any, table: Any, out: Any) -> None:
    """Turn random cells (H, W) into numbers."""
    for y in range(cells.shape[0]):
        line, found = cells[y], out[y]
        for j in range(line.size):
            found[j] = table[line[j]]


@compiled
def _flakes(noise: Any, places: Any, threshold: float, out: Any) -> None:
    top, below, left, share = places
    between = np.empty(noise.shape[1], np.float32)
    for y in range(top.size):
        blend(noise[top[y]], noise[top[y] + 1], below[y], between)
        line = out[y]
        for j in range(line.size):
            a = between[left[j]]
            flake = a + share[j] * (between[left[j] + nb.uint32(1)] - a)
            shown = smaller(larger(flake, nb.float32(0)), nb.float32(1))
            line[j] = shown if flake >= threshold else nb.float32(0)


@compiled
def _sum_turned(line: Any, other: Any, out: Any) -> None:
    last = line.size - 1
    for j in range(line.size):
        out[j] = nb.float32(255) * line[j] + nb.float32(255) * other[last - j]


@compiled
def _whiten(line: Any, fallen: Any, keep: float, out: Any) -> None:
    rest = nb.float32(1) - keep
    for j in range(fallen.size):
        r, g, b = nb.float32(line[3 * j]), nb.float32(line[3 * j + 1]), nb.float32(line[3 * j + 2])
        pale = nb.float32(1.5) * (RED * r + GREEN * g + BLUE * b) + nb.float32(127.5)
        out[3 * j] = to_byte(keep * r + rest * larger(r, pale) + fallen[j])
        out[3 * j + 1] = to_byte(keep * g + rest * larger(g, pale) + fallen[j])
        out[3 * j + 2] = to_byte(keep * b + rest * larger(b, pale) + fallen[j])


@compiled
def _whiten_grey(line: Any, fallen: Any, keep: float, out: Any) -> None:
    for j in range(fallen.size):
        grey = nb.float32(line[j])
        pale = nb.float32(1.5) * grey + nb.float32(127.5)
        out[j] = to_byte(keep * grey + (nb.float32(1) - keep) * pale + fallen[j])


def fog(x: Any, constants: tuple[float, float], draws: Draws, out: Any) -> None:
    """Add mist."""
    strength, decay = constants
    size = plasma_size(*x.shape[1:3])
    bits = draws.bits("plasma", (len(x), size * size))
    _fog(
        lines(x),
        bits,
        size,
        x.shape[3],
        np.float32(255 * strength),
        np.float32(decay**2),
        lines(out),
    )


@compiled
def _fog(
    x: Any, bits: Any, size: int, channels: int, strength: float, decay: float, out: Any
) -> None:
    n, height, length = x.shape
    width = length // channels
    keep, colour = np.empty(width, np.float32), np.ones(channels, np.float32)
    for i in range(n):
        white = nb.float32(brightest(x[i]))
        scale = white / (white + strength)
        mist = grown(bits[i], size, decay)
        low, high = extremes(mist)
        gain = strength * scale / (high - low)
        keep[:] = scale
        for y in range(height):
            shade = mist[y, :width]
            for j in range(width):
                shade[j] = gain * (shade[j] - low)
            cover(x[i, y], keep, shade, colour, out[i, y])


@compiled
def brightest(image: Any) -> int:
    """Return the largest of the bytes of an image."""
    largest = np.zeros(image.shape[1], np.uint8)
    for y in range(image.shape[0]):
        line = image[y]
        for j in range(line.size):
            largest[j] = max(largest[j], line[j])
    return largest.max()


@compiled
def cover(line: Any, keep: Any, shade: Any, colour: Any, out: Any) -> None:
    """Lay a shade of one colour over a line, ``keep`` x + ``shade`` colour."""
    if colour.size == 3:
        red, green, blue = colour[0], colour[1], colour[2]
        for j in range(shade.size):
            share, add = keep[j], shade[j]
            out[3 * j] = to_byte(share * nb.float32(line[3 * j]) + red * add)
            out[3 * j + 1] = to_byte(share * nb.float32(line[3 * j + 1]) + green * add)
            out[3 * j + 2] = to_byte(share * nb.float32(line[3 * j + 2]) + blue * add)
    else:
        for j in range(shade.size):
            out[j] = to_byte(keep[j] * nb.float32(line[j]) + colour[0] * shade[j])


def spatter(x: Any, constants: tuple[Any, ...], draws: Draws, out: Any) -> None:
    """Let drops fall on the lens."""
    mean, spread, sigma, threshold, strength, muddy = constants
    n, height, width, channels = x.shape
    cells = draws.cells("liquid", (n, height, width))
    table = np.float32(mean) + np.float32(spread) * normal_quantiles()
    plane = (height, width, 1)
    colour = MUD if muddy else WATER
    colour = colour if channels == 3 else np.array([colour @ LUMA])
    drops = (cells, table, gaussian_smoother(plane, sigma), np.float32(threshold))
    if muddy:
        _muddy(lines(x), *drops, gaussian_smoother(plane, strength), colour, lines(out))
    else:
        edge = frame(plane, ((1, 1), (1, 1)), "mirror")
        _watery(lines(x), *drops, edge, _soft(plane), np.float32(strength) * colour, lines(out))


@lru_cache
def _soft(shape: tuple[int, int, int]) -> Any:
    """Mean of 3 × 3 pixels."""
    return smoother(shape, np.full(3, 1 / 3), "mirror")


@compiled
def _muddy(
    x: Any, cells: Any, table: Any, wet: Any, threshold: float, thick: Any, colour: Any, out: Any
) -> None:
    n, height, width = cells.shape
    mud = np.empty((height, width), np.float32)
    keep = np.empty(width, np.float32)
    wet_room, thick_room = smoothing_room(wet), smoothing_room(thick)
    zero, one = nb.float32(0), nb.float32(1)
    for i in range(n):
        look_up(cells[i], table, mud)
        smooth_plane(mud, wet, wet_room, mud)
        for y in range(height):
            line = mud[y]
            for j in range(width):
                line[j] = one if line[j] >= threshold else zero
        smooth_plane(mud, thick, thick_room, mud)
        for y in range(height):
            line = mud[y]
            for j in range(width):
                line[j] = line[j] if line[j] >= nb.float32(0.8) else zero
                keep[j] = one - line[j]
            cover(x[i, y], keep, line, colour, out[i, y])


@compiled
def _watery(
    x: Any,
    cells: Any,
    table: Any,
    wet: Any,
    threshold: float,
    edge: Any,
    soft: Any,
    colour: Any,
    out: Any,
) -> None:
    n, height, width = cells.shape
    liquid, light = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    keep = np.ones(width, np.float32)
    wet_room, soft_room, inside = smoothing_room(wet), smoothing_room(soft), framed(edge)
    for i in range(n):
        look_up(cells[i], table, liquid)
        smooth_plane(liquid, wet, wet_room, liquid)
        for y in range(height):
            line = liquid[y]
            for j in range(width):
                line[j] = line[j] if line[j] >= threshold else nb.float32(0)
        lay(liquid, edge, inside)
        for y in range(height):
            _slope(inside[y], inside[y + 1], inside[y + 2], light[y])
        smooth_plane(light, soft, soft_room, light)
        for y in range(height):
            line, drop = light[y], liquid[y]
            for j in range(width):
                line[j] *= drop[j]
        share = nb.float32(1) / max(extremes(light)[1], nb.float32(1e-6))
        for y in range(height):
            line = light[y]
            for j in range(width):
                line[j] *= share
            cover(x[i, y], keep, line, colour, out[i, y])


@compiled
def _slope(above: Any, here: Any, below: Any, out: Any) -> None:
    """Weights (-2 -1 0; -1 0 1; 0 1 2), where positive."""
    for j in range(out.size):
        steep = nb.float32(2) * (below[j + 2] - above[j]) + (below[j + 1] - above[j + 1])
        out[j] = larger(steep + (here[j + 2] - here[j]), nb.float32(0))
