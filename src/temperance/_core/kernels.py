"""One pass over a block of rows: value and six derivatives of the NLL in 1/T, and what bounds it.

With ``u = (z - max z) / T`` and κ_r[u] the cumulants of u under ``p = softmax(u)``, the weighted
NLL and the derivatives of its logarithms, all free of the scale of the logits, are

    value = Σ A·log Σ exp u - Σ W·u
    first = Σ A·κ_1[u] - Σ W·u              r-th = Σ A·κ_r[u],  r = 2 … 6

where W are hard labels, soft labels or any non-negative weights, and ``A = Σ_k W_k``. The r-th
derivative in β = 1/T is the r-th number divided by β^r. The same pass gives the slopes of the NLL
at both ends of the scale, which decide whether it has a minimum between them:

    below = Σ W (max z - z)      above = Σ W (z - mean z)      spread = Σ A (max z - mean z)

The spread is NaN where a logit is not finite, or too large for its square to be so.

Everything is float64 whatever the input. The code below is the reference and runs on any Array API
library, where the block is; NumPy blocks go to `temperance._core.fused` when Numba is installed, which
gives two more derivatives: they cost it little, and a fit is done after one pass more often.
"""

from __future__ import annotations

import importlib
import math
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import beside, is_numpy, namespace
from temperance._core.checks import LARGEST, are_sound

if TYPE_CHECKING:
    from types import ModuleType

    from temperance._core.arrays import Array
    from temperance.data import Block, Totals

DERIVATIVES = 6
SWITCH = "TEMPERANCE_NUMBA"


@cache
def fused() -> ModuleType | None:
    """Return the compiled kernels, or None: Numba is missing, or switched off by the environment.

    ``TEMPERANCE_NUMBA=0`` switches it off; so does Numba's own ``NUMBA_DISABLE_JIT=1``, under
    which the kernels would be interpreted, a thousand times slower than NumPy.
    """
    if os.environ.get(SWITCH) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return None
    try:
        return importlib.import_module("temperance._core.fused")
    except ImportError:  # not installed, or too old for this NumPy
        return None


def temperature_moments(block: Block, beta: float, *, rough: bool = False) -> Totals:
    """Return ``(value, first, …, last, below, above, spread, Σ A)`` of a block at 1/T = β.

    ``rough`` is for the start of a fit: NumPy takes float32 exponentials of float32 logits, which
    it has vector instructions for. Compiled passes are as fast without.
    """
    compiled = fused() if is_numpy(block.logits) else None
    if compiled is not None:
        return compiled.temperature_moments(*block, beta)
    xp = namespace(block.logits)
    narrow = rough and block.logits.dtype == xp.float32
    with np.errstate(over="ignore", invalid="ignore"):  # who fits checks the scale
        z = xp.astype(block.logits, xp.float32 if narrow else xp.float64)
        top = xp.astype(xp.max(block.logits, axis=1, keepdims=True), z.dtype)
        z -= top
        one = xp.ones_like(z[0, :])
        own, mass = _of_labels(z, block)
        shifts = z @ one
        mean, reach = shifts / z.shape[1], float(xp.max(xp.abs(top[:, 0]) + xp.abs(shifts)))
        below = -float(xp.sum(own))
        z *= beta
        s0, *others = _power_sums(z, one)
        moments = xp.stack(others) / s0
        cumulants = cumulants_of(*_centred(moments))
        sums = xp.stack([xp.log(s0), moments[0, :], *cumulants, mean, xp.ones_like(mass)]) @ mass
        value, first, *others, means, total = (float(sums[j]) for j in range(DERIVATIVES + 3))
    spread = -means if reach <= LARGEST or are_sound(block.logits) else math.nan
    target = beta * below
    edges = (below, spread - below, spread, total)
    return (value + target, first + target, *others, *edges)


def _of_labels(z: Array, block: Block) -> tuple[Array, Array]:
    """``Σ_k W_k (z_k - max z)`` and ``A = Σ_k W_k`` of each row."""
    xp = namespace(z)
    y, w = block.labels, block.weight
    mass = xp.ones_like(z[:, 0]) if w is None else xp.astype(beside(w, z), z.dtype)
    if y is None:
        return xp.zeros_like(mass), mass
    if y.ndim == 1:
        places = beside(np.arange(y.size) * z.shape[1] + y, z)
        return mass * xp.take(xp.reshape(z, (-1,)), places), mass
    soft = xp.astype(beside(y, z), z.dtype)
    return mass * xp.vecdot(z, soft), mass * xp.sum(soft, axis=1)


def _power_sums(u: Array, one: Array) -> tuple[Array, ...]:
    """``Σ_k u_k^r exp(u_k)`` of each row, for r = 0 … 6; a product with ones is the fastest sum."""
    xp = namespace(u)
    e, square = xp.exp(u), u * u
    sums = [e @ one, xp.vecdot(e, u)]
    for _ in range(2):
        e *= square
        sums += [e @ one, xp.vecdot(e, u)]
    return (*sums, xp.vecdot(e, square))


def _centred(moments: Array) -> list[Array]:
    """Return the central moments 2 … 6 from moments about zero, in rows.

    With m the mean, round p makes ``E[u^(r - p) (u - m)^p]`` of that with p - 1, for r ≥ p at once.
    """
    m, last = moments[0, :], moments.shape[0] - 1
    c = moments[1:, :] - m * moments[:-1, :]  # its first row is ready: the mean of u - m is 0
    for done in (1, *range(1, last)):
        c[done:, :] -= m * c[done - 1 : -1, :]
    return [c[j, :] for j in range(last)]


def cumulants_of(c2: Any, c3: Any, c4: Any, c5: Any, c6: Any) -> tuple[Any, ...]:
    """Return κ_2 … κ_6 from central moments."""
    return (
        c2,
        c3,
        c4 - 3 * c2 * c2,
        c5 - 10 * c3 * c2,
        c6 - 15 * c4 * c2 - 10 * c3 * c3 + 30 * c2 * c2 * c2,
    )
