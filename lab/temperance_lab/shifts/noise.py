"""Four noises: additive Gaussian, photon counting, salt and pepper, multiplicative Gaussian.

D. Hendrycks and T. Dietterich, *Benchmarking neural network robustness to common corruptions and
perturbations*, ICLR 2019. With ``x`` a value in [0, 1] and ``z`` standard normal, for every value:

    gaussian  x + σ z            speckle  x + σ x z
    shot      Poisson(c x) / c   impulse  0 or 1 with probability a/2 each, else x
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import pdtr

from temperance_lab.shifts.draws import LEVELS, normal_quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_lab.shifts.draws import Draws

COUNT_BITS = 12  # 4,096 equally likely counts for each of 256 means: a table of one megabyte


def gaussian(x: NDArray[np.uint8], sigma: float, draws: Draws) -> NDArray[np.int16]:
    """Add ``σ z``, the noise of an amplifier."""
    noisy = np.take(additive(sigma), draws.cells("noise", x.shape))
    noisy += x
    return noisy


@lru_cache
def additive(sigma: float) -> NDArray[np.int16]:
    """Equally likely noises, in grey levels."""
    # x is a whole number of grey levels, so rounding the noise rounds the sum.
    return np.rint(255 * sigma * normal_quantiles()).astype(np.int16)


def speckle(x: NDArray[np.uint8], sigma: float, draws: Draws) -> NDArray[np.floating]:
    """Add ``σ x z``, noise in proportion to the light."""
    noisy = np.take(gain(sigma), draws.cells("noise", x.shape))
    noisy *= x
    return noisy


@lru_cache
def gain(sigma: float) -> NDArray[np.floating]:
    """Equally likely factors."""
    return 1 + np.float32(sigma) * normal_quantiles()


def shot(x: NDArray[np.uint8], photons: float, draws: Draws) -> NDArray[np.uint8]:
    """Count photons, ``photons`` of them on average where ``x`` is white."""
    cell = x.astype(np.int32) << COUNT_BITS
    cell += draws.bits("noise", x.shape) >> (16 - COUNT_BITS)
    return np.take(poisson_quantiles(photons), cell)


@lru_cache
def poisson_quantiles(photons: float) -> NDArray[np.uint8]:
    """Equally likely grey values for every mean, mean after mean."""
    mean = photons * np.arange(256)[:, np.newaxis] / 255
    count = np.arange(int(photons + 8 * np.sqrt(photons) + 16))
    # Count k has the cells whose midpoint lies between P(count < k) and P(count ≤ k).
    upto = np.rint(pdtr(count, mean) * (1 << COUNT_BITS)).astype(np.int64)
    upto[:, -1] = 1 << COUNT_BITS
    cells = np.diff(upto, axis=1, prepend=0)
    value = np.rint(np.minimum(255 * count / photons, 255)).astype(np.uint8)
    return np.repeat(np.broadcast_to(value, cells.shape).ravel(), cells.ravel())


def impulse(x: NDArray[np.uint8], amount: float, draws: Draws) -> NDArray[np.uint8]:
    """Turn values black with probability ``a/2``, white with ``a/2``: salt and pepper."""
    bits = draws.bits("noise", x.shape)
    edge = round(LEVELS * amount / 2)
    noisy = x * (bits >= edge)
    noisy |= (bits < LEVELS - edge) - np.uint8(1)  # 255 where false
    return noisy
