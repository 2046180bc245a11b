"""Snow, frost, fog and spatter.

D. Hendrycks and T. Dietterich, ICLR 2019.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance.shifts.blur import streak, zoom_matrix
from temperance.shifts.frost_texture import frost_panes
from temperance.shifts.planes import gaussian_matrix, separable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.shifts.draws import Draws

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


def luminance(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Grey value of every pixel, (n, H, W, 1)."""
    return x if x.shape[-1] == 1 else (x @ LUMA)[..., np.newaxis]


def snow(
    x: NDArray[np.uint8],
    constants: tuple[float, float, float, float, int, float, float],
    draws: Draws,
) -> NDArray[np.float32]:
    """Flakes are the peaks of magnified noise, streaked by the wind; the scene turns paler."""
    mean, spread, magnify, threshold, radius, sigma, keep = constants
    n, height, width, _ = x.shape
    flakes = np.float32(mean) + np.float32(spread) * draws.normal("flakes", (n, height, width))
    flakes = separable(flakes, [(zoom_matrix(height, magnify), zoom_matrix(width, magnify))])
    flakes[flakes < threshold] = 0
    np.clip(flakes, 0, 1, out=flakes)
    angle = np.pi / 2 * (draws.uniform("angle", (n,)) - 0.5) - np.pi / 2
    flakes = 255 * streak(flakes[..., np.newaxis], radius, sigma, angle.astype(np.float32))
    scene = x.astype(np.float32)
    pale = np.maximum(scene, 1.5 * luminance(scene) + 127.5)
    return keep * scene + (1 - keep) * pale + flakes + flakes[:, ::-1, ::-1]


def frost(
    x: NDArray[np.uint8], keep_and_ice: tuple[float, float], draws: Draws
) -> NDArray[np.float32]:
    """A frozen window pane before the scene: a·x + b·ice."""
    keep, ice = keep_and_ice
    n, height, width, channels = x.shape
    panes = frost_panes(0.2 if max(height, width) <= 64 else 1.0)
    which = (draws.uniform("pane", (n,)) * len(panes)).astype(np.intp)
    windows = np.lib.stride_tricks.sliding_window_view(panes, (height, width), (1, 2))
    windows = windows.transpose(0, 1, 2, 4, 5, 3)
    top = (draws.uniform("top", (n,)) * windows.shape[1]).astype(np.intp)
    left = (draws.uniform("left", (n,)) * windows.shape[2]).astype(np.intp)
    pane = windows[which, top, left].astype(np.float32)
    return keep * x + ice * (luminance(pane) if channels == 1 else pane)


def fog(
    x: NDArray[np.uint8], strength_and_decay: tuple[float, float], draws: Draws
) -> NDArray[np.float32]:
    """Plasma mist added to the scene, and the sum brought back to the scene's brightest value."""
    strength, decay = strength_and_decay
    n, height, width, _ = x.shape
    scene = x.astype(np.float32)
    brightest = scene.max(axis=(1, 2, 3), keepdims=True)
    mist = plasma(n, max(height, width), decay, draws)[:, :height, :width, np.newaxis]
    return (scene + 255 * strength * mist) * (brightest / (brightest + 255 * strength))


def plasma(n: int, side: int, decay: float, draws: Draws) -> NDArray[np.float32]:
    """Plasma fractals by diamonds and squares, in [0, 1], on the torus.

    From a coarse grid to a fine one: the centre of every square gets the mean of its corners, the
    middle of every edge the mean of its four neighbours, each plus noise of a size that falls
    by ``decay``² from one grid to the next.
    """
    size = 1 << max(side - 1, 31).bit_length()
    noise = 2 * draws.uniform("plasma", (n, size, size)) - 1
    height = np.zeros((n, size, size), np.float32)
    step, amplitude = size, 1.0
    while step >= 2:
        half = step // 2
        corners = height[:, ::step, ::step]
        centres = height[:, half::step, half::step]
        down = corners + np.roll(corners, -1, 1)
        centres[:] = (down + np.roll(down, -1, 2)) / 4
        centres += amplitude * noise[:, half::step, half::step]
        across = centres + np.roll(centres, 1, 1) + corners + np.roll(corners, -1, 2)
        height[:, ::step, half::step] = across / 4 + amplitude * noise[:, ::step, half::step]
        along = centres + np.roll(centres, 1, 2) + down
        height[:, half::step, ::step] = along / 4 + amplitude * noise[:, half::step, ::step]
        step, amplitude = half, amplitude / decay**2
    height -= height.min(axis=(1, 2), keepdims=True)
    return height / height.max(axis=(1, 2), keepdims=True)


def spatter(
    x: NDArray[np.uint8],
    constants: tuple[float, float, float, float, float, int],
    draws: Draws,
) -> NDArray[np.float32]:
    """Drops on the lens: smooth noise above a threshold, clear water or (``mud``) brown."""
    mean, spread, sigma, threshold, strength, mud = constants
    n, height, width, channels = x.shape
    noise = np.float32(mean) + np.float32(spread) * draws.normal("liquid", (n, height, width))
    liquid = separable(noise, _smooth(height, width, sigma))
    liquid[liquid < threshold] = 0
    scene = x.astype(np.float32)
    if mud:
        cover = separable((liquid > 0).astype(np.float32), _smooth(height, width, strength))
        cover[cover < 0.8] = 0
        colour = np.array([63, 42, 20], np.float32)
    else:
        cover = np.float32(strength) * _relief(liquid)
        colour = np.array([175, 238, 238], np.float32)
    if channels == 1:
        colour = np.atleast_1d(colour @ LUMA)
    cover = cover[..., np.newaxis]
    return scene * (1 - mud * cover) + cover * colour


def _relief(liquid: NDArray[np.float32]) -> NDArray[np.float32]:
    """Light on the drops: where the surface rises from the upper left, relative to the brightest."""
    return liquid / np.maximum(liquid.max(axis=(1, 2), keepdims=True), 1e-6)


@lru_cache
def _smooth(
    height: int, width: int, sigma: float
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    return [(gaussian_matrix(height, sigma, "nearest"), gaussian_matrix(width, sigma, "nearest"))]
