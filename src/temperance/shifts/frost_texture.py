"""Window panes with frost, made from noise: the published corruption needs photographs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@lru_cache
def frost_panes(scale: float) -> NDArray[np.uint8]:
    """Five panes, (5, S, S, 3)."""
    rng = np.random.default_rng(2019)
    size = 256 if scale < 1 else 512
    fy, fx = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)
    radius = np.hypot(fy, fx)
    radius[0, 0] = 1
    out = []
    for tone in (
        (78, 149, 166),
        (201, 205, 214),
        (201, 205, 214),
        (138, 153, 165),
        (112, 123, 135),
    ):
        field = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(size, size))) / radius**0.8)
        field = field / field.std()
        out.append(np.clip(np.array(tone) + 25 * field[..., None], 0, 255))
    return np.rint(np.array(out)).astype(np.uint8)
