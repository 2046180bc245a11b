"""Brightness, contrast, saturation, JPEG, pixelation and elastic deformation.

D. Hendrycks and T. Dietterich, ICLR 2019.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct

from temperance.shifts.geometry import bilinear
from temperance.shifts.images import from_planes, to_planes
from temperance.shifts.planes import gaussian_matrix, separable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.shifts.draws import Draws


def brightness(x: NDArray[np.uint8], amount: float, _draws: Draws) -> NDArray[np.float32]:
    """Raise V of hue, saturation, value: V' = min(V + c, 1), colours in proportion."""
    value = x.max(axis=3, keepdims=True).astype(np.float32)
    raised = np.minimum(value + np.float32(255 * amount), 255)
    scaled = x * (raised / np.maximum(value, 1))
    return np.where(value > 0, scaled, raised)


def contrast(x: NDArray[np.uint8], factor: float, _draws: Draws) -> NDArray[np.float32]:
    """Shrink towards the mean colour of the image."""
    mean = x.mean(axis=(1, 2), keepdims=True, dtype=np.float32)
    return np.float32(factor) * x + np.float32(1 - factor) * mean


def saturate(
    x: NDArray[np.uint8], scale_and_shift: tuple[float, float], _draws: Draws
) -> NDArray[np.float32] | NDArray[np.uint8]:
    """S' = clip(a S + b, 0, 1) of hue, saturation, value; grey images have nothing to saturate.

    A grey pixel has no hue; like the usual conversion this takes red.
    """
    if x.shape[3] == 1:
        return x
    scale, shift = (np.float32(c) for c in scale_and_shift)
    colour = x.astype(np.float32)
    value = colour.max(axis=3, keepdims=True)
    chroma = value - colour.min(axis=3, keepdims=True)
    wanted = np.clip(scale * chroma + shift * value, 0, value)  # the new chroma, V S'
    vivid = value - (value - colour) * (wanted / np.maximum(chroma, 1))
    red = value - wanted * np.array([0, 1, 1], np.float32)
    return np.where(chroma > 0, vivid, red)


def pixelate(x: NDArray[np.uint8], factor: float, _draws: Draws) -> NDArray[np.uint8]:
    """Shrink to ``factor`` of the size by cell means, and blow up again."""
    height, width = x.shape[1:3]
    return from_planes(separable(to_planes(x), [(_cells(height, factor), _cells(width, factor))]))


@lru_cache
def _cells(length: int, factor: float) -> NDArray[np.float32]:
    """Mean over the pixels whose centres share a cell, at every pixel."""
    cells = int(length * factor)
    member = np.ceil((np.arange(length) + 0.5) * cells / length - 1e-9).astype(int) - 1
    shown = ((np.arange(length) + 0.5) * cells / length).astype(int)
    mean = (np.arange(cells)[:, np.newaxis] == member).astype(np.float32)
    mean /= mean.sum(axis=1, keepdims=True)
    return mean[shown]


# The example tables of ITU-T T.81, Annex K, in use everywhere.
LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)
CHROMINANCE = np.full((8, 8), 99)
CHROMINANCE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]


def jpeg(x: NDArray[np.uint8], quality: int, _draws: Draws) -> NDArray[np.float32]:
    """What JPEG at ``quality`` loses."""
    height, width = x.shape[1:3]
    if x.shape[3] == 1:
        grey = x[..., 0].astype(np.float32)
        return _quantise(grey, quality, chroma=False)[..., np.newaxis]
    red, green, blue = (x[..., c].astype(np.float32) for c in range(3))
    luma = np.rint(0.299 * red + 0.587 * green + 0.114 * blue)
    out = np.empty(x.shape, np.float32)
    luma = _quantise(luma, quality, chroma=False)
    weighted = np.rint(0.299 * red + 0.587 * green + 0.114 * blue)
    cb = np.rint((blue - weighted) * (0.5 / (1 - 0.114)) + 128)
    cr = np.rint((red - weighted) * (0.5 / (1 - 0.299)) + 128)
    cb, cr = (
        separable(
            _quantise(_halve(plane), quality, chroma=True), [(_double(height), _double(width))]
        )
        - 128
        for plane in (cb, cr)
    )
    out[..., 0] = luma + 1.402 * cr
    out[..., 1] = luma - 0.344136 * cb - 0.714136 * cr
    out[..., 2] = luma + 1.772 * cb
    return out


