"""Sums of scores over rows, and over bins of confidence: what metrics are made of."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats


class EvaluationSums(NamedTuple):
    """Sums of scores, NaN where a logit was unfit, and of confidence and correctness by bins."""

    scores: Floats
    """Shape (4,): weight, correctness, NLL and Brier score."""
    bins: Floats
    """Shape (3, n_bins): weight, confidence and correctness of the rows of each bin."""
    weighted: int
    """Blocks that had weights."""

    @property
    def are_valid(self) -> bool:
        """Whether all rows were fit to compute with."""
        return not math.isnan(self.scores[0])


def bin_sums(confidence: Floats, correct: Floats, weight: Floats | None, edges: Floats) -> Floats:
    """Return weight, confidence and correctness, summed over bins of width ``1 / n_bins``."""
    n_bins = edges.size - 1
    return sums_at(bin_index(confidence, n_bins), confidence, correct, weight, n_bins)


def sums_at(
    place: NDArray[np.intp], confidence: Floats, correct: Floats, weight: Floats | None, size: int
) -> Floats:
    """Return weight, confidence and correctness, summed over the rows of each place."""
    one = 1 if weight is None else weight
    columns = (weight, confidence * one, correct * one)
    return np.stack([np.bincount(place, column, size) for column in columns]).astype(np.float64)


def bin_index(confidence: NDArray[Any], n_bins: int) -> NDArray[np.intp]:
    """Return the bin ``(j / n_bins, (j + 1) / n_bins]`` of each of n confidences in [0, 1].

    A product and a rounding up find the bin, except within rounding of an edge, where the
    confidence is compared with the edge itself. NaN goes to the first bin.
    """
    scaled = confidence * n_bins
    with np.errstate(invalid="ignore"):
        place = np.ceil(np.fmin(scaled, n_bins)).astype(np.intp) - 1
        near = np.flatnonzero(np.abs(scaled - np.rint(scaled)) < 1e-9 * n_bins)
    if near.size:
        place[near] = np.searchsorted(np.arange(1, n_bins) / n_bins, confidence[near])
    return np.where(np.isnan(scaled), 0, np.maximum(place, 0))
