"""Metrics: logits first, labels second; every number is a mean over rows, in float64 sums."""

from __future__ import annotations

from temperance.metrics.binned import Bins, adaptive_ece, classwise_ece, ece
from temperance.metrics.evaluation import Evaluation, evaluate
from temperance.metrics.proper import Scores, accuracy, brier, nll

__all__ = [
    "Bins",
    "Evaluation",
    "Scores",
    "accuracy",
    "adaptive_ece",
    "brier",
    "classwise_ece",
    "ece",
    "evaluate",
    "nll",
]
