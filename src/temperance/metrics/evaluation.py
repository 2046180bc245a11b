"""Accuracy, NLL, Brier score and ECE together, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from temperance._core import checks
from temperance.data import as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics._outcomes import sum_outcomes
from temperance.metrics.binned import N_BINS, Bins, unit_edges

ADDED = ("n", "correct_sum", "nll_sum", "brier_sum", "bins")


@final
@dataclass(frozen=True)
class Evaluation:
    """Sums of scores of a model over some rows; ``+`` adds the rows of another evaluation.

    Attributes
    ----------
    n_classes : int
    n : float
        Number of rows, or the sum of their weights.
    correct_sum, nll_sum, brier_sum : float
        Sums over rows; the Brier score is summed over classes too.
    bins : Bins
        Reliability bins.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 4)
    >>> monday, tuesday = (tp.metrics.evaluate(z, y) for y in ([0, 0, 0, 1], [0, 1, 1, 1]))
    >>> monday.accuracy, tuesday.accuracy, (monday + tuesday).accuracy
    (0.75, 0.25, 0.5)
    >>> print(sum([monday, tuesday]))
    8 rows: accuracy 0.5000, confidence 0.7500, NLL 0.8370, Brier 0.3125, ECE 0.2500
    """

    n_classes: int
    n: float
    correct_sum: float
    nll_sum: float
    brier_sum: float
    bins: Bins

    def __add__(self, other: Evaluation) -> Evaluation:
        if not isinstance(other, Evaluation):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        checks.check_same_classes(other.n_classes, self.n_classes, "the evaluation to add")
        sums = (getattr(self, name) + getattr(other, name) for name in ADDED)
        return Evaluation(self.n_classes, *sums)

    def __radd__(self, other: object) -> Evaluation:
        """Return itself where `sum` begins, at 0."""
        return self if other == 0 else NotImplemented

    def __str__(self) -> str:
        """Return one line of numbers."""
        return (
            f"{self.n:,g} rows: accuracy {self.accuracy:.4f}, confidence {self.confidence:.4f}, "
            f"NLL {self.nll:.4f}, Brier {self.brier:.4f}, ECE {self.ece:.4f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain numbers, to be kept as JSON: a few for each bin, no rows."""
        bins = {name: value.tolist() for name, value in vars(self.bins).items()}
        return vars(self) | {"bins": bins}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation that `to_dict` described, to the last bit."""
        try:
            bins = {name: np.asarray(value) for name, value in facts["bins"].items()}
            sums: dict[str, Any] = {**facts, "bins": Bins(**bins)}
            return cls(**sums)
        except (KeyError, TypeError, AttributeError) as error:
            msg = f"facts must be those of Evaluation.to_dict. They lack a part ({error})."
            raise checks.InputError(msg) from None

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right. Higher is better."""
        return self.correct_sum / self.n

    @property
    def confidence(self) -> float:
        """Mean confidence; above the accuracy the model is overconfident."""
        return float(self.bins.confidence.sum() / self.n)

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood. Lower is better."""
        return self.nll_sum / self.n

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities, over rows and classes. Lower is better."""
        return self.brier_sum / (self.n * self.n_classes)

    @property
    def ece(self) -> float:
        """Expected calibration error. Lower is better."""
        return self.bins.ece


def evaluate(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    n_bins: int = N_BINS,
    classes: Sequence[object] | None = None,
) -> Evaluation:
    """Return accuracy, NLL, Brier score and ECE from one pass over the rows.

    The same numbers as `accuracy`, `nll`, `brier` and `ece`, for the price of one. Evaluations
    add, so a monitoring job can keep one a day and sum them.

    Parameters
    ----------
    logits, labels, sample_weight, classes
        Labelled rows; see `nll`.
    n_bins : int
        Number of bins of the ECE.

    Returns
    -------
    Evaluation
        With attributes ``accuracy`` (higher is better), ``nll``, ``brier``, ``ece`` (lower is
        better), ``confidence`` and ``bins``.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 4)  # four rows with confidence 3/4
    >>> result = tp.metrics.evaluate(z, [0, 0, 1, 1])
    >>> [round(v, 4) for v in (result.accuracy, result.nll, result.brier, result.ece)]
    [0.5, 0.837, 0.3125, 0.25]
    """
    n_bins = checks.check_integer(n_bins, "n_bins", low=1)
    rows = as_labelled_rows(logits, labels, sample_weight, classes=classes)
    edges = unit_edges(n_bins)
    sums = sum_outcomes(rows, edges)
    n, correct, nll, brier = sums.scores.tolist()
    bins = Bins.from_sums(sums.bins, edges, weighted=sums.weighted)
    return Evaluation(rows.n_classes, n if sums.weighted else int(n), correct, nll, brier, bins)
