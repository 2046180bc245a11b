"""Rotation, rolling and elastic deformation: where a pixel comes from.

Rotation and rolling are the shifts of the paper's MNIST experiments; the elastic deformation is one
of the corruptions of D. Hendrycks and T. Dietterich, ICLR 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from scipy.fft import dctn, idctn

from temperance import InputError
from temperance_lab.checks import check_number
from temperance_lab.shifts.images import check_images, to_bytes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from temperance_lab.shifts.registry import Image

FROM = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def rotate(images: ArrayLike, degrees: float) -> NDArray[np.uint8]:
    """Turn images counter-clockwise about their centre, on black, with bilinear interpolation.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, C) or (N, H, W)
        Grey (C = 1) or colour (C = 3) images.
    degrees : float
        Angle. Quarter turns are exact: 90 equals ``np.rot90`` on square images.

    Returns
    -------
    array of uint8
        Same shape as ``images``; what comes from outside the image is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import shifts
    >>> one = np.zeros((1, 28, 28), np.uint8)
    >>> one[0, 4:24, 13:15] = 255
    >>> bool((shifts.rotate(one, 90)[0] == np.rot90(one[0])).all())
    True
    """
    x = check_images(images)
    turn = np.deg2rad(check_number(degrees, "degrees") % 360)
    height, width = x.shape[1:3]
    # Quarter turns must land on pixels: take the rounding off cos 90°.
    cosine, sine = np.round(np.cos(turn), 15), np.round(np.sin(turn), 15)
    turned_to = np.array([[cosine, -sine], [sine, cosine]])
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    origin = np.column_stack([turned_to, centre - turned_to @ centre])
    out = np.empty(x.shape, np.uint8)
    for image, turned in zip(x.astype(np.float32), out, strict=True):
        warped = cv2.warpAffine(image, origin, (width, height), flags=FROM)
        turned[:] = to_bytes(warped).reshape(turned.shape)
    return out.reshape(np.shape(images))


def roll(images: ArrayLike, pixels: int) -> NDArray[np.uint8]:
    """Shift images to the right by ``pixels``; what leaves on one side enters on the other.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, C) or (N, H, W)
        Grey (C = 1) or colour (C = 3) images.
    pixels : int
        Shift along the width, to the left if negative. Equals ``np.roll`` along that axis.

    Returns
    -------
    array of uint8
        Same shape as ``images``.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import shifts
    >>> stripe = np.zeros((1, 28, 28), np.uint8)
    >>> stripe[..., 27] = 255
    >>> int(shifts.roll(stripe, 3)[0, 0].argmax())
    2
    """
    x = check_images(images)
    shift = check_number(pixels, "pixels")
    if not shift.is_integer():
        msg = f"pixels must be a whole number. Got {pixels!r} instead."
        raise InputError(msg)
    return np.roll(x, int(shift), axis=2).reshape(np.shape(images))


def elastic(
    x: Image, constants: tuple[float, float, float], rng: np.random.Generator
) -> NDArray[Any]:
    """Move three points at random and the image with them, then every pixel a little, smoothly.

    ``constants`` are the size of the small moves, their smoothness (σ) and the size of the affine
    one, in shares of the shorter side. The two maps are composed and the image read once; the
    published code reads twice, which blurs a little more.
    """
    height, width, _ = x.shape
    size, smoothness, affine = (share * min(height, width) for share in constants)
    rows, columns = np.indices((height, width), np.float32)
    origin = affine_map((height, width), affine, rng).astype(np.float32)
    if size:
        down, right = smoothed(rng.uniform(-1, 1, (2, height, width)), smoothness)
        rows, columns = rows + np.float32(size) * down, columns + np.float32(size) * right
    return cv2.remap(
        x.astype(np.float32),
        origin[0, 1] * rows + origin[1, 1] * columns + origin[2, 1],
        origin[0, 0] * rows + origin[1, 0] * columns + origin[2, 0],
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT_101,
    )


def affine_map(
    shape: tuple[int, int], size: float, rng: np.random.Generator
) -> NDArray[np.floating]:
    """Map (3, 2) that undoes the move of three points: origin = (row, column, 1) · map."""
    arm = min(shape) // 3
    points = np.array(shape) // 2 + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + rng.uniform(-size, size, (3, 2))
    return np.linalg.solve(np.column_stack([moved, np.ones(3)]), points)


def smoothed(moves: NDArray[np.float64], sigma: float) -> NDArray[Any]:
    """Smooth the planes (H, W) of ``moves`` by a Gaussian; the planes are mirrored at the border.

    The cosine transform turns the filter into a product, at the same cost for every ``sigma``.
    """
    height, width = moves.shape[1:]
    down, across = np.arange(height)[:, np.newaxis] / height, np.arange(width) / width
    gain = np.exp(-0.5 * (np.pi * sigma) ** 2 * (down**2 + across**2))
    return idctn(dctn(moves, axes=(1, 2)) * gain, axes=(1, 2)).astype(np.float32)
