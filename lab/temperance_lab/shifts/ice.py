"""Frozen window panes, made from noise.

The published frost is cut out of photographs. These panes have their colours and contrasts, and
like them crystals large and small: a crystal has a direction, and within it the ice is noise drawn
out along that direction, in needles. Everything is filtered on the torus, so panes can be tiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import irfft2, rfft2

if TYPE_CHECKING:
    from numpy.typing import NDArray

PANES = (  # mean colour, standard deviation
    ((78, 149, 166), 18),
    ((201, 205, 214), 22),
    ((190, 196, 206), 24),
    ((138, 153, 165), 29),
    ((112, 123, 135), 42),
)
DIRECTIONS = np.pi * np.arange(9) / 9


@lru_cache
def frozen_panes(size: int, crystal: float) -> NDArray[np.uint8]:
    """Five panes (5, size, size, 3) with crystals of about ``crystal`` pixels, and of a quarter."""
    rng = np.random.default_rng(2019)
    panes = []
    for colour, contrast in PANES:
        ice = (
            _crystals(rng, size, crystal)
            + _crystals(rng, size, crystal / 4)
            + _drawn_out(rng, size, 2 * crystal, 2 * crystal, 0.0)
        )
        panes.append(np.array(colour) + contrast / ice.std() * ice[..., np.newaxis])
    return np.rint(np.clip(panes, 0, 255)).astype(np.uint8)


def _crystals(rng: np.random.Generator, size: int, length: float) -> NDArray[np.floating]:
    """Needles of the direction whose own noise is the strongest at each place."""
    shape = (len(DIRECTIONS), size, size)
    claims, needles = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for claim, needle, angle in zip(claims, needles, DIRECTIONS, strict=True):
        claim[:] = _drawn_out(rng, size, length, length / 3, angle)
        needle[:] = _drawn_out(rng, size, length, length / 14, angle)
    owner = claims.argmax(axis=0)[np.newaxis]
    ice = np.take_along_axis(needles, owner, axis=0)[0] + claims.max(axis=0) / 2
    ice -= ice.mean()
    return ice / ice.std()


def _drawn_out(
    rng: np.random.Generator, size: int, along: float, across: float, angle: float
) -> NDArray[np.floating]:
    """White noise through a Gaussian filter of two widths at an angle, with variance 1."""
    down, right = np.fft.fftfreq(size)[:, np.newaxis], np.fft.rfftfreq(size)
    u = np.cos(angle) * right + np.sin(angle) * down
    v = np.cos(angle) * down - np.sin(angle) * right
    gain = np.exp(-2 * np.pi**2 * ((along * u) ** 2 + (across * v) ** 2)).astype(np.float32)
    gain[0, 0] = 0  # no mean
    noise = rng.standard_normal((size, size), dtype=np.float32)
    field = irfft2(rfft2(noise) * gain, (size, size))
    return field / field.std()
