"""What JPEG loses (ITU-T T.81), without the coding, which loses nothing.

Red, green and blue become luma and two chroma planes, the latter halved in both directions. Blocks
``X`` of 8 × 8 values are transformed and rounded to multiples of a table ``Q``, which the quality
scales:

    X' = Dᵀ ( Q ∘ round( D (X - 128) Dᵀ / Q ) ) D + 128,    D the orthonormal cosine transform

With 64 × 64 matrices for the transform and its inverse this is two matrix products for all blocks
of a batch. It equals what the usual library writes and reads back (4:2:0, smooth upsampling) but
for its integer transform, which now and then rounds a coefficient the other way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct

from temperance_lab.shifts.images import from_planes, to_planes
from temperance_lab.shifts.planes import PlaneFilter, interpolation_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.draws import Draws
    from temperance_lab.shifts.planes import Matrix

# The tables of T.81, Annex K, which encoders scale by the quality.
LUMA_TABLE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)
# Luma, and blue and red less luma, each in the range of a byte (JFIF), in units of 2^-16 as in the
# usual library: products with bytes and their sums are exact in float32. Chroma rounds halves down.
TO_LUMA_CHROMA = (
    np.array([[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]], np.float32)
    / 65536
)
HALVES = np.array([[0.5], [0.5 - 1 / 65536], [0.5 - 1 / 65536]], np.float32)
CHROMA_TABLE = np.full((8, 8), 99)
CHROMA_TABLE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]


def jpeg(x: NDArray[np.uint8], quality: int, _draws: Draws) -> NDArray[np.uint8]:
    """Pass images through JPEG at ``quality`` (1 to 100)."""
    planes = to_planes(x)
    if len(planes) == 1:
        planes[0] = _quantised(planes[0] - 128, quality, "luma") + 128
        return from_planes(planes)
    _, n, height, width = planes.shape
    split = np.floor(TO_LUMA_CHROMA @ planes.reshape(3, -1) + HALVES).reshape(planes.shape)
    luma = _quantised(split[0] - 128, quality, "luma") + 128
    chroma = _filled(split[1:].reshape(2 * n, height, width), 2, 16)
    chroma = _quantised(_halved(chroma), quality, "chroma")
    chroma = chroma[:, : -(-height // 2), : -(-width // 2)]
    blue, red = np.rint(_doubling(height, width)(chroma)).reshape(2, n, height, width)
    planes[0] = luma + np.float32(1.402) * red
    planes[1] = luma - np.float32(0.344136) * blue - np.float32(0.714136) * red
    planes[2] = luma + np.float32(1.772) * blue
    return from_planes(np.clip(planes, 0, 255, out=planes))


def _quantised(plane: NDArray[np.floating], quality: int, kind: str) -> NDArray[np.floating]:
    """Transform, round and transform back the blocks of centred planes (n, H, W)."""
    n, height, width = plane.shape
    plane = _filled(plane, 8, 8)
    grid = (n, plane.shape[1] // 8, 8, plane.shape[2] // 8, 8)
    forward, units, back = _transforms(quality, kind)
    blocks = plane.reshape(grid).swapaxes(2, 3).reshape(-1, 64) @ forward
    blocks /= units
    np.rint(blocks, out=blocks)
    blocks = blocks @ back
    np.rint(blocks, out=blocks)
    np.clip(blocks, -128, 127, out=blocks)
    blocks = blocks.reshape(n, grid[1], grid[3], 8, 8).swapaxes(2, 3)
    return blocks.reshape(plane.shape)[:, :height, :width]


@lru_cache
def _transforms(quality: int, kind: str) -> tuple[Matrix, Matrix, Matrix]:
    """Matrix from 64 values to their coefficients times 8, units of 8 Q, and the matrix back.

    Times 8 the mean of a block is a sum of whole numbers: exact, and so is a tie in its rounding,
    in whatever order a matrix product adds.
    """
    q = quantiser(quality, kind)
    d = dct(np.eye(8), axis=0, norm="ortho")
    both = np.kron(d, d)
    forward, back = np.round(8 * both.T, 12), both * q[:, np.newaxis]
    return forward.astype(np.float32), (8 * q).astype(np.float32), back.astype(np.float32)


def quantiser(quality: int, kind: str) -> NDArray[np.int64]:
    """Table of the 64 units at a quality, for ``"luma"`` or ``"chroma"``."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    table = LUMA_TABLE if kind == "luma" else CHROMA_TABLE
    return np.clip((table * scale + 50) // 100, 1, 255).ravel()


def _filled(plane: NDArray[np.floating], tall: int, wide: int) -> NDArray[np.floating]:
    """Repeat the last row and column until the sides are multiples of ``tall`` and ``wide``."""
    down, right = -plane.shape[1] % tall, -plane.shape[2] % wide
    return np.pad(plane, ((0, 0), (0, down), (0, right)), mode="edge") if down or right else plane


def _halved(plane: NDArray[np.floating]) -> NDArray[np.floating]:
    """Means of 2 × 2 pixels, rounded to whole numbers up and down in turn, as the library does."""
    rows = plane[:, ::2] + plane[:, 1::2]
    half = rows[:, :, ::2] + rows[:, :, 1::2]
    half += np.float32(1) + np.arange(half.shape[2], dtype=np.float32) % 2
    half *= np.float32(0.25)
    return np.floor(half, out=half)


@lru_cache
def _doubling(height: int, width: int) -> PlaneFilter:
    """Linear interpolation from the centres of 2 × 2 pixels."""
    down, across = (
        interpolation_matrix(-(-side // 2), (np.arange(side) - 0.5) / 2) for side in (height, width)
    )
    return PlaneFilter((down, across))
