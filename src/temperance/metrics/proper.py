"""Accuracy and the two proper scores, as means over rows.

Proper: the expected score is best when the predicted probabilities are the true ones, so a model
cannot gain by lying. Prefer them to any calibration error when models are to be ranked.
"""

from __future__ import annotations

from collections.abc import Sequence

from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics.evaluation import evaluate


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
    found = evaluate(logits, labels, sample_weight, n_bins=1, classes=classes)
    return found.brier if per_class else found.brier * found.n_classes
