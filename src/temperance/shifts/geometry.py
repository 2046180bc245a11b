"""Rotation and rolling, the shifts of the paper's MNIST experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from temperance._checks import InputError, check_number
from temperance.shifts.images import check_images, in_chunks
from temperance.shifts.planes import fold

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def rotate(images: ArrayLike, degrees: float) -> NDArray[np.uint8]:
    """Turn images counter-clockwise about their centre, on black, with bilinear interpolation.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, C) or (N, H, W)
        Grey (C = 1) or colour (C = 3) images.
    degrees : float
        Angle. Multiples of 90 are exact: 90 equals ``np.rot90`` on square images.

    Returns
    -------
    array of uint8
        Same shape as ``images``; what comes from outside the image is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance import shifts
    >>> digit = np.zeros((1, 28, 28), np.uint8)
    >>> digit[0, 4:24, 13:15] = 255
    >>> bool((shifts.rotate(digit, 90)[0] == np.rot90(digit[0])).all())
    True
    """
    x = check_images(images)
    angle = check_number(degrees, "degrees") % 360
    height, width = x.shape[1:3]
    turn = np.deg2rad(angle)
    # Quarter turns land on pixel centres: take off the rounding of cos 90°.
    cosine, sine = np.round(np.cos(turn), 15), np.round(np.sin(turn), 15)
    up = (height - 1) / 2
    left = (width - 1) / 2
    i, j = np.arange(height)[:, np.newaxis] - up, np.arange(width) - left
    rows = np.round(up + cosine * i + sine * j, 9)
    columns = np.round(left - sine * i + cosine * j, 9)
    out = in_chunks(x, lambda chunk: bilinear(chunk, rows, columns, "zero"))
    return out.reshape(np.shape(images))


def roll(images: ArrayLike, pixels: int) -> NDArray[np.uint8]:
    """Shift images to the right by ``pixels``; what leaves on one side enters on the other.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, C) or (N, H, W)
        Grey (C = 1) or colour (C = 3) images.
    pixels : int
        Shift along the width; negative shifts to the left. Equals ``np.roll`` along that axis.

    Returns
    -------
    array of uint8
        Same shape as ``images``.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance import shifts
    >>> stripe = np.zeros((1, 28, 28), np.uint8)
    >>> stripe[..., 27] = 255
    >>> int(shifts.roll(stripe, 3)[0, 0].argmax())
    2
    """
    x = check_images(images)
    shift = check_number(pixels, "pixels")
    if shift != int(shift):
        msg = f"pixels must be a whole number. Got {pixels!r} instead."
        raise InputError(msg)
    return np.roll(x, int(shift), axis=2).reshape(np.shape(images))


def bilinear(
    x: NDArray[np.uint8],
    rows: NDArray[np.floating],
    columns: NDArray[np.floating],
    border: str,
) -> NDArray[np.float32]:
    """Read images at ``rows`` and ``columns``, (H, W) for all or (n, H, W), linearly in between."""
    n, height, width, channels = x.shape
    top, left = np.floor(rows), np.floor(columns)
    below, beside = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    top, left = top.astype(np.int32), left.astype(np.int32)
    shared = rows.ndim == 2
    planes = np.ascontiguousarray(x.transpose(3, 0, 1, 2)).reshape(channels, n, -1)
    first = 0 if shared else (np.arange(n, dtype=np.int32) * (height * width))[:, None, None]
    out = np.zeros((channels, n, height, width), np.float32)
    for down in (0, 1):
        for right in (0, 1):
            weight = (below if down else 1 - below) * (beside if right else 1 - beside)
            r, c = top + down, left + right
            if border == "zero":
                weight = weight * ((r >= 0) & (r < height) & (c >= 0) & (c < width))
                r, c = np.clip(r, 0, height - 1), np.clip(c, 0, width - 1)
            else:
                r, c = fold(r, height, border), fold(c, width, border)
            cell = first + r * width + c
            for plane, total in zip(planes, out, strict=True):
                total += weight * (plane[:, cell] if shared else plane.ravel()[cell])
    return out.transpose(1, 2, 3, 0)
