"""What the labelled source says about the model: its error, its temperature, its class patterns.

The pattern of a class is the mean of the centred logits of its rows. The cosine between a row and
the pattern of the class it is predicted as does not depend on the scale of the logits, which many
shifts change without harm (contrast, blur), and it falls when a row is no longer like the rows that
the model knows, even when the model stays sure of it. The share of target rows above the source
quantile at the source error rate is an estimate of the target accuracy, as in ATC (Garg et al.,
2022), with typicality in the place of confidence.

Source rows are weighted by q_k / π_k, the prior of the target over the class shares of the source,
so that its error, its predicted mix and its typicality are those of classes as frequent as in the
target. Its temperature is that of the rows as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core import kernels
from temperance._core.checks import NotIdentified, check_scale
from temperance.data import ArrayRows
from temperance.data.source import read_source
from temperance.supervised.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

IDEAL_ROWS = 2.0  # pseudo-rows with the ideal pattern, so that a class with few rows has one too
ROUNDING = 1e-12  # of the largest logit


@dataclass(frozen=True)
class SourceProfile:
    """The source in the numbers that matter for a target.

    Attributes
    ----------
    n : int
        Rows.
    effective : float
        As many equally weighted rows would be as informative.
    error : float
        Share of wrong predictions, half an effective row or more from 0 and 1.
    mix : array of shape (K,)
        Share of predictions of each class.
    temperature : float
        Of `fit_temperature`; 1 where it is not identified.
    identified : bool
        Whether it is.
    spread : float
        Of the logits, see `spread`.
    patterns : array of shape (K, K)
        One row per class.
    scores : array of shape (n,)
        Typicality of the source rows, sorted.
    below : array of shape (n,)
        Weight of the source rows up to each of the scores.
    """

    n: int
    effective: float
    error: float
    mix: Matrix
    temperature: float
    identified: bool
    spread: float
    patterns: Matrix
    scores: Matrix
    below: Matrix

    @classmethod
    def of(
        cls, logits: NDArray[Any], labels: NDArray[np.int64], prior: Matrix | None = None
    ) -> SourceProfile:
        """Return the profile of labelled rows, as for a target with that prior."""
        n, k = logits.shape
        predicted = logits.argmax(axis=1)
        right = predicted == labels
        weight = np.full(n, 1 / n) if prior is None else class_weights(labels, prior)
        effective = 1 / float(weight @ weight)
        error = float(np.clip(1 - weight @ right, 0.5 / effective, 1 - 0.5 / effective))
        ideal = (np.eye(k) - 1 / k) * source_length(logits)
        count = np.bincount(labels, minlength=k) + IDEAL_ROWS
        total = class_sums(logits, labels) + IDEAL_ROWS * ideal
        # Each row is compared with the pattern of the others: a row is always like itself.
        scores = cosines(logits, total, labels)
        order = np.argsort(scores, kind="stable")
        try:
            temperature = 1 / solve_temperature(ArrayRows(logits, labels, checked=True)).x
            identified = True
        except NotIdentified:
            temperature, identified = 1.0, False
        return cls(
            n=n,
            effective=effective,
            error=error,
            mix=cast("Matrix", np.bincount(predicted, weight, k)),
            temperature=temperature,
            identified=identified,
            spread=spread(logits, weight, "source logits"),
            patterns=total / count[:, None],
            scores=scores[order],
            below=np.cumsum(weight[order]),
        )

    @property
    def threshold(self) -> float:
        """Return the quantile of the typicality of source rows at the error rate."""
        return float(np.interp(self.error, self.below, self.scores))

    def share_typical(self, scores: Matrix) -> float:
        """Return the share of rows above the threshold, against 1 - error on the source.

        The source's own share differs from that only by ties: with two classes every row has
        typicality one, and this says nothing instead of anything.
        """
        share, own = float((scores > self.threshold).mean()), 1 - self.share_below(self.threshold)
        return min(max(share - own + 1 - self.error, 0.0), 1.0)

    def share_below(self, score: float) -> float:
        """Return the share of source rows that are no more typical than ``score``."""
        place = int(np.searchsorted(self.scores, score, side="right"))
        return float(self.below[place - 1]) if place else 0.0

    def typicality(self, logits: NDArray[Any], offset: Matrix | None = None) -> Matrix:
        """Return the cosine of each row with the pattern of the class it is predicted as.

        The offset is one of classes, and is added to the rows.
        """
        return cosines(logits, self.patterns, offset=offset)


def read_profile(source: object, prior: Matrix, seed: np.random.Generator) -> SourceProfile:
    """Return the profile of a source given as ``(logits, labels)``, or as labelled rows."""
    return SourceProfile.of(*read_source(source, len(prior), seed=seed), prior)


def class_weights(labels: NDArray[np.int64], prior: Matrix) -> Matrix:
    """Return weights that sum to one and give the classes the shares of the prior.

    One row of each class is added to both sides, so that a class with few rows is not blown up.
    """
    n = len(labels)
    count = np.bincount(labels, minlength=len(prior))
    weight = ((n * prior + 1) / (count + 1))[labels]
    return weight / weight.sum()


def centre(logits: NDArray[Any]) -> Matrix:
    """Return logits with the mean of each row taken away, in float64."""
    z = np.asarray(logits, dtype=np.float64)
    return z - z.mean(axis=1, keepdims=True)


def row_lengths(logits: NDArray[Any]) -> Matrix:
    """Return the length of each centred row, at any scale: squares of 1e-200 would vanish."""
    return kernels.row_lengths(logits)


def spread(
    logits: NDArray[Any], weight: Matrix | None = None, name: str = "target logits"
) -> float:
    """Return the root mean square distance of centred rows from their mean.

    It is the scale of the logits, whatever was added to each class: an offset has no spread.
    """
    mass = np.ones(len(logits)) if weight is None else weight
    distances = kernels.row_lengths(logits, kernels.weighted_mean(logits, mass))
    largest = float(distances.max())
    if largest <= ROUNDING * max(float(logits.max()), -float(logits.min())):
        msg = f"{name} are the same in every row, but for a constant, so they have no scale."
        raise NotIdentified(msg)
    return largest * float(np.sqrt(np.average((distances / largest) ** 2, weights=weight)))


def source_length(logits: NDArray[Any]) -> float:
    """Return the mean length of source rows; without one they say nothing about a temperature."""
    lengths = row_lengths(logits)
    largest = float(lengths.max())
    if largest == 0:
        msg = "source logits are constant in every row, so no temperature changes anything."
        raise NotIdentified(msg)
    length = largest * float(np.sqrt(np.mean((lengths / largest) ** 2)))
    check_scale(length, "source logits")
    return length


def class_sums(logits: NDArray[Any], labels: NDArray[np.int64]) -> Matrix:
    """Return the sum of the centred rows of each class, one class to a row."""
    return kernels.class_sums(logits, labels)


def cosines(
    logits: NDArray[Any],
    patterns: Matrix,
    labels: NDArray[np.int64] | None = None,
    offset: Matrix | None = None,
) -> Matrix:
    """Return the cosine of each centred row with the pattern of the class it is predicted as.

    From the pattern the row itself is taken away where it is part of it, being labelled so. The
    cosine is 0 where one of the two has no length.
    """
    return np.round(kernels.prototype_similarity(logits, patterns, labels, offset), 12)
