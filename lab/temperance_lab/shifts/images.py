"""Batches of images: their check, and the way from numbers back to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from temperance import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SMALLEST, CHANNELS = 8, (1, 3)
NOTHING = np.zeros(4)  # to add to the channels of an image


def check_images(images: ArrayLike) -> NDArray[np.uint8]:
    """Return ``images`` as a ``uint8`` array of shape (N, H, W, C), or raise `InputError`."""
    x = np.asarray(images)
    if x.dtype != np.uint8:
        msg = (
            f"images must have dtype uint8, values from 0 to 255. Got {x.dtype} instead; scale to "
            f"0…255 and convert with np.rint(images).astype(np.uint8)."
        )
        raise InputError(msg)
    if x.ndim == 3:
        x = x[..., np.newaxis]
    if x.ndim != 4 or x.shape[3] not in CHANNELS:
        msg = (
            f"images must have shape (N, H, W, C) with C = 1 or 3, or (N, H, W) if grey. Got shape "
            f"{np.shape(images)} instead; for one image pass image[np.newaxis], for channels first "
            f"images.transpose(0, 2, 3, 1)."
        )
        raise InputError(msg)
    if min(x.shape[1:3]) < SMALLEST:
        msg = (
            f"images must be at least {SMALLEST} pixels high and wide. Got shape "
            f"{np.shape(images)} instead."
        )
        raise InputError(msg)
    return x


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Round ``values`` to the nearest of 0…255.

    The published code truncates, which darkens every image by half a grey level.
    """
    if values.dtype == np.uint8:
        return values
    # Rounds, and stops at 0 and at 255.
    return cv2.add(values, NOTHING, dtype=cv2.CV_8U)  # pyright: ignore[reportReturnType]
