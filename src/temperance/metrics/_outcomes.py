"""The outcomes of rows, of which every metric is made: four numbers a row, or their sums."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from temperance._core import kernels
from temperance._core.arrays import Floats, to_numpy
from temperance._core.sums import EvaluationSums
from temperance.data import Block, Rows

CONFIDENCE_ROUNDING = 4e-15  # relative rounding error of a confidence, generously


class Outcomes(NamedTuple):
    """Outcome of each row; ``weight`` is None when every row counts once."""

    confidence: Floats
    correct: Floats
    nll: Floats
    brier: Floats
    weight: Floats | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.confidence.size

    @property
    def mass(self) -> Floats:
        """Weight of each row, 1 where none was given."""
        return np.ones(self.n) if self.weight is None else self.weight


def outcomes(block: Block) -> Outcomes:
    """Return the outcomes of the rows of a block."""
    return Outcomes(*kernels.outcomes(to_numpy(block.logits), labels_of(block)), block.weight)


def labels_of(block: Block) -> NDArray[Any]:
    """Return the labels of a block of labelled rows."""
    return cast("NDArray[Any]", block.labels)


def sum_outcomes(rows: Rows, edges: Floats) -> EvaluationSums:
    """Return the sums of the outcomes over all rows, and over bins of confidence: one pass."""

    def statistic(block: Block) -> EvaluationSums:
        z = to_numpy(block.logits)
        return kernels.evaluation_sums(z, labels_of(block), block.weight, edges)

    return rows.reduce_with_validity(statistic)


def gather(rows: Rows) -> Outcomes:
    """Return the outcomes of all rows, in order: one pass, 40 bytes for each row."""

    def as_lists(block: Block) -> tuple[list[Any], ...]:
        return tuple([column] for column in outcomes(block))  # adding lists keeps all rows

    *columns, weight = rows.reduce(as_lists)
    confidence, correct, nll, brier = (np.concatenate(column) for column in columns)
    weighted = weight[0] is not None
    return Outcomes(confidence, correct, nll, brier, np.concatenate(weight) if weighted else None)


def runs(confidence: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct confidences, rising, and which of them each row has.

    Confidences that differ by no more than their rounding are equal: rounding depends on the order
    of the classes.
    """
    order = np.argsort(confidence, kind="stable")
    rising = confidence[order]
    first = np.diff(rising, prepend=-np.inf) > CONFIDENCE_ROUNDING
    run = np.empty(confidence.size, np.intp)
    run[order] = np.cumsum(first) - 1
    return rising[first], run
