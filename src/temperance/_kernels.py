"""One pass over a block of rows: value, gradient, curvature and third derivative in 1/T.

With ``u = (z - max z) / T``, the moments of u under ``p = softmax(u)`` give every derivative of the
weighted NLL at once, free of the scale of the logits:

    value = Σ A·log Σ exp u - Σ W·u          first  = Σ A·E[u] - Σ W·u
    second = Σ A·Var[u]                       third  = Σ A·κ3[u]

where W are hard labels, soft labels or any non-negative weights, and ``A = Σ_k W_k``. The r-th
derivative in β = 1/T is the r-th number divided by β^r. Sums are float64 whatever the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._arrays import beside, is_numpy, namespace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.rows import Block, Totals


def temperature_moments(block: Block, beta: float, *, exact: bool) -> Totals:
    """Return ``(value, first, second, third)`` of the weighted NLL of softmax(beta z).

    ``exact`` evaluates the exponentials in float64; otherwise float32 rows stay float32 until they
    are summed, which is enough for every step but the last.
    """
    if not is_numpy(block.logits):
        return _moments_elsewhere(block, beta)
    z = block.logits
    wide = exact or z.dtype.itemsize != 4
    top = z.max(axis=1)
    u = np.subtract(z, top[:, None], dtype=np.float64 if wide else np.float32)
    u *= beta
    target, mass = _target(u, z, top, block, beta)
    e = np.exp(u)
    s0 = e.sum(axis=1, dtype=np.float64)
    m: list[NDArray[np.float64]] = []
    for _ in range(3):
        e *= u
        m.append(e.sum(axis=1, dtype=np.float64) / s0)
    return _collect(s0, m[0], m[1], m[2], target, mass)


def _target(
    u: NDArray[Any], z: NDArray[Any], top: NDArray[Any], block: Block, beta: float
) -> tuple[Any, Any]:
    """``Σ_k W_k u_k`` and ``Σ_k W_k`` of each row."""
    y, w = block.labels, block.weight
    mass = 1.0 if w is None else w
    if y is None:
        return 0.0, mass
    if y.ndim == 1:
        rows = np.arange(len(y))
        target = (z[rows, y].astype(np.float64) - top.astype(np.float64)) * beta
    else:
        target = np.einsum("ij,ij->i", u, y, dtype=np.float64)
        mass = mass * y.sum(axis=1)
    return (target if w is None else target * w), mass


def _collect(s0: Any, m1: Any, m2: Any, m3: Any, target: Any, mass: Any) -> Totals:
    variance = m2 - m1 * m1
    skew = m3 - 3 * m1 * m2 + 2 * m1 * m1 * m1
    return (
        float(np.sum(mass * np.log(s0) - target)),
        float(np.sum(mass * m1 - target)),
        float(np.sum(mass * variance)),
        float(np.sum(mass * skew)),
    )


def _moments_elsewhere(block: Block, beta: float) -> Totals:
    """Compute the same on the device where the block lives; only four numbers come back."""
    xp = namespace(block.logits)
    z = xp.astype(block.logits, xp.float64)
    u = (z - xp.max(z, axis=1, keepdims=True)) * beta
    e = xp.exp(u)
    s0 = xp.sum(e, axis=1)
    m1, m2, m3 = (xp.sum(e * u**r, axis=1) / s0 for r in (1, 2, 3))
    y, w = block.labels, block.weight
    mass = xp.ones_like(s0) if w is None else beside(w, z)
    if y is None:
        target = xp.zeros_like(s0)
    elif y.ndim == 1:
        index = beside(y, z)[:, None]
        target = xp.take_along_axis(u, index, axis=1)[:, 0] * mass
    else:
        soft = beside(y, z)
        target = xp.sum(u * soft, axis=1) * mass
        mass = mass * xp.sum(soft, axis=1)
    variance = m2 - m1 * m1
    skew = m3 - 3 * m1 * m2 + 2 * m1 * m1 * m1
    totals = (mass * xp.log(s0) - target, mass * m1 - target, mass * variance, mass * skew)
    return tuple(float(xp.sum(t)) for t in totals)


def edges(block: Block) -> Totals:
    """Return what decides whether an optimum in 1/T exists, in one pass without exponentials.

    ``(Σ W (max z - z), Σ W (z - mean z), Σ A (max z - mean z), Σ A)``: the slope of the NLL at
    T -> 0 and minus its slope at T -> ∞, per unit of logits; the scale of the logits; the weight.
    """
    z = block.logits
    xp = namespace(z)
    top = xp.astype(xp.max(z, axis=1), xp.float64)
    with np.errstate(over="ignore"):
        mean = xp.sum(z, axis=1, dtype=xp.float64) / z.shape[1]
    y, w = block.labels, block.weight
    mass = xp.ones_like(top) if w is None else beside(w, z)
    if y is None:
        own = top
    elif y.ndim == 1:
        index = beside(y, z)[:, None]
        own = xp.astype(xp.take_along_axis(z, index, axis=1)[:, 0], xp.float64)
    else:
        own = xp.sum(xp.astype(z, xp.float64) * beside(y, z), axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks the scale
        totals = (mass * (top - own), mass * (own - mean), mass * (top - mean), mass)
        return tuple(float(xp.sum(t)) for t in totals)
