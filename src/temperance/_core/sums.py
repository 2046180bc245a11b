"""The sums of one pass from which accuracy, NLL, Brier score and ECE are made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from temperance._core.arrays import Floats


@dataclass(frozen=True, slots=True)
class EvaluationSums:
    """Sums of the scores of rows, and of confidence and correctness by bins; ``+`` adds rows.

    All are NaN where a logit was not finite or too large, or a label had no column.
    """

    scores: Floats
    """Shape (4,): weight, correctness, NLL and Brier score."""
    bins: Floats
    """Shape (3, n_bins): weight, confidence and correctness of the rows of each bin."""
    weighted: bool

    def __add__(self, other: EvaluationSums) -> EvaluationSums:
        weighted = self.weighted or other.weighted
        return EvaluationSums(self.scores + other.scores, self.bins + other.bins, weighted)

    @property
    def are_valid(self) -> bool:
        """Whether all rows were fit to compute with."""
        return not math.isnan(self.scores[0])

    @classmethod
    def invalid(cls, n_bins: int) -> EvaluationSums:
        """Return sums of rows with values that cannot be computed with."""
        return cls(np.full(4, math.nan), np.full((3, n_bins), math.nan), weighted=False)
