"""Selective prediction: how wrong the model is where it is most confident.

Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017; Geifman,
Uziel and El-Yaniv, "Bias-reduced uncertainty estimation for deep neural classifiers", ICLR 2019.
A threshold τ on the confidence κ accepts the rows with κ ≥ τ:

    coverage(τ) = share of rows accepted          risk(τ) = error rate among them

    AURC = (1/n) Σ_i risk(κ_i)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from temperance._core.arrays import Floats
from temperance.data import as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics._outcomes import Outcomes, gather, runs


class RiskCoverage(NamedTuple):
    """Risk against coverage, one point for each distinct confidence, from the highest down."""

    coverage: Floats
    risk: Floats
    threshold: Floats


def risk_coverage(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> RiskCoverage:
    r"""Return the error rate among the most confident rows, at every coverage. Lower is better.

    .. math:: \mathrm{coverage}(\tau) = \frac{1}{n} \sum_i 1\{\kappa_i \ge \tau\} \qquad
       \mathrm{risk}(\tau) = \frac{\sum_i 1\{\kappa_i \ge \tau\}\, 1\{\hat y_i \ne y_i\}}
       {\sum_i 1\{\kappa_i \ge \tau\}}

    with κ the largest softmax probability. Rows of equal confidence are accepted together or not
    at all, so there is one point for each distinct confidence and the order of rows is irrelevant.
    The last point is coverage 1 and the error rate of the model.

    A temperature keeps the ranking of classes but not of rows, so it can change this curve.

    Arrays ``coverage`` (rising to 1), ``risk`` and ``threshold`` (falling) are returned. The
    arguments are those of `accuracy`.

    Examples
    --------
    >>> import temperance as tp
    >>> z = tp.binary_logits([4.0, 3.0, 2.0, 1.0])
    >>> curve = tp.metrics.risk_coverage(z, [1, 1, 0, 1])
    >>> curve.coverage.tolist()
    [0.25, 0.5, 0.75, 1.0]
    >>> curve.risk.round(3).tolist()
    [0.0, 0.0, 0.333, 0.25]
    """
    return curve_of(gather(as_labelled_rows(logits, labels, sample_weight, classes=classes)))


def aurc(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the area under the risk-coverage curve. Lower is better.

    .. math:: \mathrm{AURC} = \frac{1}{n} \sum_i \mathrm{risk}(\kappa_i)

    the mean over rows of the error rate among the rows that are at least as confident. With
    distinct confidences this is the sum of Geifman et al., the mean of the risk over coverages
    1/n, 2/n … 1. Equal confidences share the risk at the end of their run, so that the order of
    rows is irrelevant and an integer weight equals repetition. It mixes accuracy with ranking:
    `excess_aurc` takes the accuracy out.

    The arguments are those of `accuracy`.

    Examples
    --------
    >>> import temperance as tp
    >>> z = tp.binary_logits([4.0, 3.0, 2.0, 1.0])
    >>> round(tp.metrics.aurc(z, [1, 1, 0, 1]), 6)  # (0 + 0 + 1/3 + 1/4) / 4
    0.145833
    """
    return area(risk_coverage(logits, labels, sample_weight, classes=classes))


def excess_aurc(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return AURC minus that of a perfect ranking at the same error rate. Lower is better.

    .. math:: \mathrm{E\text{-}AURC} = \mathrm{AURC} - \bigl( r + (1 - r) \log (1 - r) \bigr)

    with r the error rate. The bracket is the area of the curve that accepts every right row
    before the first wrong one, in the limit of many rows (Geifman et al., 2019); at n rows a
    perfect ranking is above 0 by less than ``1 / n``.

    The arguments are those of `accuracy`.

    Examples
    --------
    >>> import temperance as tp
    >>> z = tp.binary_logits([4.0, 3.0, 2.0, 1.0])
    >>> round(tp.metrics.excess_aurc(z, [1, 1, 0, 1]), 6)  # .145833 - (1/4 + 3/4 log 3/4)
    0.111595
    """
    return excess(risk_coverage(logits, labels, sample_weight, classes=classes))


def curve_of(o: Outcomes) -> RiskCoverage:
    """Return the curve of the outcomes of some rows."""
    value, run = runs(o.confidence)
    mass = np.bincount(run, o.mass)[::-1]
    wrong = np.bincount(run, o.mass * (1 - o.correct))[::-1]
    seen = mass > 0
    accepted, errors = np.cumsum(mass[seen]), np.cumsum(wrong[seen])
    return RiskCoverage(accepted / accepted[-1], errors / accepted, value[::-1][seen])


def area(curve: RiskCoverage) -> float:
    """Return AURC: the risk weighted by the rows of each run."""
    return float(np.diff(curve.coverage, prepend=0.0) @ curve.risk)


def excess(curve: RiskCoverage) -> float:
    """Return E-AURC."""
    r = float(curve.risk[-1])
    best = r + (1 - r) * math.log1p(-r) if r < 1 else 1.0
    return area(curve) - best
