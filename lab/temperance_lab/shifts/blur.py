"""Five blurs: Gaussian, out of focus, frosted glass, motion and zoom.

D. Hendrycks and T. Dietterich, ICLR 2019. Every pixel becomes a mean of pixels nearby, so a
constant image stays as it is. The weights:

    gaussian  a Gaussian of width σ
    defocus   a disc of the given radius, its rim smoothed by a small Gaussian
    glass     a Gaussian; then pixels take the colour of a random neighbour; the Gaussian again
    motion    exp(-i²/2σ²), i = 0…2r pixels along a random direction within 45° of the rows
    zoom      equal, over the image and its magnifications by 1, 1 + s, 1 + 2s, … up to the limit
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from temperance_lab.shifts.images import to_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.registry import Image

TRUNCATE = 4.0  # standard deviations at which a Gaussian filter ends


def smooth(plane: NDArray[Any], sigma: float) -> NDArray[Any]:
    """Filter by a Gaussian of ``sigma`` pixels; the last pixel is repeated beyond the border."""
    size = 2 * int(TRUNCATE * sigma + 0.5) + 1
    return cv2.GaussianBlur(
        plane.astype(np.float32), (size, size), sigma, borderType=cv2.BORDER_REPLICATE
    )


def gaussian(x: Image, sigma: float, _rng: np.random.Generator) -> NDArray[Any]:
    """Blur by a Gaussian of standard deviation ``sigma`` pixels."""
    return smooth(x, sigma)


def defocus(x: Image, constants: tuple[float, float], _rng: np.random.Generator) -> NDArray[Any]:
    """Blur by a disc: ``constants`` are its radius and the width of its smoothed rim."""
    return cv2.filter2D(
        x.astype(np.float32), -1, _disc(*constants), borderType=cv2.BORDER_REFLECT_101
    )


@lru_cache
def _disc(radius: float, rim: float) -> NDArray[Any]:
    """Weights of a disc, smoothed by a Gaussian on 3 × 3 pixels, on 5 × 5 beyond radius 8."""
    margin = 2 if radius > 8 else 1
    across = np.arange(-int(radius) - margin, int(radius) + margin + 1)
    disc = (np.hypot(across[:, np.newaxis], across) <= radius).astype(np.float32)
    rims = cv2.getGaussianKernel(2 * margin + 1, rim, cv2.CV_32F)
    return cv2.sepFilter2D(disc / disc.sum(), -1, rims, rims, borderType=cv2.BORDER_CONSTANT)


def glass(x: Image, constants: tuple[float, int, int], rng: np.random.Generator) -> Image:
    """Blur, scatter and blur: ``constants`` are σ, the reach of the scatter and its rounds.

    A pixel takes the colour of one up to ``reach`` pixels above or left of it, or ``reach - 1``
    below or right; a frame stays. Both are as published, where the loop that means to swap pixels
    in fact copies them, one after the other (with a reach of 1 the order does not matter).
    """
    sigma, reach, rounds = constants
    height, width, _ = x.shape
    x = to_bytes(smooth(x, sigma)).reshape(x.shape)
    inner = slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1)
    rows, columns = np.arange(height)[inner[0], np.newaxis], np.arange(width)[inner[1]]
    for _ in range(rounds):
        down, right = rng.integers(-reach, reach, (2, len(rows), len(columns)), np.int16)
        x[inner] = x[rows + down, columns + right]
    return to_bytes(smooth(x, sigma))


def motion(x: Image, constants: tuple[int, float], rng: np.random.Generator) -> NDArray[Any]:
    """Blur along a line: ``constants`` are the radius r and σ."""
    return streak(x.astype(np.float32), *constants, np.pi / 2 * (rng.random() - 0.5))


def streak(x: NDArray[np.float32], radius: int, sigma: float, angle: float) -> NDArray[Any]:
    """Σ w_i x(p + i·(sin, cos)) with w_i ∝ exp(-i²/2σ²), i = 0…2·radius."""
    height, width = x.shape[:2]
    weights = np.exp(-0.5 * (np.arange(2 * radius + 1) / sigma) ** 2)
    weights = weights[weights > 1e-4 * weights.sum()]  # the rest changes no grey value
    reach = len(weights) - 1
    wide = cv2.copyMakeBorder(x, reach, reach, reach, reach, cv2.BORDER_REPLICATE)
    total = np.zeros_like(wide[reach : reach + height, reach : reach + width])
    for i, weight in enumerate(weights / weights.sum()):
        down, right = reach + round(i * np.sin(angle)), reach + round(i * np.cos(angle))
        cv2.scaleAdd(wide[down : down + height, right : right + width], weight, total, total)
    return total


def zoom(x: Image, constants: tuple[float, float], _rng: np.random.Generator) -> NDArray[Any]:
    """Blur by magnification: ``constants`` are its limit and step; factor 1 counts twice."""
    factors = np.arange(1, *constants)
    scene = x.astype(np.float32)
    total = scene.copy().reshape(np.squeeze(scene).shape)
    for factor in factors:
        total += magnify(scene, factor)
    return total / (len(factors) + 1)


def magnify(plane: NDArray[np.float32], factor: float) -> NDArray[Any]:
    """Magnify the middle of an image, with linear interpolation.

    As published, a whole number of pixels is cut out and enlarged to the nearest whole number, so
    the centre may move by half a pixel.
    """
    height, width = plane.shape[:2]
    move = np.zeros((2, 3))
    for axis, length in enumerate((width, height)):
        cut = int(np.ceil(length / factor))
        enlarged = round(cut * factor)
        move[axis, axis] = (cut - 1) / (enlarged - 1)
        move[axis, 2] = (length - cut) // 2 + (enlarged - length) // 2 * move[axis, axis]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(
        plane, move, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
