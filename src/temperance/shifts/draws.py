"""Random numbers for a batch of images that is worked on in chunks.

Every image takes the same count of random bits from every stream, in order, so what image ``i``
meets depends on the seed and on ``i`` alone: neither on the size of a chunk nor on the images after
it.

Sixteen random bits and a table make one number: several times faster than an exact sampler, and
as good once the result is rounded to 256 grey values.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from temperance._checks import check_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVELS = 1 << 16
NORMAL_BITS = 14  # a table of that many bits stays in the cache


class Draws:
    """Independent streams of random numbers, one per purpose, for one corruption.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        The same seed gives the same numbers; a generator is advanced by one draw.
    name : str
        Name of the corruption. Two corruptions are independent under one seed; the severities of
        one share their draws, so that they differ by their constants alone.
    """

    def __init__(self, seed: int | np.random.Generator, name: str) -> None:
        self._entropy = [int(check_seed(seed).integers(2**63)), zlib.crc32(name.encode())]
        self._streams: dict[str, np.random.Generator] = {}

    def bits(self, purpose: str, shape: tuple[int, ...]) -> NDArray[np.uint16]:
        """Sixteen random bits for every entry of ``shape``, whose first axis counts images."""
        stream = self._streams.get(purpose)
        if stream is None:
            entropy = [*self._entropy, zlib.crc32(purpose.encode())]
            stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))
            self._streams[purpose] = stream
        each = math.prod(shape[1:])
        words = (shape[0], -(-each // 4))
        raw = stream.integers(0, 2**64, words, dtype=np.uint64).view(np.uint16)
        return raw[:, :each].reshape(shape)

    def uniform(self, purpose: str, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """Uniform on (0, 1): the midpoints of 65,536 equal cells."""
        return (self.bits(purpose, shape) + np.float32(0.5)) * np.float32(1 / LEVELS)

    def spread(self, purpose: str, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """Uniform on (-1, 1)."""
        return (self.bits(purpose, shape) - np.float32(LEVELS / 2 - 0.5)) * np.float32(2 / LEVELS)

    def normal(self, purpose: str, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """Standard normal: quantiles at the midpoints of 16,384 equal cells, with variance 1."""
        return np.take(normal_quantiles(), self.cells(purpose, shape))

    def cells(self, purpose: str, shape: tuple[int, ...]) -> NDArray[np.uint16]:
        """Uniform on 0…16,383, to look up in a table of `normal_quantiles` or of their like."""
        return self.bits(purpose, shape) >> np.uint16(16 - NORMAL_BITS)


@cache
def normal_quantiles() -> NDArray[np.floating]:
    """16,384 equally likely standard normal values, the largest 4.0."""
    cells = 1 << NORMAL_BITS
    z = ndtri((np.arange(cells) + 0.5) / cells)
    return (z / z.std()).astype(np.float32)
