"""Unlabelled logits that are read many times over, and what a map says of them.

With Numba they are made ready for that once: see `temperance._core.fused.sample`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from temperance._core.kernels import fused
from temperance.methods.source import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

SOME = 1_024  # rows that give log T to a few hundredths, and a curvature to a few per cent


def probabilities(z: NDArray[Any], temperature: float, bias: Matrix | float = 0.0) -> Matrix:
    """Return softmax(z / T + b) in float64."""
    p = np.divide(z, temperature, dtype=np.float64) + bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def confidence(z: NDArray[Any], temperature: float) -> float:
    """Return the mean top probability of softmax(z / T)."""
    return float(probabilities(z, temperature).max(axis=1).mean())


class Means(NamedTuple):
    """What a map says of a sample, on average."""

    share: Matrix
    """Mean probability of each class."""
    sure: float
    """Mean top probability."""
    kept: float
    """Mean probability of the predictions before the map."""


class Sample:
    """Logits of shape (n, K) without labels.

    Attributes
    ----------
    z : array of shape (n, K)
    predicted : array of shape (n,)
        The place of the largest logit of each row.
    """

    def __init__(self, z: NDArray[Any]) -> None:
        self.z = z
        self._compiled = fused()
        if self._compiled is None:
            self.predicted = z.argmax(axis=1)
        else:  # float32 holds logits of any scale once it is taken out
            self._scale = float(z.max()) - float(z.min()) or 1.0
            self._blocks, self.predicted = self._compiled.lay_out(z, 1 / self._scale)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.z)

    @cached_property
    def some(self) -> Sample:
        """Return a thousand rows or up to twice as many, at equal distances; of fewer, all."""
        step = len(self) // SOME
        return Sample(np.ascontiguousarray(self.z[::step])) if step > 1 else self

    @cached_property
    def spread(self) -> float:
        """Return the scale of the logits, whatever was added to each class."""
        return spread(self.z)

    def beliefs(self, temperature: float, bias: Matrix | float = 0.0) -> Means:
        """Return what softmax(z / T + b) says: compiled, to six digits."""
        b = np.zeros(self.z.shape[1]) + bias
        if self._compiled is not None:
            beta = self._scale / temperature
            return Means(*self._compiled.beliefs(self._blocks, self.predicted, beta, b)[:3])
        p = probabilities(self.z, temperature, b)
        kept = float(p[np.arange(len(p)), self.predicted].mean())
        return Means(p.mean(axis=0), float(p.max(axis=1).mean()), kept)

    def covariances(self, temperature: float, bias: Matrix) -> Matrix:
        """Return the derivatives of the mean probabilities in the bias, mean diag(p) - p p'."""
        if self._compiled is not None:
            beta = self._scale / temperature
            share, _, _, p = self._compiled.beliefs(
                self._blocks, self.predicted, beta, bias, rows=True
            )
            p = p.transpose(1, 0, 2).reshape(len(bias), -1)
        else:
            p = probabilities(self.z, temperature, bias).T
            share = p.mean(axis=1)
        return np.diag(share) - p @ p.T / len(self)
