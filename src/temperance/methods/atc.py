"""ATC: average thresholded confidence.

Garg, Balakrishnan, Lipton, Neyshabur and Sedghi, "Leveraging unlabeled data to predict
out-of-distribution performance", ICLR 2022. With a score s(x) of how certain the model is, the
threshold t is where the share of source rows below it is the error rate of the source,

    mean_source 1{s(x) < t} = mean_source 1{ŷ ≠ y},       accuracy = mean_target 1{s(x) > t}.

Two scores: the maximum confidence (ATC-MC) and the negative entropy (ATC-NE), both of the
probabilities at the temperature of the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from temperance._core.arrays import Floats, softmax_at
from temperance._core.stats import Interval, share_interval
from temperance.data.given import LabelledSample


def maximum_confidence(p: Floats) -> Floats:
    """Return the largest probability of each row."""
    return p.max(axis=1)


def negative_entropy(p: Floats) -> Floats:
    """Return Σ_k p_k log p_k of each row."""
    return -np.asarray(entr(p)).sum(axis=1)


def estimate_atc(
    target: NDArray[Any],
    source: LabelledSample,
    temperature: float,
    score: Callable[[Floats], Floats] = maximum_confidence,
) -> Interval:
    """Return the share of target rows above the source's threshold."""
    n = len(source.labels)
    error = float((source.logits.argmax(axis=1) != source.labels).mean())
    error = min(max(error, 0.5 / n), 1 - 0.5 / n)  # half a row from 0 and 1
    threshold = np.quantile(score(softmax_at(source.logits, temperature)), error)
    accuracy = float((score(softmax_at(target, temperature)) > threshold).mean())
    return share_interval(accuracy, len(target), n)
