"""Four noises: additive Gaussian, photon counting, salt and pepper, multiplicative Gaussian.

D. Hendrycks and T. Dietterich, *Benchmarking neural network robustness to common corruptions and
perturbations*, ICLR 2019. With ``x`` a value in [0, 1] and ``z`` standard normal, for every value:

    gaussian  x + σ z            speckle  x + σ x z
    shot      Poisson(c x) / c   impulse  0 or 1 with probability a/2 each, else x
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.registry import Image

COUNT_BITS = 12  # a table of 4,096 counts for every grey value: one megabyte


def gaussian(x: Image, sigma: float, rng: np.random.Generator) -> NDArray[Any]:
    """Add ``σ z``, the noise of an amplifier."""
    noise = rng.standard_normal(x.shape, np.float32)
    noise *= 255 * sigma
    noise += x
    return noise


def speckle(x: Image, sigma: float, rng: np.random.Generator) -> NDArray[Any]:
    """Add ``σ x z``, noise in proportion to the light."""
    factor = rng.standard_normal(x.shape, np.float32)
    factor *= sigma
    factor += 1
    factor *= x
    return factor


def shot(x: Image, photons: float, rng: np.random.Generator) -> Image:
    """Count photons, on average ``photons`` of them where ``x`` is white."""
    chance = rng.integers(1 << COUNT_BITS, size=x.shape, dtype=np.uint16)
    return counted(photons)[x, chance]


@lru_cache
def counted(photons: float) -> NDArray[np.uint8]:
    """4,096 equally likely counts, as grey values, for each of 256 grey values."""
    mean = photons * np.arange(256)[:, np.newaxis] / 255
    chance = (np.arange(1 << COUNT_BITS) + 0.5) / (1 << COUNT_BITS)
    counts = stats.poisson.ppf(chance, mean)
    return np.rint(np.minimum(255 * counts / photons, 255)).astype(np.uint8)


def impulse(x: Image, amount: float, rng: np.random.Generator) -> Image:
    """Turn values black with probability ``a/2``, white with ``a/2``: salt and pepper."""
    chance = rng.random(x.shape, np.float32)
    noisy = x.copy()
    noisy[chance < amount / 2] = 0
    noisy[chance >= 1 - amount / 2] = 255
    return noisy
