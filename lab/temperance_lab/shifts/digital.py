"""Brightness, contrast, saturation, JPEG and pixelation.

D. Hendrycks and T. Dietterich, ICLR 2019. Brightness and saturation change the value and the
saturation of a colour in the space of hue, saturation and value.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from PIL import Image as Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.registry import Image


def brightness(x: Image, amount: float, _rng: np.random.Generator) -> NDArray[Any]:
    """Raise the value: V' = min(V + c, 1)."""
    scene = x.astype(np.float32) / 255
    if x.shape[2] == 1:
        return 255 * (scene + np.float32(amount))
    hsv = cv2.cvtColor(scene, cv2.COLOR_RGB2HSV)
    hsv[..., 2] = np.minimum(hsv[..., 2] + amount, 1)
    return 255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def saturate(x: Image, constants: tuple[float, float], _rng: np.random.Generator) -> NDArray[Any]:
    """Change the saturation: S' = clip(a S + b, 0, 1), ``constants`` (a, b).

    A grey pixel has no hue and turns red where b > 0, as in the usual conversion. Grey images
    (C = 1) have no saturation and stay as they are.
    """
    if x.shape[2] == 1:
        return x
    scale, shift = constants
    hsv = cv2.cvtColor(x.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    hsv[..., 1] = np.clip(scale * hsv[..., 1] + shift, 0, 1)
    return 255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def contrast(x: Image, factor: float, _rng: np.random.Generator) -> NDArray[Any]:
    """Shrink towards the mean colour of the image."""
    mean = np.float32((1 - factor) * np.array(cv2.mean(x)[: x.shape[2]]))
    return np.float32(factor) * x + mean


def jpeg(x: Image, quality: int, _rng: np.random.Generator) -> Image:
    """Write the image as JPEG of ``quality`` (1 to 100) and read it again."""
    file = io.BytesIO()
    Picture.fromarray(np.squeeze(x)).save(file, "JPEG", quality=quality)
    return np.asarray(Picture.open(file))


def pixelate(x: Image, factor: float, _rng: np.random.Generator) -> Image:
    """Shrink to ``factor`` of the size by means over cells, and show the cells at full size."""
    height, width, _ = x.shape
    picture = Picture.fromarray(np.squeeze(x))
    cells = picture.resize((int(width * factor), int(height * factor)), Picture.Resampling.BOX)
    return np.asarray(cells.resize((width, height), Picture.Resampling.BOX))
