"""Linear filters on image planes: along one axis a filter is a matrix, its border included.

With ``X`` one plane (H, W), ``A`` (H, H) and ``B`` (W, W), the product ``A X Bᵀ`` filters columns
by ``A`` and rows by ``B``. A filter that does not separate is a short sum of such terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.floating]
    Terms: TypeAlias = Sequence[tuple[Matrix, Matrix]]


def separable(planes: NDArray[np.floating], terms: Terms) -> NDArray[np.floating]:
    """Σ A X Bᵀ over ``terms`` (A, B), for every plane X in the last two axes of ``planes``."""
    lines = planes.reshape(-1, planes.shape[-1])
    products = (
        down @ (lines @ across.T).reshape(*planes.shape[:-1], len(across)) for down, across in terms
    )
    total = next(products)
    for product in products:
        total += product
    return total


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


def gaussian_kernel(sigma: float, reach: int) -> NDArray[np.floating]:
    """Weights ``exp(-i²/2σ²)``, i = -reach…reach, that sum to 1."""
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return kernel / kernel.sum()


def gaussian_matrix(length: int, sigma: float, border: str, truncate: float = 4.0) -> Matrix:
    """Matrix of a Gaussian filter, cut off at ``truncate`` standard deviations."""
    return filter_matrix(length, gaussian_kernel(sigma, int(truncate * sigma + 0.5)), border)