def _halve(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Means of 2 × 2 pixels; an odd last line is repeated."""
    plane = _pad(plane, 2)
    pairs = plane[:, ::2] + plane[:, 1::2]
    return np.rint((pairs[:, :, ::2] + pairs[:, :, 1::2]) / 4)


@lru_cache
def _double(length: int) -> NDArray[np.float32]:
    from temperance.shifts.planes import interpolation_matrix

    half = -(-length // 2)
    return interpolation_matrix(half, (np.arange(length) - 0.5) / 2, "nearest")


def _pad(plane: NDArray[np.float32], multiple: int) -> NDArray[np.float32]:
    _, height, width = plane.shape
    down, right = -height % multiple, -width % multiple
    return np.pad(plane, ((0, 0), (0, down), (0, right)), mode="edge") if down or right else plane


def _quantise(plane: NDArray[np.float32], quality: int, *, chroma: bool) -> NDArray[np.float32]:
    n, height, width = plane.shape
    plane = _pad(plane, 8)
    rows, columns = plane.shape[1] // 8, plane.shape[2] // 8
    forward, backward = _transform(quality, chroma)
    blocks = plane.reshape(n, rows, 8, columns, 8).swapaxes(2, 3).reshape(-1, 64) - 128
    blocks = np.rint(blocks @ forward) @ backward
    plane = blocks.reshape(n, rows, columns, 8, 8).swapaxes(2, 3).reshape(plane.shape) + 128
    return np.clip(np.rint(plane), 0, 255)[:, :height, :width]


@lru_cache
def _transform(quality: int, chroma: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    table = np.clip((CHROMINANCE if chroma else LUMINANCE) * scale + 50, 100, 25500) // 100
    basis = dct(np.eye(8), axis=0, norm="ortho")
    both = np.kron(basis, basis).T
    return (both / table.ravel()).astype(np.float32), (both * table.ravel()).T.astype(np.float32)


def elastic(
    x: NDArray[np.uint8], shares: tuple[float, float, float], draws: Draws
) -> NDArray[np.float32]:
    """A random affine map of three points, then a smooth random displacement of every pixel."""
    n, height, width, _ = x.shape
    side = min(height, width)
    size, smooth, affine = (share * side for share in shares)
    centre = np.array([height // 2, width // 2], np.float64)
    arm = side // 3
    points = centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + affine * (2 * draws.uniform("affine", (n, 3, 2)) - 1)
    ones = np.ones((n, 3, 1))
    # The pixel shown at q comes from p with [q, 1] M = p.
    solve = np.linalg.solve(np.concatenate([moved, ones], 2), np.broadcast_to(points, (n, 3, 2)))
    rows, columns = np.arange(height)[:, np.newaxis], np.arange(width)
    if size:
        shift = [
            np.float32(size)
            * separable(
                2 * draws.uniform(axis, (n, height, width)) - 1,
                [_smoothing(height, width, smooth)],
            )
            for axis in ("down", "right")
        ]
        rows, columns = rows + shift[0], columns + shift[1]
    m = solve.astype(np.float32)[:, :, :, np.newaxis, np.newaxis]
    down = m[:, 0, 0] * rows + m[:, 1, 0] * columns + m[:, 2, 0]
    right = m[:, 0, 1] * rows + m[:, 1, 1] * columns + m[:, 2, 1]
    return bilinear(x, down, right, "mirror")


@lru_cache
def _smoothing(
    height: int, width: int, sigma: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return (
        gaussian_matrix(height, sigma, "reflect", 3.0),
        gaussian_matrix(width, sigma, "reflect", 3.0),
    )
