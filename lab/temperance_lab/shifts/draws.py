"""Random numbers for a batch of images that is worked on in chunks.

Every chunk has streams of its own, from which its images take the same count of random bits, in
order. So what image ``i`` meets depends on the seed, on ``i`` and on the size of an image alone:
not on the images after it, nor on the thread that works on it.

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVELS = 1 << 16
NORMAL_BITS = 14  # a table of that many bits stays in the cache


class Draws:
    """Independent streams of random numbers, one per purpose, for one corruption.

    Parameters
    ----------
    seed : int
        The same seed gives the same numbers.
    name : str
        Name of the corruption. Two corruptions are independent under one seed; the severities of
        one share their draws, so that they differ by their constants alone.
    chunk : int
        Number of the chunk of images; those of others are independent.
    """

    def __init__(self, seed: int, name: str, chunk: int = 0) -> None:
        self._entropy = [seed, zlib.crc32(name.encode()), chunk]
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
