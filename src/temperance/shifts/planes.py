"""Linear algebra on image planes: a filter along an axis is a matrix, its border included.

With ``X`` one plane (H, W), ``A`` (H, H) and ``B`` (W, W), ``A X Bᵀ`` filters the columns by ``A`` and the
rows by ``B``. A filter that is not separable is a short sum of such terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Matrix = "NDArray[np.float32]"


def fold(index: NDArray[np.int64], length: int, border: str) -> NDArray[np.int64]:
    """Bring pixel indices beyond the border back inside.

    ``"nearest"`` repeats the last pixel (aaa|abcd|ddd), ``"reflect"`` mirrors at the edge of the image
    (cba|abcd|dcb), ``"mirror"`` at the centre of its last pixel (dcb|abcd|cba).
    """
    if border == "nearest":
        return np.clip(index, 0, length - 1)
    if border == "reflect":
        index = np.mod(index, 2 * length)
        return np.minimum(index, 2 * length - 1 - index)
    index = np.mod(index, 2 * length - 2)
    return np.minimum(index, 2 * length - 2 - index)


def filter_matrix(length: int, kernel: NDArray[np.floating], border: str) -> NDArray[np.float32]:
    """Matrix that correlates a line of ``length`` pixels with an odd, centred ``kernel``."""
    reach = len(kernel) // 2
    matrix = np.zeros((length, length))
    row = np.arange(length)
    for offset, weight in zip(range(-reach, reach + 1), kernel, strict=True):
        np.add.at(matrix, (row, fold(row + offset, length, border)), weight)
    return matrix.astype(np.float32)


def interpolation_matrix(length: int, at: NDArray[np.floating], border: str) -> NDArray[np.float32]:
    """Matrix that reads a line of ``length`` pixels at the positions ``at``, linearly."""
    low = np.floor(at).astype(np.int64)
    share = at - low
    matrix = np.zeros((len(at), length))
    row = np.arange(len(at))
    np.add.at(matrix, (row, fold(low, length, border)), 1 - share)
    np.add.at(matrix, (row, fold(low + 1, length, border)), share)
    return matrix.astype(np.float32)


def gaussian_kernel(sigma: float, reach: int) -> NDArray[np.float64]:
    """Weights ``exp(-i²/2σ²)``, i = -reach…reach, that sum to 1."""
    i = np.arange(-reach, reach + 1)
    kernel = np.exp(-0.5 * (i / sigma) ** 2)
    return kernel / kernel.sum()


def gaussian_matrix(
    length: int, sigma: float, border: str, truncate: float = 4.0
) -> NDArray[np.float32]:
    """Matrix of a Gaussian filter, cut off at ``truncate`` standard deviations."""
    reach = int(truncate * sigma + 0.5)
    return filter_matrix(length, gaussian_kernel(sigma, reach), border)


def separable(
    planes: NDArray[np.float32], terms: Iterable[tuple[NDArray[np.float32], NDArray[np.float32]]]
) -> NDArray[np.float32]:
    """Σ A X Bᵀ over ``terms`` (A, B), for every plane X in the last two axes of ``planes``."""
    lead, width = planes.shape[:-1], planes.shape[-1]
    lines = planes.reshape(-1, width)
    total: NDArray[np.float32] | None = None
    for down, across in terms:
        term = down @ (lines @ across.T).reshape(*lead, -1)
        total = term if total is None else np.add(total, term, out=total)
    assert total is not None
    return total
