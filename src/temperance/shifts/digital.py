"""Brightness, contrast, saturation and pixelation.

D. Hendrycks and T. Dietterich, ICLR 2019. Brightness and saturation are changed in hue, saturation
and value. With V the largest and ``V (1 - S)`` the smallest of red, green, blue, a new V scales the
colour by V'/V, and a new S scales its distance from white, ``V - colour``, by S'/S: no conversion.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance.shifts.images import from_planes, to_planes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.shifts.draws import Draws


def brightness(x: NDArray[np.uint8], amount: float, _draws: Draws) -> NDArray[np.uint8]:
    """Raise the value: V' = min(V + c, 1)."""
    planes = to_planes(x)
    value = planes.max(axis=1, keepdims=True)
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
    value = planes.max(axis=1, keepdims=True)
    chroma = value - planes.min(axis=1, keepdims=True)  # V S
    wanted = np.clip(scale * chroma + shift * value, 0, value)  # V S'
    planes -= value
    planes *= wanted / np.maximum(chroma, 1)
    planes += value
    planes[:, 1:] -= wanted * (chroma == 0)
    return from_planes(planes)


def contrast(x: NDArray[np.uint8], factor: float, _draws: Draws) -> NDArray[np.float32]:
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
    """Shrink to ``factor`` of the size by means over cells and blow up again, as Pillow's BOX."""
    n, height, width, channels = x.shape
    lines = x.reshape(n, height, -1)
    widths, place = _cells(width, factor)
    at = (place[:, np.newaxis] * channels + np.arange(channels)).ravel()
    lines = np.take(_running_means(lines, widths, channels, 2), at, axis=2)
    widths, place = _cells(height, factor)
    return np.take(_running_means(lines, widths, 1, 1), place, axis=1).reshape(x.shape)


def _running_means(
    lines: NDArray[np.uint8], widths: tuple[int, ...], step: int, axis: int
) -> NDArray[np.uint8]:
    """Means of ``width`` entries, ``step`` apart, from every place along ``axis``, side by side."""
    length = lines.shape[axis]
    total = lines.astype(np.uint16)
    means = [lines] if 1 in widths else []
    for count in range(2, widths[-1] + 1):
        head = [slice(None)] * 3
        head[axis] = slice(length - (count - 1) * step)
        tail = [slice(None)] * 3
        tail[axis] = slice((count - 1) * step, length)
        total[tuple(head)] += lines[tuple(tail)]
        if count in widths:
            means.append(((total + np.uint16(count // 2)) // np.uint16(count)).astype(np.uint8))
    return np.concatenate(means, axis=axis) if len(means) > 1 else means[0]


@lru_cache
def _cells(length: int, factor: float) -> tuple[tuple[int, ...], NDArray[np.intp]]:
    """Widths that cells have, and where among the running means each pixel finds its cell's."""
    cells = int(length * factor)
    edges = np.arange(cells + 1) * length / cells
    first = np.ceil(edges - 0.5).astype(np.intp)  # pixels whose centre lies in the cell
    count = np.diff(first)
    widths = tuple(int(w) for w in np.unique(count))
    shown = ((np.arange(length) + 0.5) * cells / length).astype(np.intp)
    return widths, (np.searchsorted(widths, count) * length + first[:-1])[shown]
