"""Five blurs: Gaussian, out of focus, frosted glass, motion and zoom.

D. Hendrycks and T. Dietterich, ICLR 2019. All average neighbouring pixels with weights that sum to 1,
so a constant image stays as it is.

    gaussian  Gaussian weights of width σ
    defocus   a disc of the given radius, its rim smoothed by a small Gaussian
    glass     Gaussian, then every pixel takes the colour of a random neighbour, then Gaussian
    motion    weights exp(-i²/2σ²), i = 0…2r, along a random direction within 45° of the rows
    zoom      mean of the image and of its magnifications by 1, 1 + s, 1 + 2s, … below the given one
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance.shifts.images import from_planes, to_bytes, to_planes
from temperance.shifts.planes import (
    filter_matrix,
    gaussian_kernel,
    gaussian_matrix,
    interpolation_matrix,
    separable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.shifts.draws import Draws

    Terms = list[tuple[NDArray[np.float32], NDArray[np.float32]]]


def gaussian(x: NDArray[np.uint8], sigma: float, _draws: Draws) -> NDArray[np.uint8]:
    """Gaussian weights of standard deviation ``sigma`` pixels."""
    return from_planes(separable(to_planes(x), _gaussian_terms(*x.shape[1:3], sigma)))


@lru_cache
def _gaussian_terms(height: int, width: int, sigma: float) -> Terms:
    return [(gaussian_matrix(height, sigma, "nearest"), gaussian_matrix(width, sigma, "nearest"))]


def defocus(
    x: NDArray[np.uint8], radius_and_rim: tuple[float, float], _draws: Draws
) -> NDArray[np.uint8]:
    """A disc of radius ``radius``, antialiased by a Gaussian of width ``rim``."""
    return from_planes(separable(to_planes(x), _disc_terms(*x.shape[1:3], *radius_and_rim)))


@lru_cache
def _disc_terms(height: int, width: int, radius: float, rim: float) -> Terms:
    """Write the disc K as Σ λ v vᵀ (it is symmetric), so that K * X = Σ λ V_h X V_wᵀ."""
    reach = 2 if radius > 8 else 1  # of the antialiasing filter, as published: 3 or 5 taps
    i = np.arange(-int(radius) - reach, int(radius) + reach + 1)
    disc = (i[:, np.newaxis] ** 2 + i**2 <= radius**2) / 1.0
    smooth = filter_matrix(len(i), gaussian_kernel(rim, reach), "nearest").astype(np.float64)
    weights, vectors = np.linalg.eigh(smooth @ (disc / disc.sum()) @ smooth.T)
    return [
        (
            (weight * filter_matrix(height, vector, "mirror")).astype(np.float32),
            filter_matrix(width, vector, "mirror"),
        )
        for weight, vector in zip(weights, vectors.T, strict=True)
        if abs(weight) > 1e-7
    ]


def glass(
    x: NDArray[np.uint8], constants: tuple[float, int, int], draws: Draws
) -> NDArray[np.uint8]:
    """Gaussian blur, ``times`` rounds of taking a neighbour's colour, Gaussian blur.

    A neighbour is up to ``reach`` pixels up or left and ``reach - 1`` down or right; the pixels
    within ``reach`` of the border stay, both as published. The published loop means to swap pixels
    but, through views of one array, copies them: at reach 1 that is what happens here.
    """
    sigma, reach, times = constants
    n, height, width, channels = x.shape
    blurred = np.ascontiguousarray(gaussian(x, sigma, draws))
    pixels = blurred.reshape(-1, channels)
    inner = (n, height - 2 * reach, width - 2 * reach)
    rows = np.arange(reach + 1, height - reach + 1)
    here = (
        np.arange(n)[:, np.newaxis, np.newaxis] * height * width
        + rows[:, np.newaxis] * width
        + np.arange(reach + 1, width - reach + 1)
    ).astype(np.int32)
    for turn in range(times):
        step = draws.bits(f"step {turn}", (*inner, 2)).astype(np.int32) * (2 * reach) >> 16
        step -= reach
        taken = pixels[here + step[..., 0] * width + step[..., 1]]
        inside = slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1)
        blurred[:, *inside] = taken
    return gaussian(blurred, sigma, draws)


def motion(
    x: NDArray[np.uint8], radius_and_sigma: tuple[int, float], draws: Draws
) -> NDArray[np.float32]:
    """Half a Gaussian along a direction drawn between -45° and 45° for every image."""
    angle = np.pi / 2 * (draws.uniform("angle", (len(x),)) - 0.5)
    return streak(x, *radius_and_sigma, angle)


def streak(
    x: NDArray[np.generic], radius: int, sigma: float, angle: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Σ_i w_i x(p + i·(cos, sin)), w_i ∝ exp(-i²/2σ²), i = 0…2·radius, ``angle`` per image."""
    n, height, width, _ = x.shape
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    steps = steps[weights > 1e-4 * weights.sum()]  # the rest cannot move a grey value
    weights = (weights[steps] / weights[steps].sum()).astype(np.float32)
    reach = int(steps[-1])
    padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), (1, 2))
    windows = windows.transpose(0, 1, 2, 4, 5, 3)
    image = np.arange(n)
    total = np.zeros(x.shape, np.float32)
    for i, weight in zip(steps, weights, strict=True):
        down = reach + np.rint(i * np.sin(angle)).astype(np.intp)
        right = reach + np.rint(i * np.cos(angle)).astype(np.intp)
        total += windows[image, down, right] * weight
    return total


def zoom(
    x: NDArray[np.uint8], limit_and_step: tuple[float, float], _draws: Draws
) -> NDArray[np.uint8]:
    """Mean of the image and of its magnifications about the centre."""
    return from_planes(separable(to_planes(x), _zoom_terms(*x.shape[1:3], *limit_and_step)))


@lru_cache
def _zoom_terms(height: int, width: int, limit: float, step: float) -> Terms:
    factors = [1.0, *np.arange(1, limit - 1e-9, step)]
    return [
        (zoom_matrix(height, factor) / np.float32(len(factors)), zoom_matrix(width, factor))
        for factor in factors
    ]


def zoom_matrix(length: int, factor: float) -> NDArray[np.float32]:
    """Matrix that magnifies a line of pixels about its centre."""
    centre = (length - 1) / 2
    return interpolation_matrix(length, centre + (np.arange(length) - centre) / factor, "nearest")
