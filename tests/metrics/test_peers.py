"""Peers, and where they differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from simulated import logits, softmax
from sklearn.metrics import log_loss
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

import temperance as tp
from temperance import metrics


@pytest.mark.parametrize("n_bins", [10, 15])
def test_ece_equals_torchmetrics(n_bins):
    """Its sums are float32, hence the tolerance."""
    z, y = logits(3000, 6, sharpness=2.0)
    peer = multiclass_calibration_error(
        torch.from_numpy(softmax(z)), torch.from_numpy(y), num_classes=6, n_bins=n_bins, norm="l1"
    )
    assert metrics.ece(z, y, n_bins=n_bins) == pytest.approx(float(peer), abs=2e-6)


def test_torchmetrics_closes_bins_on_the_left():
    """Confidence 1/2 and ten bins: here with (0.4, 0.5], there with [0.5, 0.6)."""
    z = tp.binary_logits([0.0, 0.0, np.log(0.45 / 0.55), np.log(0.58 / 0.42)])
    confidence, correct = np.array([0.5, 0.5, 0.55, 0.58]), np.array([1, 0, 1, 0])
    labels = np.where(correct, z.argmax(axis=1), 1 - z.argmax(axis=1))
    peer = binary_calibration_error(
        torch.from_numpy(confidence), torch.from_numpy(correct), n_bins=10, norm="l1"
    )
    together = abs(confidence.sum() - correct.sum()) / 4
    apart = (abs(1.0 - 1) + abs(1.13 - 1)) / 4
    assert metrics.ece(z, labels, n_bins=10) == pytest.approx(apart)
    assert float(peer) == pytest.approx(together)


def test_scikit_learn_clips_float32_probabilities():
    """A probability below float32's epsilon costs log eps there, whatever the logits say."""
    z = np.array([[30.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    peer = log_loss([1, 0], softmax(z))
    exact = (np.log1p(np.exp(-30.0)) + 30 + np.log1p(np.exp(-1.0))) / 2
    assert metrics.nll(z, [1, 0]) == pytest.approx(exact, rel=1e-14)
    assert peer < exact - 5
