"""Four noises: additive Gaussian, photon counting, salt and pepper, multiplicative Gaussian.

D. Hendrycks and T. Dietterich, *Benchmarking neural network robustness to common corruptions and
perturbations*, ICLR 2019. With ``x`` a grey value in [0, 1] and ``z`` standard normal, per value:

    gaussian  x + σ z        shot  Poisson(c x) / c        speckle  x + σ x z
    impulse   0 or 1 with probability a/2 each, else x
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import pdtr

from temperance.shifts.draws import LEVELS, normal_quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.shifts.draws import Draws


def gaussian(x: NDArray[np.uint8], sigma: float, draws: Draws) -> NDArray[np.int16]:
    """x + σ z: the noise of an amplifier."""
    # x is a whole number of grey levels, so rounding the noise rounds the sum.
    noise = np.rint(255 * sigma * normal_quantiles()).astype(np.int16)
    return x + noise[draws.bits("noise", x.shape)]


def speckle(x: NDArray[np.uint8], sigma: float, draws: Draws) -> NDArray[np.float32]:
    """x + σ x z: noise in proportion to the light."""
    gain = 1 + np.float32(sigma) * normal_quantiles()
    return gain[draws.bits("noise", x.shape)] * x


def shot(x: NDArray[np.uint8], photons: float, draws: Draws) -> NDArray[np.uint8]:
    """Poisson(c x) / c: white counts ``photons`` on average."""
    cell = draws.bits("noise", x.shape).astype(np.int32)
    cell += x.astype(np.int32) << 16
    return _poisson_quantiles(photons)[cell]


@lru_cache(maxsize=1)
def _poisson_quantiles(photons: float) -> NDArray[np.uint8]:
    """65,536 equally likely outcomes for every grey level, one after the other."""
    mean = photons * np.arange(256)[:, np.newaxis] / 255
    count = np.arange(int(photons + 8 * np.sqrt(photons) + 16))
    # Count k has the cells whose midpoint lies between the distribution function at k - 1 and at k.
    upto = np.rint(pdtr(count, mean) * LEVELS).astype(np.int64)
    upto[:, -1] = LEVELS
    cells = np.diff(upto, axis=1, prepend=0)
    value = np.rint(np.minimum(255 * count / photons, 255)).astype(np.uint8)
    return np.repeat(np.broadcast_to(value, cells.shape).ravel(), cells.ravel())


def impulse(x: NDArray[np.uint8], amount: float, draws: Draws) -> NDArray[np.uint8]:
    """Salt and pepper: black with probability a/2, white with a/2."""
    bits = draws.bits("noise", x.shape)
    edge = round(LEVELS * amount / 2)
    out = np.where(bits < edge, np.uint8(0), x)
    out[bits >= LEVELS - edge] = 255
    return out
