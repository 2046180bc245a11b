"""Brightness, contrast, saturation and pixelation.

D. Hendrycks and T. Dietterich, ICLR 2019. Brightness and saturation are changed in hue, saturation
and value. With V the largest and ``V (1 - S)`` the smallest of red, green, blue, a new V scales the
colour by V'/V, and a new S scales its distance from grey, ``V - colour``, by S'/S: no conversion.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.shifts.images import from_planes, to_planes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.draws import Draws

    Group = tuple[int, NDArray[np.intp], NDArray[np.intp]]


def brightness(x: NDArray[np.uint8], amount: float, _draws: Draws) -> NDArray[np.uint8]:
    """Raise the value: V' = min(V + c, 1)."""
    planes = to_planes(x)
    value = planes.max(axis=0)
    raised = np.minimum(value + np.float32(255 * amount), 255)
    planes *= raised / np.maximum(value, 1)
    planes += raised * (value == 0)  # black has no colour to keep: it turns grey
    return from_planes(planes)


def saturate(
    x: NDArray[np.uint8], constants: tuple[float, float], _draws: Draws
) -> NDArray[np.uint8]:
    """Change the saturation: S' = clip(a S + b, 0, 1), ``constants`` (a, b).

    A grey pixel has no hue and turns red where b > 0, as in the usual conversion. Grey images
    (C = 1) have no saturation and stay as they are.
    """
    if x.shape[3] == 1:
        return x
    scale, shift = (np.float32(c) for c in constants)
    planes = to_planes(x)
    value = planes.max(axis=0)
    chroma = value - planes.min(axis=0)  # V S
    wanted = np.clip(scale * chroma + shift * value, 0, value)  # V S'
    planes -= value
    planes *= wanted / np.maximum(chroma, 1)
    planes += value
    planes[1:] -= wanted * (chroma == 0)
    return from_planes(planes)


def contrast(x: NDArray[np.uint8], factor: float, _draws: Draws) -> NDArray[np.floating]:
    """Shrink towards the mean colour of each image."""
    n, height, width, channels = x.shape
    colour = x.astype(np.float32)
    pixels = height * width
    mean = np.full((1, pixels), 1 / pixels, np.float32) @ colour.reshape(n, pixels, channels)
    lines = colour.reshape(n, height, -1)
    lines *= np.float32(factor)
    lines += np.tile(np.float32(1 - factor) * mean, width)
    return colour


def pixelate(x: NDArray[np.uint8], factor: float, _draws: Draws) -> NDArray[np.uint8]:
    """Shrink to ``factor`` of the size by means over cells, and show the cells at full size."""
    n, height, width, channels = x.shape
    lines = x.reshape(n, height, -1)
    shown, groups = cells(height, factor)
    small = np.empty((n, int(shown[-1]) + 1, lines.shape[2]), np.uint8)
    for size, rows, first in groups:
        small[:, rows] = _mean([np.take(lines, first + i, axis=1) for i in range(size)])
    # Single columns are slow to pick: pick once, from the means of all neighbours, side by side.
    sizes, at = _columns(width, factor, channels)
    means = [
        _mean([small[:, :, i * channels : (width - size + 1 + i) * channels] for i in range(size)])
        for size in sizes
    ]
    means = np.take(np.concatenate(means, axis=2), at, axis=2)
    return np.take(means, shown, axis=1).reshape(x.shape)


def _mean(parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Mean of bytes, rounded to the nearest and halves up."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:  # (a + b + 1) // 2 without leaving the bytes, by far the fastest
        a, b = parts
        return (a | b) - ((a ^ b) >> np.uint8(1))
    total = np.add.reduce(parts, dtype=np.uint16)
    return ((total + len(parts) // 2) // len(parts)).astype(np.uint8)


@lru_cache
def cells(length: int, factor: float) -> tuple[NDArray[np.intp], list[Group]]:
    """The cell that every pixel shows; and by size the cells and the first pixel of each.

    A pixel belongs to the cell that holds its centre or, between two, to the first, as in Pillow's
    filter BOX.
    """
    number = int(length * factor)
    shown = (2 * np.arange(length) + 1) * number // (2 * length)
    first = (2 * length * np.arange(number + 1) - number) // (2 * number) + 1
    size = np.diff(first)
    groups = [(int(s), np.flatnonzero(size == s), first[:-1][size == s]) for s in np.unique(size)]
    return shown, groups


@lru_cache
def _columns(width: int, factor: float, channels: int) -> tuple[list[int], NDArray[np.intp]]:
    """Sizes of cells; and where every value finds its mean among those of all neighbours."""
    shown, groups = cells(width, factor)
    place = np.empty(int(shown[-1]) + 1, np.intp)
    start = 0
    for size, which, first in groups:
        place[which] = start + first
        start += width - size + 1
    at = place[shown, np.newaxis] * channels + np.arange(channels)
    return [size for size, _, _ in groups], at.ravel()
