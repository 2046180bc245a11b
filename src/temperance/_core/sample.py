"""Unlabelled logits, and the means of softmax(z / T + b) over them, read many times over."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from temperance._core import kernels
from temperance._core.softmax import softmax_at as probabilities
from temperance.methods.source import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

SOME = 1_024  # rows that give log T to a few hundredths, and a curvature to a few per cent


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
        self._prepared, self.predicted = kernels.prepare_sample(z)

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
        """Return the means of softmax(z / T + b); compiled, they are right to 1e-6."""
        b = np.zeros(self.z.shape[1]) + bias
        return Means(*kernels.softmax_means(self._prepared, 1 / temperature, b, self.predicted))

    def covariances(self, temperature: float, bias: Matrix) -> Matrix:
        """Return the derivatives of the mean probabilities in the bias, mean diag(p) - p p'."""
        p = kernels.softmax_rows(self._prepared, 1 / temperature, bias)
        return np.diag(p.mean(axis=0, dtype=np.float64)) - p.T @ p / len(self)
