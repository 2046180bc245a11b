"""Snow, frost, fog and spatter.

D. Hendrycks and T. Dietterich, ICLR 2019. With ``x`` the scene and everything in [0, 1]:

    snow     s x + (1 - s) max(x, 1.5 grey(x) + .5) + flakes + the same flakes turned by 180°
    frost    a x + b ice
    fog      (x + c mist) max(x) / (max(x) + c), the mist a plasma fractal
    spatter  x + water, or mud over x
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.shifts.blur import gaussian_filter, streak, zoom_matrix
from temperance_lab.shifts.ice import frozen_panes
from temperance_lab.shifts.images import SMALL, from_planes, to_planes
from temperance_lab.shifts.planes import PlaneFilter, filter_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.draws import Draws

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601
WATER = np.array([175, 238, 238], np.float32)  # pale turquoise
MUD = np.array([63, 42, 20], np.float32)


def snow(
    x: NDArray[np.uint8],
    constants: tuple[float, float, float, float, int, float, float],
    draws: Draws,
) -> NDArray[np.uint8]:
    """Let it snow: flakes are peaks of magnified noise, streaked by the wind; the scene pales."""
    mean, spread, magnify, threshold, radius, sigma, keep = constants
    n, height, width, _ = x.shape
    flakes = np.float32(mean) + np.float32(spread) * draws.normal("flakes", (n, height, width))
    flakes = _magnifier(height, width, magnify)(flakes)
    flakes = np.clip(flakes, 0, 1) * (flakes >= threshold)
    angle = np.pi / 2 * (draws.uniform("angle", (n,)) - 1.5)  # down, within 45°
    flakes = 255 * streak(flakes[..., np.newaxis], radius, sigma, angle)[..., 0]
    scene = to_planes(x)
    pale = np.maximum(scene, np.float32(1.5) * _grey(scene) + np.float32(127.5))
    fallen = flakes + flakes[:, ::-1, ::-1]
    snowy = np.float32(keep) * scene + np.float32(1 - keep) * pale + fallen
    return from_planes(np.minimum(snowy, 255))


@lru_cache
def _magnifier(height: int, width: int, factor: float) -> PlaneFilter:
    return PlaneFilter((zoom_matrix(height, factor), zoom_matrix(width, factor)))


def _grey(planes: NDArray[np.floating]) -> NDArray[np.floating]:
    """Luminance, (n, H, W)."""
    if len(planes) == 1:
        return planes[0]
    red, green, blue = planes
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def frost(
    x: NDArray[np.uint8], constants: tuple[float, float], draws: Draws
) -> NDArray[np.floating]:
    """See through a frozen pane: ``constants`` are the shares of the scene and of the ice.

    The published code cuts the ice out of five photographs; here it is grown from noise.
    """
    keep, ice = (np.float32(c) for c in constants)
    n, height, width, channels = x.shape
    windows = _windows(height, width, channels)
    which = (draws.uniform("pane", (n,)) * len(windows)).astype(np.intp)
    top, left = (draws.uniform("place", (n, 2)) * windows.shape[1]).astype(np.intp).T
    frosted = ice * windows[which, top, left]
    frosted += keep * x
    return frosted


@lru_cache
def _windows(height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """Views of every cutting (pane, top, left, H, W, C) of the frozen panes."""
    # The published photographs are shrunk to a fifth for small images.
    panes = frozen_panes(128, 4.0) if max(height, width) <= SMALL else frozen_panes(384, 24.0)
    if channels == 1:
        panes = np.rint(panes @ LUMA).astype(np.uint8)[..., np.newaxis]
    panes = np.pad(panes, ((0, 0), (0, height - 1), (0, width - 1), (0, 0)), mode="wrap")
    windows = np.lib.stride_tricks.sliding_window_view(panes, (height, width), (1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3)


def fog(x: NDArray[np.uint8], constants: tuple[float, float], draws: Draws) -> NDArray[np.uint8]:
    """Add mist: ``constants`` are its strength and the decay of its detail."""
    strength, decay = constants
    n, height, width, _ = x.shape
    planes = to_planes(x)
    white = planes.max(axis=0).max(axis=(1, 2), keepdims=True)
    mist = plasma(n, plasma_size(height, width), decay, draws)[:, :height, :width]
    planes += np.float32(255 * strength) * mist
    planes *= white / (white + np.float32(255 * strength))
    return from_planes(planes)


def plasma(n: int, size: int, decay: float, draws: Draws) -> NDArray[np.floating]:
    """Grow plasma fractals (n, size, size) in [0, 1] by diamonds and squares; a power of 2.

    From a coarse grid (a torus) to a fine one, the centre of every square gets the mean of its
    corners and the middle of every edge the mean of its four neighbours, each plus noise of a
    size that falls by ``decay``² from one grid to the next.
    """
    noise = draws.spread("plasma", (n, size * size))
    grid = np.zeros((n, 1, 1), np.float32)
    amplitude = np.float32(1)
    while (m := grid.shape[1]) < size:
        wobble = amplitude * noise[:, m * m : 4 * m * m].reshape(n, 3, m, m)
        sides = grid + np.roll(grid, -1, axis=1)
        centres = (sides + np.roll(sides, -1, axis=2)) / 4 + wobble[:, 0]
        tops = grid + np.roll(grid, -1, axis=2) + centres + np.roll(centres, 1, axis=1)
        sides += centres + np.roll(centres, 1, axis=2)
        finer = np.empty((n, 2 * m, 2 * m), np.float32)
        finer[:, ::2, ::2] = grid
        finer[:, ::2, 1::2] = tops / 4 + wobble[:, 1]
        finer[:, 1::2, ::2] = sides / 4 + wobble[:, 2]
        finer[:, 1::2, 1::2] = centres
        grid, amplitude = finer, amplitude / np.float32(decay**2)
    grid -= grid.min(axis=(1, 2), keepdims=True)
    grid /= grid.max(axis=(1, 2), keepdims=True)
    return grid


def plasma_size(height: int, width: int) -> int:
    """Return the power of 2, at least 32, that covers an image."""
    return 1 << max(height - 1, width - 1, 31).bit_length()


def spatter(
    x: NDArray[np.uint8],
    constants: tuple[float, float, float, float, float, bool],
    draws: Draws,
) -> NDArray[np.uint8]:
    """Let drops fall on the lens: smooth noise above a threshold, clear water or brown mud."""
    mean, spread, sigma, threshold, strength, muddy = constants
    n, height, width, _ = x.shape
    liquid = np.float32(mean) + np.float32(spread) * draws.normal("liquid", (n, height, width))
    liquid = gaussian_filter(height, width, sigma)(liquid)
    liquid *= liquid >= threshold
    planes = to_planes(x)
    if muddy:
        cover = (liquid > 0).astype(np.float32)
        cover = gaussian_filter(height, width, strength)(cover)
        cover *= cover >= 0.8
        planes *= 1 - cover
    else:
        cover = np.float32(strength) * _shine(liquid)
    colour = MUD if muddy else WATER
    for channel, value in enumerate(colour if len(planes) == 3 else [colour @ LUMA]):
        planes[channel] += value * cover
    return from_planes(np.minimum(planes, 255))


def _shine(liquid: NDArray[np.floating]) -> NDArray[np.floating]:
    """Light water from the upper left, so that slopes shine; the brightest spot is 1.

    The published code shades a distance transform of the drops' edges; this shades their surface.
    """
    slope, soften = _shading(*liquid.shape[1:])
    light = liquid * soften(np.maximum(slope(liquid), 0))
    return light / np.maximum(light.max(axis=(1, 2), keepdims=True), np.float32(1e-6))


@lru_cache
def _shading(height: int, width: int) -> tuple[PlaneFilter, PlaneFilter]:
    """Slope down the diagonal, weights (-2 -1 0; -1 0 1; 0 1 2), and a mean of 3 × 3 pixels."""
    ones, rise = np.ones(3), np.array([-1.0, 0.0, 1.0])
    flat, steep = (
        (filter_matrix(height, kernel, "mirror"), filter_matrix(width, kernel, "mirror"))
        for kernel in (ones, rise)
    )
    slope = PlaneFilter((steep[0], flat[1]), (flat[0], steep[1]))
    return slope, PlaneFilter((flat[0] / np.float32(9), flat[1]))
