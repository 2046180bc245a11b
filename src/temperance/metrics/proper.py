"""Accuracy and the two proper scores, as means over rows.

Proper: the expected score is best when the predicted probabilities are the true ones, so a model
cannot gain by lying. Prefer them to any calibration error when models are to be ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from temperance._core import checks
from temperance._core.kernels_numpy import EvaluationSums
from temperance.data import Rows, as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics._outcomes import sum_outcomes

ONE_BIN = np.array([0.0, 1.0])  # edges for scores without bins


@final
@dataclass(frozen=True, slots=True)
class Scores:
    """Sums of accuracy, NLL and Brier score over rows; ``+`` adds the rows of another.

    Attributes
    ----------
    n_classes : int
    weight : float
        Number of rows, or the sum of their weights.
    correct_sum, nll_sum, brier_sum : float
        Sums over rows; the Brier score is summed over classes too.

    Examples
    --------
    >>> monday = Scores(n_classes=2, weight=3, correct_sum=2, nll_sum=1.5, brier_sum=0.9)
    >>> tuesday = Scores(n_classes=2, weight=1, correct_sum=1, nll_sum=0.1, brier_sum=0.1)
    >>> (monday + tuesday).accuracy
    0.75
    """

    n_classes: int
    weight: float
    correct_sum: float
    nll_sum: float
    brier_sum: float

    @classmethod
    def from_sums(cls, sums: EvaluationSums, n_classes: int) -> Scores:
        """Return the scores among the sums of a pass; without weights ``weight`` is an integer."""
        weight, correct, nll, brier = sums.scores.tolist()
        return cls(n_classes, weight if sums.weighted else int(weight), correct, nll, brier)

    def __add__(self, other: Scores) -> Scores:
        checks.check_same_classes(other.n_classes, self.n_classes, "the scores to add")
        return Scores(
            self.n_classes,
            self.weight + other.weight,
            self.correct_sum + other.correct_sum,
            self.nll_sum + other.nll_sum,
            self.brier_sum + other.brier_sum,
        )

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right. Higher is better."""
        return self.correct_sum / self.weight

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood. Lower is better."""
        return self.nll_sum / self.weight

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities, over rows and classes. Lower is better."""
        return self.brier_sum / (self.weight * self.n_classes)


def score(rows: Rows) -> Scores:
    """Return the scores of labelled rows: one pass."""
    return Scores.from_sums(sum_outcomes(rows, ONE_BIN), rows.n_classes)


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
    return score(as_labelled_rows(logits, labels, sample_weight, classes=classes)).accuracy


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

    Parameters
    ----------
    logits : array of shape (n, K) or rows
        Scores before the softmax.
    labels : array of shape (n,) or (n, K)
        Class indices, or soft labels that sum to one in each row.
    sample_weight : array of shape (n,), optional
        Non-negative weights; an integer weight equals repetition.
    classes : sequence of K names, optional
        Names of the columns, in which labels in words are looked up.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0], [np.log(3.0), 0.0]])  # probabilities 3/4 and 1/4
    >>> round(tp.metrics.nll(z, [0, 1]), 6)  # (log 4/3 + log 4) / 2
    0.836988
    """
    return score(as_labelled_rows(logits, labels, sample_weight, classes=classes)).nll


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

    Parameters
    ----------
    logits, labels, sample_weight, classes
        Labelled rows; see `nll`.
    per_class : bool
        True divides by K, the convention of the paper on unsupervised temperature scaling. False
        is the sum over classes, between 0 and 2: Brier's own definition and
        ``sklearn.metrics.brier_score_loss(labels, p, scale_by_half=False)``.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0], [np.log(3.0), 0.0]])  # probabilities 3/4 and 1/4
    >>> round(tp.metrics.brier(z, [0, 1]), 6)  # (1/16 + 9/16) / 2
    0.3125
    >>> round(tp.metrics.brier(z, [0, 1], per_class=False), 6)
    0.625
    """
    scores = score(as_labelled_rows(logits, labels, sample_weight, classes=classes))
    return scores.brier if per_class else scores.brier * scores.n_classes
