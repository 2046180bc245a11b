"""Snow, frost, fog and spatter.

D. Hendrycks and T. Dietterich, ICLR 2019. With ``x`` the scene and everything in [0, 1]:

    snow     s x + (1 - s) max(x, 1.5 grey(x) + .5) + flakes + the same flakes turned by 180°
    frost    a x + b ice
    fog      (x + c mist) max(x) / (max(x) + c), the mist a plasma fractal
    spatter  x + water, or mud over x
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from temperance_lab.shifts.blur import magnify, smooth, streak
from temperance_lab.shifts.ice import frozen_panes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.registry import Image

SMALL = 64  # pixels: the longer side up to which images get the constants of CIFAR-10-C
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601
WATER = np.array([175, 238, 238], np.float32)  # pale turquoise
MUD = np.array([63, 42, 20], np.float32)
# Slope down the diagonal, by which drops of water are lit.
SLOPE = np.array([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], np.float32)


def snow(
    x: Image,
    constants: tuple[float, float, float, float, int, float, float],
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Let snow fall: flakes are peaks of magnified noise, streaked by the wind; the scene pales."""
    mean, deviation, factor, threshold, radius, sigma, keep = constants
    angle = np.pi / 2 * (rng.random() - 1.5)  # down, within 45°
    flakes = mean + deviation * rng.standard_normal(x.shape[:2], np.float32)
    flakes = magnify(flakes, factor)
    flakes = np.clip(flakes, 0, 1) * (flakes >= threshold)
    flakes = 255 * streak(flakes, radius, sigma, angle)
    scene = x.astype(np.float32)
    grey = scene @ LUMA if x.shape[2] == 3 else scene[..., 0]
    pale = np.maximum(scene, (1.5 * grey + 127.5)[..., np.newaxis])
    fallen = flakes + flakes[::-1, ::-1]
    return keep * scene + (1 - keep) * pale + fallen[..., np.newaxis]


def frost(x: Image, constants: tuple[float, float], rng: np.random.Generator) -> NDArray[Any]:
    """See through a frozen pane: ``constants`` are the shares of the scene and of the ice.

    The published code cuts the ice out of five photographs; here it is grown from noise.
    """
    height, width, channels = x.shape
    panes = _panes(height, width, channels)
    which = rng.integers(len(panes))
    top, left = rng.integers((panes.shape[1] - height + 1, panes.shape[2] - width + 1))
    ice = panes[which, top : top + height, left : left + width]
    return cv2.addWeighted(x, constants[0], ice, constants[1], 0)


@lru_cache
def _panes(height: int, width: int, channels: int) -> NDArray[Any]:
    """Return the frozen panes, repeated so that an image can be cut out at every place."""
    # The published photographs are shrunk to a fifth for small images.
    panes = frozen_panes(128, 4.0) if max(height, width) <= SMALL else frozen_panes(384, 24.0)
    if channels == 1:
        panes = np.rint(panes @ LUMA).astype(np.uint8)[..., np.newaxis]
    return np.pad(panes, ((0, 0), (0, height - 1), (0, width - 1), (0, 0)), mode="wrap")


def fog(x: Image, constants: tuple[float, float], rng: np.random.Generator) -> NDArray[Any]:
    """Add mist: ``constants`` are its strength and the decay of its detail."""
    strength, decay = constants
    height, width, _ = x.shape
    white = np.float32(x.max())
    mist = plasma(plasma_size(height, width), decay, rng)[:height, :width, np.newaxis]
    return (x + 255 * strength * mist) * (white / (white + 255 * strength))


def plasma(size: int, decay: float, rng: np.random.Generator) -> NDArray[Any]:
    """Grow a plasma fractal (size, size) in [0, 1] by diamonds and squares; a power of 2.

    From a coarse grid (a torus) to a fine one, the centre of every square gets the mean of its
    corners and the middle of every edge the mean of its four neighbours, each plus noise of a
    size that falls by ``decay``² from one grid to the next.
    """
    noise = rng.random(size * size, np.float32) * 2 - 1
    grid = np.zeros((1, 1), np.float32)
    amplitude = 1.0
    while (m := len(grid)) < size:
        wobble = np.float32(amplitude) * noise[m * m : 4 * m * m].reshape(3, m, m)
        below, right = np.vstack([grid[1:], grid[:1]]), np.hstack([grid[:, 1:], grid[:, :1]])
        sides = grid + below
        centres = (sides + np.hstack([sides[:, 1:], sides[:, :1]])) / 4 + wobble[0]
        above, left = (
            np.vstack([centres[-1:], centres[:-1]]),
            np.hstack([centres[:, -1:], centres[:, :-1]]),
        )
        finer = np.empty((2 * m, 2 * m), np.float32)
        finer[::2, ::2] = grid
        finer[::2, 1::2] = (grid + right + centres + above) / 4 + wobble[1]
        finer[1::2, ::2] = (sides + centres + left) / 4 + wobble[2]
        finer[1::2, 1::2] = centres
        grid, amplitude = finer, amplitude / decay**2
    grid -= grid.min()
    return grid / grid.max()


def plasma_size(height: int, width: int) -> int:
    """Return the power of 2, at least 32, that covers an image."""
    return 1 << max(height - 1, width - 1, 31).bit_length()


def spatter(
    x: Image,
    constants: tuple[float, float, float, float, float, bool],
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Let drops fall on the lens: smooth noise above a threshold, clear water or brown mud."""
    mean, deviation, sigma, threshold, strength, muddy = constants
    liquid = smooth(mean + deviation * rng.standard_normal(x.shape[:2], np.float32), sigma)
    liquid *= liquid >= threshold
    scene = x.astype(np.float32)
    if muddy:
        cover = smooth(liquid > 0, strength)
        cover *= cover >= 0.8
        scene *= (1 - cover)[..., np.newaxis]
    else:
        cover = strength * _shine(liquid)
    colour = MUD if muddy else WATER
    return scene + cover[..., np.newaxis] * (colour if x.shape[2] == 3 else colour @ LUMA)


def _shine(liquid: NDArray[np.float32]) -> NDArray[Any]:
    """Light water from the upper left, so that slopes shine; the brightest spot is 1.

    The published code shades a distance transform of the drops' edges, this one their surface.
    """
    slope = np.maximum(cv2.filter2D(liquid, -1, SLOPE), 0)
    light = liquid * cv2.blur(slope, (3, 3))
    return light / max(float(light.max()), 1e-6)
