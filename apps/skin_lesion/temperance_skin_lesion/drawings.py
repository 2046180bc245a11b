"""Pictures drawn by code, for the demo and the tests: no patient, no licence.

They have the look of a dermatoscopic photograph (skin, a pigmented or reddish blot with an uneven
edge), close enough for the assistant to take them for one, and no diagnostic meaning whatsoever.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["lesion", "lesion_file"]

PIGMENTS = ((96, 58, 42), (60, 36, 30), (150, 98, 70), (176, 74, 78), (40, 32, 38), (190, 140, 110))


def lesion(rng: np.random.Generator, side: int = 256) -> NDArray[np.uint8]:
    """Draw one picture, uint8 ``(side, side, 3)``."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    skin = np.array([200, 150, 155]) + rng.normal(0, 12) + rng.normal(0, 5, 3)
    pigment = (
        np.array(PIGMENTS[rng.integers(len(PIGMENTS))]) + rng.normal(0, 10) + rng.normal(0, 4, 3)
    )
    angle = np.arctan2(y - rng.normal(0, 0.08), x - rng.normal(0, 0.08))
    waves = sum(
        rng.normal(0, 0.16 / m) * np.cos(m * angle + rng.uniform(0, 7)) for m in (1, 2, 3, 5)
    )
    edge = rng.uniform(0.3, 0.65) * (1 + waves)
    inside = 1 / (
        1 + np.exp((np.hypot(x, y * rng.uniform(0.8, 1.25)) - edge) / rng.uniform(0.06, 0.2))
    )
    clouds = gaussian_filter(rng.normal(size=(side, side)), side / rng.uniform(8, 24))
    inside = inside * np.clip(1 + 0.35 * clouds / clouds.std(), 0.2, 1.3)
    picture = skin + 0.7 * inside[..., None] * (pigment - skin)
    picture += 6 * gaussian_filter(rng.normal(size=(side, side)), side / 90)[..., None] * side / 30
    return np.clip(picture + rng.normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


def lesion_file(seed: int, side: int = 256) -> bytes:
    """Draw one picture and return it as a JPEG file, the same for the same seed."""
    buffer = BytesIO()
    Image.fromarray(lesion(np.random.default_rng(seed), side)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
