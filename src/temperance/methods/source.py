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

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core import kernels
from temperance._core.checks import (
    InputError,
    NotIdentified,
    check_same_classes,
    check_scale,
    names_for,
)
from temperance.data import ArrayRows, Rows, as_labelled_rows, is_blocks
from temperance.data.given import is_dataset
from temperance.supervised.temperature import solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

IDEAL_ROWS = 2.0  # pseudo-rows with the ideal pattern, so that a class with few rows has one too
ROUNDING = 1e-12  # of the largest logit
MAX_ROWS, MIN_ROWS, MAX_ELEMENTS = 20_000, 4_000, 1 << 21  # of a sample


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
    rows = as_source_rows(source, len(prior))
    block = rows.take(rows.draw(sample_size(rows), seed))
    assert block.labels is not None  # noqa: S101 - as_source_rows has seen to it
    return SourceProfile.of(block.logits, block.labels, prior)


def class_weights(labels: NDArray[np.int64], prior: Matrix) -> Matrix:
    """Return weights that sum to one and give the classes the shares of the prior.

    One row of each class is added to both sides, so that a class with few rows is not blown up.
    """
    n = len(labels)
    count = np.bincount(labels, minlength=len(prior))
    weight = ((n * prior + 1) / (count + 1))[labels]
    return weight / weight.sum()


def as_source_rows(source: object, n_classes: int, classes: list[Any] | None = None) -> Rows:
    """Return the labelled rows of a source with hard labels and the given number of classes.

    A source is a pair (logits, labels), or anything that `as_rows` reads together with its labels.
    Labels in words are looked up in ``classes``.
    """
    pair = _pair(source)
    if pair is None:
        kind = type(source).__name__
        msg = f"source must be a pair (logits, labels), or rows with labels. Got {kind} instead."
        raise InputError(msg)
    rows = as_labelled_rows(*pair, classes=names_for(pair[1], classes), name="source logits")
    check_same_classes(rows.n_classes, n_classes, "source logits")
    if rows.soft:
        msg = "source labels must be class indices, one per row, not soft labels."
        raise InputError(msg)
    return rows


def _pair(source: object) -> tuple[object, object] | None:
    """Logits, and labels where these do not come with the blocks; None for anything else."""
    if isinstance(source, (tuple, list)):
        parts: list[object] = list(cast("Iterable[object]", source))
        first = parts[0] if parts else None
        if isinstance(first, (tuple, list)) and is_blocks(parts):
            return parts, None
        return (parts[0], parts[1]) if len(parts) == 2 else None
    array = hasattr(source, "ndim") and not hasattr(source, "columns")  # has no place for labels
    read = callable(source) or is_dataset(source)
    held = not array and (read or isinstance(source, (Rows, os.PathLike, Iterable)))
    return (cast("object", source), None) if held else None


def sample_size(rows: Rows) -> int:
    """Return how many rows are enough: beliefs about a shift are worth less than 20,000 rows."""
    return min(MAX_ROWS, max(MIN_ROWS, MAX_ELEMENTS // rows.n_classes))


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
