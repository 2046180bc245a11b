"""Linear filters on image planes: along one axis a filter is a matrix, its border included.

With ``X`` one plane (H, W), ``A`` (H, H) and ``B`` (W, W), the product ``A X Bᵀ`` filters columns
by ``A`` and rows by ``B``. A filter that does not separate is a short sum of such terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]

BAND = 32  # rows of a matrix that are multiplied at once


class Band(NamedTuple):
    """Some rows of a matrix, without the columns that are zero in all of them."""

    rows: slice
    columns: slice
    weights: Matrix


class PlaneFilter:
    """Σ A X Bᵀ for every plane X, from terms (A, B).

    Filters reach a few pixels, so their matrices are nearly diagonal: on large planes they are
    multiplied in bands.
    """

    def __init__(self, *terms: tuple[Matrix, Matrix]) -> None:
        self._terms = [(_bands(down), _bands(across)) for down, across in terms]

    def __call__(self, planes: NDArray[np.floating]) -> NDArray[np.floating]:
        """Filter the planes in the last two axes of ``planes``."""
        products = (_down(down, _across(across, planes)) for down, across in self._terms)
        total = next(products)
        for product in products:
            total += product
        return total


def _bands(matrix: Matrix) -> list[Band]:
    bands = []
    for start in range(0, len(matrix), BAND):
        part = matrix[start : start + BAND]
        used = np.append(np.flatnonzero(part.any(axis=0)), start)  # never no column
        columns = slice(int(used.min()), int(used.max()) + 1)
        bands.append(Band(slice(start, start + len(part)), columns, part[:, columns].copy()))
    return bands


def _across(bands: list[Band], planes: NDArray[np.floating]) -> NDArray[np.floating]:
    """X Bᵀ."""
    lines = planes.reshape(-1, planes.shape[-1])
    out = np.empty((len(lines), bands[-1].rows.stop), np.float32)
    for band in bands:
        np.matmul(lines[:, band.columns], band.weights.T, out=out[:, band.rows])
    return out.reshape(*planes.shape[:-1], -1)


def _down(bands: list[Band], planes: NDArray[np.floating]) -> NDArray[np.floating]:
    """A X."""
    *lead, _, width = planes.shape
    out = np.empty((*lead, bands[-1].rows.stop, width), np.float32)
    for band in bands:
        np.matmul(band.weights, planes[..., band.columns, :], out=out[..., band.rows, :])
    return out


def fold(index: NDArray[np.int64], length: int, border: str) -> NDArray[np.int64]:
    """Bring pixel indices beyond the border back inside.

    ``"nearest"`` repeats the last pixel (aaa|abcd|ddd), ``"reflect"`` mirrors at the edge of the
    image (cba|abcd|dcb), ``"mirror"`` at the centre of its last pixel (dcb|abcd|cba).
    """
    if border == "nearest":
        return np.clip(index, 0, length - 1)
    period = 2 * length if border == "reflect" else 2 * length - 2
    index = np.mod(index, period)
    return np.minimum(index, (period - 1 if border == "reflect" else period) - index)


def filter_matrix(length: int, kernel: NDArray[np.floating], border: str) -> Matrix:
    """Matrix that correlates a line of ``length`` pixels with an odd, centred ``kernel``."""
    reach = len(kernel) // 2
    row = np.arange(length)
    matrix = np.zeros((length, length))
    for offset, weight in enumerate(kernel, -reach):
        matrix[row, fold(row + offset, length, border)] += weight
    return matrix.astype(np.float32)


def interpolation_matrix(length: int, at: NDArray[np.floating]) -> Matrix:
    """Matrix that reads a line of ``length`` pixels at positions ``at``, linearly in between."""
    low = np.floor(at).astype(np.int64)
    row = np.arange(len(at))
    matrix = np.zeros((len(at), length))
    matrix[row, fold(low, length, "nearest")] += 1 - (at - low)
    matrix[row, fold(low + 1, length, "nearest")] += at - low
    return matrix.astype(np.float32)


def gaussian_kernel(sigma: float, reach: int) -> NDArray[np.float64]:
    """Weights ``exp(-i²/2σ²)``, i = -reach…reach, that sum to 1."""
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return kernel / kernel.sum()


def gaussian_matrix(length: int, sigma: float, border: str, truncate: float = 4.0) -> Matrix:
    """Matrix of a Gaussian filter, cut off at ``truncate`` standard deviations."""
    return filter_matrix(length, gaussian_kernel(sigma, int(truncate * sigma + 0.5)), border)
