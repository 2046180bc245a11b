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
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.shifts.images import from_planes, to_planes
from temperance_lab.shifts.planes import (
    PlaneFilter,
    filter_matrix,
    gaussian_kernel,
    gaussian_matrix,
    interpolation_matrix,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.draws import Draws
    from temperance_lab.shifts.planes import Matrix


def gaussian(x: NDArray[np.uint8], sigma: float, _draws: Draws) -> NDArray[np.uint8]:
    """Blur by a Gaussian of standard deviation ``sigma`` pixels."""
    return from_planes(gaussian_filter(*x.shape[1:3], sigma)(to_planes(x)))


@lru_cache
def gaussian_filter(height: int, width: int, sigma: float) -> PlaneFilter:
    """Gaussian filter of planes whose last pixels are repeated beyond the border."""
    down, across = (gaussian_matrix(side, sigma, "nearest") for side in (height, width))
    return PlaneFilter((down, across))


def defocus(
    x: NDArray[np.uint8], constants: tuple[float, float], _draws: Draws
) -> NDArray[np.uint8]:
    """Blur by a disc: ``constants`` are its radius and the width of its smoothed rim."""
    return from_planes(_disc_filter(*x.shape[1:3], *constants)(to_planes(x)))


@lru_cache
def _disc_filter(height: int, width: int, radius: float, rim: float) -> PlaneFilter:
    """Sum a disc chord by chord: those of one length are one term."""
    down = np.arange(-int(radius), int(radius) + 1)
    half = np.sqrt(radius**2 - down**2).astype(int)
    pixels = (2 * half + 1).sum()
    smooth = gaussian_kernel(rim, 2 if radius > 8 else 1)

    def matrix(length: int, kernel: NDArray[np.floating]) -> Matrix:
        return filter_matrix(length, np.convolve(kernel, smooth), "mirror")

    return PlaneFilter(
        *(
            (matrix(height, (half == length) / pixels), matrix(width, np.ones(2 * length + 1)))
            for length in np.unique(half)
        )
    )


def glass(
    x: NDArray[np.uint8], constants: tuple[float, int, int], draws: Draws
) -> NDArray[np.uint8]:
    """Blur, scatter and blur: ``constants`` are σ, the reach of the scatter and its rounds.

    A pixel takes the colour of one up to ``reach`` pixels above or left of it, or ``reach - 1``
    below or right; a frame stays. Both are as published, where the loop that means to swap pixels
    in fact copies them, one after the other (with a reach of 1 the order does not matter).
    """
    sigma, reach, rounds = constants
    n, height, width, channels = x.shape
    x = gaussian(x, sigma, draws)
    pixels = x.reshape(-1, channels)
    down = np.arange(reach + 1, height - reach + 1)
    right = np.arange(reach + 1, width - reach + 1)
    place = (np.arange(n)[:, np.newaxis] * height + down)[:, :, np.newaxis] * width + right
    for turn in range(rounds):
        step = draws.bits(f"round {turn}", (*place.shape, 2)) % np.uint16(2 * reach)
        origin = place - reach * (width + 1)
        origin += step[..., 0] * np.intp(width)
        origin += step[..., 1]
        x[:, reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = pixels[origin]
    return gaussian(x, sigma, draws)


def motion(
    x: NDArray[np.uint8], constants: tuple[int, float], draws: Draws
) -> NDArray[np.floating]:
    """Blur along a line: ``constants`` are the radius r and σ."""
    angle = np.pi / 2 * (draws.uniform("angle", (len(x),)) - 0.5)
    return streak(x, *constants, angle)


def streak(
    x: NDArray[np.generic], radius: int, sigma: float, angle: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Σ w_i x(p + i·(sin, cos)) with w_i ∝ exp(-i²/2σ²), i = 0…2·radius; one angle per image."""
    n, height, width, _ = x.shape
    steps, weights = streak_weights(radius, sigma)
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


@lru_cache
def streak_weights(radius: int, sigma: float) -> tuple[NDArray[np.intp], NDArray[np.floating]]:
    """Steps 0, 1, … along a streak and their weights."""
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    steps = steps[weights > 1e-4 * weights.sum()]  # fewer steps: the rest moves no grey value
    return steps, (weights[steps] / weights[steps].sum()).astype(np.float32)


def zoom(x: NDArray[np.uint8], constants: tuple[float, float], _draws: Draws) -> NDArray[np.uint8]:
    """Blur by magnification: ``constants`` are its limit and step."""
    return from_planes(_zoom_filter(*x.shape[1:3], *constants)(to_planes(x)))


@lru_cache
def _zoom_filter(height: int, width: int, limit: float, step: float) -> PlaneFilter:
    factors = zoom_factors(limit, step)
    share = np.float32(1 / len(factors))
    return PlaneFilter(*((share * zoom_matrix(height, f), zoom_matrix(width, f)) for f in factors))


def zoom_factors(limit: float, step: float) -> list[float]:
    """Return the magnifications whose mean is shown; the image itself is there twice."""
    return [1.0, *np.arange(1, limit, step)]


def zoom_matrix(length: int, factor: float) -> Matrix:
    """Matrix that magnifies the middle of a line of pixels."""
    return interpolation_matrix(length, zoom_positions(length, factor))


def zoom_positions(length: int, factor: float) -> NDArray[np.floating]:
    """Where the pixels of a line come from when its middle is magnified.

    As published, a whole number of pixels is cut out and blown up to the nearest whole number, so
    the centre may move by half a pixel.
    """
    cut = int(np.ceil(length / factor))
    blown = round(cut * factor)
    shown = np.arange(length) + (blown - length) // 2
    places = (length - cut) // 2 + shown * (cut - 1) / (blown - 1)
    return np.clip(places, 0, length - 1)
