"""DoC: difference of confidences.

Guillory, Shankar, Ebrahimi, Darrell and Schmidt, "Predicting with confidence on unseen
distributions", ICCV 2021. The accuracy falls from source to target by as much as the mean
confidence does,

    accuracy = accuracy_source - (confidence_source - confidence_target),

with confidences at the temperature of the source.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from temperance._core.arrays import softmax_at
from temperance._core.stats import Interval, normal_interval
from temperance.data.given import LabelledSample


def estimate_doc(target: NDArray[Any], source: LabelledSample, temperature: float) -> Interval:
    """Return the accuracy of the source less the fall of the mean confidence."""
    before = softmax_at(source.logits, temperature).max(axis=1)
    after = softmax_at(target, temperature).max(axis=1)
    correct = source.logits.argmax(axis=1) == source.labels
    accuracy = float(correct.mean() - before.mean() + after.mean())
    variance = (correct - before).var() / len(before) + after.var() / len(after)
    return normal_interval(accuracy, math.sqrt(float(variance)))
