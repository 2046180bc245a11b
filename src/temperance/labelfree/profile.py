"""What the labelled source says about the model: its error, its temperature, its class patterns.

The pattern of a class is the mean of the centred logits of its rows. The cosine between a row and
the pattern of the class it is predicted as does not depend on the scale of the logits, which many
shifts change without harm (contrast, blur), and it falls when a row is no longer like the rows that
the model knows, even when the model stays sure of it. The share of target rows above the source
quantile at the source error rate is an estimate of the target accuracy, as in ATC (Garg et al.,
2022), with typicality in the place of confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance._checks import NotIdentified
from temperance.rows import ArrayRows
from temperance.supervised.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

IDEAL_ROWS = 2.0  # pseudo-rows with the ideal pattern, so that a class with few rows has one too


@dataclass(frozen=True)
class SourceProfile:
    """The source in the numbers that matter for a target.

    Attributes
    ----------
    n : int
        Rows.
    error : float
        Share of wrong predictions, at least half a row.
    temperature : float
        Of `fit_temperature`; 1 where it is not identified.
    identified : bool
        Whether it is.
    norm : float
        Root mean square length of the centred logits.
    patterns : array of shape (K, K)
        One row per class.
    threshold : float
        The quantile of the typicality of source rows at the error rate.
    """

    n: int
    error: float
    temperature: float
    identified: bool
    norm: float
    patterns: Matrix
    threshold: float

    @classmethod
    def of(cls, logits: NDArray[np.floating], labels: NDArray[np.int64]) -> SourceProfile:
        """Return the profile of labelled rows."""
        centred = centre(logits)
        n, k = centred.shape
        predicted = centred.argmax(axis=1)
        right = predicted == labels
        error = max(1 - float(right.mean()), 0.5 / n)
        norm = float(np.sqrt(np.mean(np.einsum("ij,ij->i", centred, centred))))
        ideal = (np.eye(k) - 1 / k) * norm
        total = np.zeros((k, k))
        np.add.at(total, labels, centred)
        count = np.bincount(labels, minlength=k) + IDEAL_ROWS
        total += IDEAL_ROWS * ideal
        # Each row is compared with the pattern of the others: a row is always like itself.
        own = np.where(right[:, None], centred, 0.0)
        others = (total[predicted] - own) / (count[predicted] - right)[:, None]
        scores = cosine(centred, others)
        try:
            temperature = 1 / solve_temperature(ArrayRows(logits, labels, checked=True)).x
            identified = True
        except NotIdentified:
            temperature, identified = 1.0, False
        return cls(
            n=n,
            error=error,
            temperature=temperature,
            identified=identified,
            norm=norm,
            patterns=total / count[:, None],
            threshold=float(np.quantile(scores, error)),
        )

    def typicality(self, logits: NDArray[np.floating]) -> Matrix:
        """Return the cosine of each row with the pattern of the class it is predicted as."""
        centred = centre(logits)
        return cosine(centred, self.patterns[centred.argmax(axis=1)])


def centre(logits: NDArray[np.floating]) -> Matrix:
    """Return logits with the mean of each row taken away, in float64."""
    z = np.asarray(logits, dtype=np.float64)
    return z - z.mean(axis=1, keepdims=True)


def cosine(a: Matrix, b: Matrix) -> Matrix:
    """Return the cosine of each row of ``a`` with that of ``b``; 0 where one has no length."""
    dot = np.einsum("ij,ij->i", a, b)
    length = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    return np.divide(dot, length, out=np.zeros_like(dot), where=length > 0)
