"""Sums over rows that passes return: typed, and added by ``+``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """The weighted NLL of rows at 1/T = β, and what bounds it; ``+`` adds other rows.

    With ``u = (z - max z) / T``, κ_r[u] the cumulants of u under ``p = softmax(u)``, W hard labels,
    soft labels or any non-negative weights, and ``A = Σ_k W_k``:

        value = Σ A·log Σ exp u - Σ W·u
        derivatives[0] = Σ A·κ_1[u] - Σ W·u        derivatives[r - 1] = Σ A·κ_r[u],  r = 2 … 6

    The r-th derivative in β is ``derivatives[r - 1]`` divided by β^r. The slopes of the NLL at both
    ends of the scale decide whether there is a minimum between them. All fields are NaN where a
    logit is not finite or beyond 1e100.
    """

    value: float
    derivatives: tuple[float, ...]
    slope_at_zero: float
    """Slope of the NLL in β at β = 0, ``- Σ W (z - mean z)``."""
    slope_at_infinity: float
    """Limit of the slope as β grows, ``Σ W (max z - z)``."""
    logit_range: float
    """``Σ A (max z - mean z)``."""
    weight: float
    """``Σ A``."""

    def __add__(self, other: Moments) -> Moments:
        pairs = zip(self.derivatives, other.derivatives, strict=True)
        return Moments(
            self.value + other.value,
            tuple(a + b for a, b in pairs),
            self.slope_at_zero + other.slope_at_zero,
            self.slope_at_infinity + other.slope_at_infinity,
            self.logit_range + other.logit_range,
            self.weight + other.weight,
        )

    @property
    def relative(self) -> tuple[float, ...]:
        """Value and derivatives, as `temperance._core.optimise.minimise_in_scale` reads them."""
        return self.value, *self.derivatives

    @property
    def are_valid(self) -> bool:
        """Whether all logits were fit to compute with."""
        return not math.isnan(self.logit_range)


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
    """False where a logit was unfit to compute with or a label had no column; sums are then NaN."""

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
        """Return sums that say only that the values were unfit."""
        nothing = np.full((3, n_bins), math.nan)
        n = math.nan
        return cls(n, n, n, n, nothing, weighted=False, are_valid=False)
