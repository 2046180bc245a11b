# pyright: basic
"""The passes of every fit and of the metrics, compiled (extra ``fast``).

A row is read once and everything about it is summed while it is in the first-level cache. Nothing
of the size of a block is written, but for rows that are read many times over (`lay_out`). Rows of
many classes (*wide*) are summed one after the other. Rows of few classes (*narrow*) would leave
most of a vector empty, so 64 of them are laid side by side, one to a lane.

Machine code is kept beside these files or, where that cannot be written, in the user's cache. Every
function here is compiled when it is first called for a dtype, never at import. They release the
interpreter lock.
"""

from __future__ import annotations

from temperance._core.fused.metrics import bin_sums, evaluation, outcomes
from temperance._core.fused.moments import temperature_moments
from temperance._core.fused.odds import exponential_sums, log_odds, odds_mass, squared_sums
from temperance._core.fused.profile import class_sums, cosines, row_lengths, weighted_mean
from temperance._core.fused.residuals import residuals
from temperance._core.fused.sample import beliefs, lay_out

__all__ = [
    "beliefs",
    "bin_sums",
    "class_sums",
    "cosines",
    "evaluation",
    "exponential_sums",
    "lay_out",
    "log_odds",
    "odds_mass",
    "outcomes",
    "residuals",
    "row_lengths",
    "squared_sums",
    "temperature_moments",
    "weighted_mean",
]
