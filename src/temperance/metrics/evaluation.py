"""Accuracy, NLL, Brier score and ECE, alone or together, in one pass over the rows.

NLL and Brier are proper: the expected score is best when the predicted probabilities are the true
ones, so a model cannot gain by lying. Prefer them to any calibration error when models are to be
ranked.
"""

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

    ``n_bins`` is the number of bins of the ECE; the other arguments are those of `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 4)  # four rows with confidence 3/4
    >>> result = tp.metrics.evaluate(z, [0, 0, 1, 1])
    >>> [round(v, 4) for v in (result.accuracy, result.nll, result.brier, result.ece)]
    [0.5, 0.837, 0.3125, 0.25]
    """
    n_bins = checks.check_bins(n_bins)
    rows = as_labelled_rows(logits, labels, sample_weight, classes=classes)
    edges = unit_edges(n_bins)
    sums = sum_outcomes(rows, edges)
    n, correct, nll, brier = sums.scores.tolist()
    bins = Bins.from_sums(sums.bins, edges, weighted=bool(sums.weighted))
    return Evaluation(rows.n_classes, n if sums.weighted else int(n), correct, nll, brier, bins)


def accuracy(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the share of rows whose largest logit is that of the label. Higher is better.

    .. math:: \frac{1}{n} \sum_i 1\{\arg\max_k z_{ik} = y_i\}

    Of equal logits the first is chosen, as by ``argmax``. Equals
    ``sklearn.metrics.accuracy_score(labels, logits.argmax(1))``.

    Parameters
    ----------
    logits : array of shape (n, K) or rows
        Scores before the softmax.
    labels : array of shape (n,) or (n, K)
        Class indices. A soft label, a row of class probabilities, counts by the probability that
        it gives to the predicted class.
    sample_weight : array of shape (n,), optional
        Non-negative weights; an integer weight equals repetition.
    classes : sequence of K names, optional
        Names of the columns, in which labels in words are looked up.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]])
    >>> tp.metrics.accuracy(z, [0, 1, 2, 2])
    0.75
    """
    return evaluate(logits, labels, sample_weight, n_bins=1, classes=classes).accuracy


def nll(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the mean negative log-likelihood, in nats. Lower is better; 0 is perfect.

    .. math:: -\frac{1}{n} \sum_i \log \mathrm{softmax}(z_i)_{y_i}

    The score that temperature scaling minimises; a model that knows nothing has log K. It is
    unbounded: one confident mistake can outweigh many good rows. Computed from logits, so nothing
    is clipped: it equals ``sklearn.metrics.log_loss`` of the float64 softmax as long as no
    probability underflows.

    A soft label is a row of class probabilities. All arguments are those of `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0], [np.log(3.0), 0.0]])  # probabilities 3/4 and 1/4
    >>> round(tp.metrics.nll(z, [0, 1]), 6)  # (log 4/3 + log 4) / 2
    0.836988
    """
    return evaluate(logits, labels, sample_weight, n_bins=1, classes=classes).nll


def brier(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    per_class: bool = True,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the mean squared error of the predicted probabilities. Lower is better; 0 is perfect.

    .. math:: \frac{1}{nK} \sum_i \sum_k (p_{ik} - 1\{y_i = k\})^2 \qquad p = \mathrm{softmax}(z)

    With ``per_class=False`` the sum over classes, between 0 and 2: Brier's own definition and
    ``sklearn.metrics.brier_score_loss(labels, p, scale_by_half=False)``. Division by K is the
    convention of the paper on unsupervised temperature scaling. The other arguments are those of
    `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0], [np.log(3.0), 0.0]])  # probabilities 3/4 and 1/4
    >>> round(tp.metrics.brier(z, [0, 1]), 6)  # (1/16 + 9/16) / 2
    0.3125
    >>> round(tp.metrics.brier(z, [0, 1], per_class=False), 6)
    0.625
    """
    found = evaluate(logits, labels, sample_weight, n_bins=1, classes=classes)
    return found.brier if per_class else found.brier * found.n_classes
