"""The sums of one pass from which accuracy, NLL, Brier score and ECE are made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from temperance._core.arrays import Floats


@dataclass(frozen=True, slots=True)
class EvaluationSums:
    """Sums of the scores of rows, and of confidence and correctness by bins; ``+`` adds rows."""

    weight: float
    correct: float
    nll: float
    brier: float
    bins: Floats
    """Shape (3, n_bins): weight, confidence and correctness of the rows of each bin."""
    weighted: bool
    are_valid: bool = True
    """False where a logit was not finite or too large, or a label had no column; sums are NaN."""

    def __add__(self, other: EvaluationSums) -> EvaluationSums:
        return EvaluationSums(
            self.weight + other.weight,
            self.correct + other.correct,
            self.nll + other.nll,
            self.brier + other.brier,
            self.bins + other.bins,
            self.weighted or other.weighted,
            self.are_valid and other.are_valid,
        )

    @classmethod
    def invalid(cls, n_bins: int) -> EvaluationSums:
        """Return sums of rows with values that cannot be computed with."""
        nothing = np.full((3, n_bins), math.nan)
        n = math.nan
        return cls(n, n, n, n, nothing, weighted=False, are_valid=False)
