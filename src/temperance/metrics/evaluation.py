"""Accuracy, NLL, Brier score and ECE together, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from temperance._core import checks
from temperance.data import as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics._outcomes import sum_outcomes
from temperance.metrics.binned import Bins, unit_edges
from temperance.metrics.proper import Scores

BINS = ("edges", "counts", "confidence", "correct")


@final
@dataclass(frozen=True)
class Evaluation:
    """What a model did on some rows; ``+`` adds the rows of another evaluation.

    Attributes
    ----------
    scores : Scores
        Sums of the proper scores.
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

    scores: Scores
    bins: Bins

    def __add__(self, other: Evaluation) -> Evaluation:
        if not isinstance(other, Evaluation):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return Evaluation(self.scores + other.scores, self.bins + other.bins)

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
        bins = {name: getattr(self.bins, name).tolist() for name in BINS}
        return {"scores": asdict(self.scores), "bins": bins}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation that `to_dict` described, to the last bit."""
        try:
            bins = {name: np.asarray(facts["bins"][name]) for name in BINS}
            return cls(Scores(**facts["scores"]), Bins(**bins))
        except (KeyError, TypeError) as error:
            msg = f"facts must be those of Evaluation.to_dict. They lack a part ({error})."
            raise checks.InputError(msg) from None

    @property
    def n(self) -> float:
        """Number of rows, or the sum of their weights."""
        return self.scores.weight

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right. Higher is better."""
        return self.scores.accuracy

    @property
    def confidence(self) -> float:
        """Mean confidence; above the accuracy the model is overconfident."""
        return float(self.bins.confidence.sum() / self.scores.weight)

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood. Lower is better."""
        return self.scores.nll

    @property
    def brier(self) -> float:
        """Brier score, mean over rows and classes. Lower is better."""
        return self.scores.brier

    @property
    def ece(self) -> float:
        """Expected calibration error. Lower is better."""
        return self.bins.ece


def evaluate(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    n_bins: int = 15,
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
    return Evaluation(
        Scores.from_sums(sums, rows.n_classes),
        Bins.from_sums(sums.bins, edges, weighted=sums.weighted),
    )
