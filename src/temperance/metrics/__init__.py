"""Metrics: logits first, labels second; every number is a mean over rows, in float64 sums."""

from __future__ import annotations

from temperance.metrics.binned import Bins, adaptive_ece, classwise_ece, ece
from temperance.metrics.bootstrap import bootstrap
from temperance.metrics.evaluation import Evaluation, accuracy, brier, evaluate, nll
from temperance.metrics.selective import RiskCoverage, aurc, excess_aurc, risk_coverage
from temperance.metrics.smooth import smooth_ece

__all__ = [
    "Bins",
    "Evaluation",
    "RiskCoverage",
    "accuracy",
    "adaptive_ece",
    "aurc",
    "bootstrap",
    "brier",
    "classwise_ece",
    "ece",
    "evaluate",
    "excess_aurc",
    "nll",
    "risk_coverage",
    "smooth_ece",
]
