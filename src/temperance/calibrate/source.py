"""The labelled source in the numbers that matter for a target.

The prototype of a class is the mean of the centred logits of its rows. The cosine between a row and
the prototype of the class it is predicted as does not depend on the scale of the logits, which many
shifts change without harm (contrast, blur), and it falls when a row is no longer like the rows that
the model knows, even where the model stays sure.

Source rows are weighted by q_k / π_k, the class mix of the target over that of the source, so that
the error and the similarity are those of classes as frequent as in the target. The temperature is
that of the rows as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core.checks import NotIdentified
from temperance.calibrate.problem import Logits, logit_scale, thin
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.data.given import LabelledSample

    Matrix = NDArray[np.float64]

NEIGHBOURS = 5  # of a row among the source rows, by their features
BLOCK = 512  # rows that are compared at a time
IDEAL_ROWS = 2.0  # pseudo-rows with the ideal prototype, so that a class with few rows has one


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled rows from before the shift.

    Attributes
    ----------
    rows : Logits
    labels : array of shape (n,)
    mix : array of shape (K,)
        Class shares.
    temperature : float
        Of `fit_temperature`; 1 where it is not identified.
    identified : bool
        Whether it is.
    prototypes : array of shape (classes with a row, K)
    place : array of shape (K,)
        Row of ``prototypes`` of each class; -1 for a class without rows.
    similarity : array of shape (n,)
        Cosine of each row with the prototype of its prediction, itself left out.
    neighbours : array of shape (m, d) or None
        Features of rows that others are compared with.
    """

    rows: Logits
    labels: NDArray[np.int64]
    mix: Matrix
    temperature: float
    identified: bool
    prototypes: Matrix
    place: NDArray[np.intp]
    similarity: Matrix
    neighbours: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, sample: LabelledSample, features: NDArray[np.float32] | None = None) -> Source:
        """Return the source as the label-free estimates use it."""
        rows, labels = Logits.of(sample.logits, features), sample.labels
        n, k = rows.z.shape
        count = np.bincount(labels, minlength=k)
        present = np.flatnonzero(count)
        place = np.full(k, -1)
        place[present] = np.arange(len(present))
        length = float(np.abs(rows.filled).max()) or 1.0  # so that no square overflows
        blocks = [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
        squares = sum(float(((rows.filled[some] / length) ** 2).sum()) for some in blocks)
        ideal = IDEAL_ROWS * float(np.sqrt(squares / n))
        total = np.zeros((len(present), k)) - ideal / k
        total[np.arange(len(present)), present] += ideal
        for some in blocks:
            np.add.at(total, place[labels[some]], rows.filled[some] / length)
        similarity = np.empty(n)
        for some in blocks:
            others = _prototypes_of(total, place, rows.predicted[some], k)
            own, scaled = rows.predicted[some] == labels[some], rows.filled[some] / length
            others[own] -= scaled[own]
            similarity[some] = _cosines(scaled, others)
        try:
            temperature, identified = fit_temperature(rows.finite, labels).temperature, True
        except NotIdentified:
            temperature, identified = 1.0, False
        return cls(
            rows=rows,
            labels=labels,
            mix=count / n,
            temperature=temperature,
            identified=identified,
            prototypes=total,
            place=place,
            similarity=similarity,
            neighbours=None if features is None else features[thin(rows)],
        )

    @cached_property
    def confidence(self) -> Matrix:
        """Return the model's own confidence in each row."""
        return self.rows.probabilities(1.0).max(axis=1)

    def weights(self, mix: Matrix | None) -> Matrix:
        """Return row weights that sum to one and give the classes the shares of ``mix``.

        One row of each class is added to both sides, so that a class with few rows is not blown up.
        """
        n = len(self.labels)
        if mix is None:
            return np.full(n, 1 / n)
        count = np.bincount(self.labels, minlength=len(mix))
        weight = ((n * mix + 1) / (count + 1))[self.labels]
        return weight / weight.sum()

    def error(self, weight: Matrix) -> float:
        """Return the weighted share of wrong predictions, half a row or more from 0 and 1."""
        half = 0.5 * float(weight @ weight)
        wrong = float(weight @ (self.rows.predicted != self.labels))
        return float(np.clip(wrong, half, 1 - half))

    def scale(self, weight: Matrix) -> float:
        """Return the scale of the logits; see `logit_scale`."""
        return logit_scale(self.rows.filled, weight)

    def similarity_of(self, target: Logits) -> Matrix:
        """Return the cosine of each row with the prototype of the class it is predicted as."""
        length = float(np.abs(target.filled).max()) or 1.0
        found = np.empty(len(target))
        for start in range(0, len(target), BLOCK):
            some, of = target.filled[start : start + BLOCK], target.predicted[start : start + BLOCK]
            chosen = _prototypes_of(self.prototypes, self.place, of, target.n_classes)
            found[start : start + BLOCK] = _cosines(some / length, chosen)
        return found


def nearness(features: NDArray[np.float32], others: NDArray[np.float32], skip: int) -> Matrix:
    """Return the mean cosine of each row with its nearest others, the ``skip`` nearest left out."""
    found = np.empty(len(features))
    most = min(NEIGHBOURS + skip, len(others))
    for start in range(0, len(features), BLOCK):
        cosine = features[start : start + BLOCK] @ others.T
        nearest = np.sort(np.partition(cosine, -most, axis=1)[:, -most:], axis=1)
        found[start : start + BLOCK] = nearest[:, : most - skip].mean(axis=1)
    return np.round(found, 6)


def _prototypes_of(
    total: Matrix, place: NDArray[np.intp], predicted: NDArray[Any], k: int
) -> Matrix:
    """Return the prototype of each prediction; the ideal one for a class without source rows."""
    found = place[predicted]
    chosen = total[found]
    missing = found < 0
    chosen[missing] = -1 / k
    chosen[missing, predicted[missing]] += 1
    return chosen


def _cosines(rows: Matrix, others: Matrix) -> Matrix:
    """Return the cosine of each row with another; 0 where one of the two has no length."""
    dot = np.einsum("ij,ij->i", rows, others)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows) * np.einsum("ij,ij->i", others, others))
    cosine = np.divide(dot, length, out=np.zeros(len(rows)), where=length > 0)
    return cast("Matrix", np.round(cosine, 12))
