"""Frozen window panes, grown from noise."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LUMA = np.array([0.299, 0.587, 0.114])
# Colour and contrast of the panes, near those of the published photographs.
TONES = (
    ((78, 149, 166), 19),
    ((201, 205, 214), 22),
    ((190, 196, 206), 24),
    ((138, 153, 165), 29),
    ((112, 123, 135), 43),
)


@lru_cache
def frozen_panes(*, small: bool, channels: int) -> NDArray[np.uint8]:
    """Panes (5, S, S, C) that can be tiled.

    A pane is broken into crystals. Each has a direction; within it the ice is noise drawn out
    along that direction: needles and feathers.
    """
    rng = np.random.default_rng(2019)
    size, needle, crystal = (128, 4.0, 7.0) if small else (512, 20.0, 28.0)
    directions = 10
    down, right = np.fft.fftfreq(size)[:, np.newaxis], np.fft.rfftfreq(size)

    def filtered(weight: NDArray[np.float64]) -> NDArray[np.float64]:
        field = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(size, size))) * weight, (size, size))
        return field / field.std()

    def gauss(along: float, across: float, angle: float) -> NDArray[np.float64]:
        u = np.cos(angle) * right + np.sin(angle) * down
        v = np.cos(angle) * down - np.sin(angle) * right
        return np.exp(-2 * np.pi**2 * ((along * u) ** 2 + (across * v) ** 2))

    panes = []
    for tone, contrast in TONES:
        angles = np.pi * np.arange(directions) / directions
        needles = np.array([filtered(gauss(needle, needle / 12, angle)) for angle in angles])
        claims = np.array([filtered(gauss(crystal, crystal / 3, angle)) for angle in angles])
        owner = claims.argmax(axis=0)
        ice = np.take_along_axis(needles, owner[np.newaxis], axis=0)[0]
        ice = ice + 0.6 * filtered(gauss(crystal, crystal, 0.0)) + 0.5 * claims.max(axis=0)
        ice = (ice - ice.mean()) / ice.std()
        panes.append(np.array(tone) + contrast * ice[..., np.newaxis])
    panes = np.clip(np.array(panes), 0, 255)
    if channels == 1:
        panes = (panes @ LUMA)[..., np.newaxis]
    return np.rint(panes).astype(np.uint8)
