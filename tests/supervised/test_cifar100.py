"""The paper's CIFAR-100 / DenseNet-40 protocol, on its authors' own logits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedShuffleSplit

import temperance as tp

DRAWS, ROWS = 20, 2_000


@pytest.fixture(scope="module")
def measured(shared_data):
    with np.load(shared_data / "logits" / "cifar100_densenet40.npz") as data:
        z, y = data["logits"], data["labels"]
    draws = StratifiedShuffleSplit(n_splits=DRAWS, train_size=ROWS, random_state=0)
    numbers = []
    for here, there in draws.split(z, y):
        fitted = tp.fit_temperature(z[here], y[here])
        before = tp.metrics.evaluate(z[there], y[there])
        after = tp.metrics.evaluate(fitted(z[there]), y[there])
        numbers.append([before.nll, before.ece, after.nll, after.ece, fitted.temperature])
    return dict(
        zip(
            ["nll_before", "ece_before", "nll_after", "ece_after", "temperature"],
            np.mean(numbers, axis=0),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("name", "published", "tolerance"),
    [
        ("nll_before", 1.091, 0.003),
        ("ece_before", 0.086, 0.002),
        ("nll_after", 1.002, 0.003),
        ("ece_after", 0.012, 0.003),
        ("temperature", 1.44, 0.02),
    ],
)
def test_temperature_scaling_repeats_the_published_numbers(measured, name, published, tolerance):
    assert measured[name] == pytest.approx(published, abs=tolerance)
