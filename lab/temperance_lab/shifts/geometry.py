"""Rotation, rolling and elastic deformation: where a pixel comes from.

Rotation and rolling are the shifts of the paper's MNIST experiments; the elastic deformation is one
of the corruptions of D. Hendrycks and T. Dietterich, ICLR 2019.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from temperance._core.checks import InputError, check_number
from temperance_lab.shifts.images import by_numpy, check_images, from_planes, in_chunks, to_planes
from temperance_lab.shifts.planes import PlaneFilter, gaussian_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from temperance_lab.shifts.draws import Draws
    from temperance_lab.shifts.planes import Matrix


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
    >>> from temperance import shifts
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
    i = np.arange(height)[:, np.newaxis] - (height - 1) / 2
    j = np.arange(width) - (width - 1) / 2
    # Places in the image with a frame of zeros around it, which catches all that lies outside.
    rows = np.clip(cosine * i + sine * j + (height + 1) / 2, 0, height + 1)
    columns = np.clip(cosine * j - sine * i + (width + 1) / 2, 0, width + 1)

    def turned(chunk: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return read_at(np.pad(chunk, ((0, 0), (1, 1), (1, 1), (0, 0))), rows, columns)

    return in_chunks(x, by_numpy(lambda chunk, _: turned(chunk))).reshape(np.shape(images))


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
    >>> from temperance import shifts
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


def read_at(
    x: NDArray[np.uint8], rows: NDArray[np.floating], columns: NDArray[np.floating]
) -> NDArray[np.uint8]:
    """Read images at places inside them, linearly in between.

    ``rows`` and ``columns`` are (H', W') for all images or (n, H', W'), one map per image.
    """
    n, height, width, _ = x.shape
    rows, columns = rows.astype(np.float32), columns.astype(np.float32)
    top = np.minimum(np.floor(rows), height - 2)
    left = np.minimum(np.floor(columns), width - 2)
    down, right = rows - top, columns - left
    image = np.arange(n)[:, np.newaxis, np.newaxis] * (height * width)
    cell = image + (top * width + left).astype(np.int32)
    planes = np.empty((x.shape[3], *cell.shape), np.float32)
    for channel, flat in enumerate(to_planes(x).reshape(len(planes), -1)):
        a, b = np.take(flat, cell, mode="clip"), np.take(flat[1:], cell, mode="clip")
        c, d = (np.take(flat[start:], cell, mode="clip") for start in (width, width + 1))
        planes[channel] = _between(_between(a, b, right), _between(c, d, right), down)
    return from_planes(planes)


def _between(
    start: NDArray[np.floating], end: NDArray[np.floating], share: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return start + share · (end - start) without a new array: both are overwritten."""
    end -= start
    end *= share
    start += end
    return start


def elastic(
    x: NDArray[np.uint8], constants: tuple[float, float, float], draws: Draws
) -> NDArray[np.uint8]:
    """Move three points at random and the image with them, then every pixel a little, smoothly.

    ``constants`` are the size of the small moves, their smoothness (σ) and the size of the affine
    one, in shares of the shorter side. The two maps are composed and the image read once; the
    published code reads twice, which blurs a little more.
    """
    n, height, width, _ = x.shape
    side = min(height, width)
    size, smoothness, affine = (share * side for share in constants)
    rows = np.arange(height, dtype=np.float32)[:, np.newaxis]
    columns = np.arange(width, dtype=np.float32)
    if size:
        moves = smoothed_moves(draws.spread("move", (n, 2, height, width)), smoothness)
        moves *= np.float32(size)
        rows, columns = rows + moves[:, 0], columns + moves[:, 1]
    a = affine_maps(n, (height, width), affine, draws)[:, :, :, np.newaxis, np.newaxis]
    return read_at(
        x,
        _mirrored(a[:, 0, 0] * rows + a[:, 1, 0] * columns + a[:, 2, 0], height - 1),
        _mirrored(a[:, 0, 1] * rows + a[:, 1, 1] * columns + a[:, 2, 1], width - 1),
    )


def affine_maps(n: int, shape: tuple[int, int], size: float, draws: Draws) -> NDArray[np.floating]:
    """Maps (n, 3, 2) that undo the move of three points: origin = (row, column, 1) · map."""
    arm = min(shape) // 3
    points = np.array(shape) // 2 + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = points + size * draws.spread("points", (n, 3, 2))
    # The moved sides u and v come from (0, 2 arm) and (2 arm, 0): solved for by Cramer's rule.
    u, v = moved[:, 0] - moved[:, 1], moved[:, 1] - moved[:, 2]
    maps = np.empty((n, 3, 2))
    maps[:, 0] = np.stack([-u[:, 1], v[:, 1]], axis=1)
    maps[:, 1] = np.stack([u[:, 0], -v[:, 0]], axis=1)
    maps[:, :2] *= (2 * arm / (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]))[:, np.newaxis, np.newaxis]
    corner = moved[:, 1, :, np.newaxis]
    maps[:, 2] = points[1] - (corner * maps[:, :2]).sum(axis=1)
    return maps.astype(np.float32)


def _mirrored(place: NDArray[np.floating], last: int) -> NDArray[np.floating]:
    """Mirror places at the first and the last pixel; nothing lies further off than one image."""
    return np.clip(last - np.abs(last - np.abs(place)), 0, last)


def smoothed_moves(moves: NDArray[np.floating], sigma: float) -> NDArray[np.floating]:
    """Smooth the planes (H, W) of ``moves`` by a Gaussian."""
    for smoothing in _smoothing(*moves.shape[2:], sigma):
        moves = smoothing(moves)
    return moves


@lru_cache
def _smoothing(height: int, width: int, sigma: float) -> tuple[PlaneFilter, ...]:
    """Filters to apply one after the other."""
    down, across = (gaussian_matrix(side, sigma, "reflect", 3.0) for side in (height, width))
    if 3 * sigma < min(height, width):
        return (PlaneFilter((down, across)),)
    # Little is left of an image that is smoothed so much: a tenth of the numbers say it all.
    (rise, fall), (left, right) = _narrow(down), _narrow(across)
    return PlaneFilter((fall, right)), PlaneFilter((rise, left))


def _narrow(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """Two thin matrices whose product it is, but for what moves a pixel by less than 0.01."""
    u, s, v = np.linalg.svd(matrix)
    rank = int((s > 1e-4).sum())
    return u[:, :rank] * s[:rank], v[:rank]
