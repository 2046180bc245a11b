"""The softmax of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import Array, namespace, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


def softmax(logits: Array) -> Array:
    """Return the softmax over the last axis, of the kind, dtype and device of the input."""
    xp = namespace(logits)
    z = widened(logits)
    e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return xp.astype(e / xp.sum(e, axis=-1, keepdims=True), logits.dtype)


def softmax_at(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> Matrix:
    """Return softmax(z / T + b) in float64."""
    p: Matrix = np.multiply(z, 1 / temperature, dtype=np.float64)
    p += bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p
