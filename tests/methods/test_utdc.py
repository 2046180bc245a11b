"""UTDC: its objective by a plain grid, and what it does under a fall of accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import temperance as tp


def drawn(n, signal, seed, k=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return 6.0 * (signal * np.eye(k)[y] + rng.normal(size=(n, k))), y


def objective(z, s, y, accuracy, temperature):
    """Adaptive calibration error to the source's bin accuracies times one ratio."""
    correct = (s.argmax(axis=1) == y)[np.argsort(softmax(s, axis=1).max(axis=1), kind="stable")]
    wanted = np.array([part.mean() for part in np.array_split(correct, 15)])
    wanted = np.minimum(1, wanted * accuracy / correct.mean())
    top = np.sort(softmax(z / temperature, axis=1).max(axis=1))
    return np.abs(wanted - [part.mean() for part in np.array_split(top, 15)]).mean()


def test_the_temperature_minimises_the_adaptive_error_to_the_scaled_bins():
    (s, y), (z, _) = drawn(1_500, 2.0, 0), drawn(1_200, 1.4, 1)
    fitted = tp.fit_utdc(z, (s, y), accuracy=0.6).temperature
    grid = np.geomspace(0.5, 200, 400)
    errors = [objective(z, s, y, 0.6, t) for t in grid]
    assert objective(z, s, y, 0.6, fitted) <= min(errors) + 1e-6
    assert fitted == pytest.approx(grid[np.argmin(errors)], rel=0.03)


def test_with_the_true_accuracy_the_mean_confidence_is_near_the_accuracy():
    (s, y), (z, truth) = drawn(4_000, 2.0, 2), drawn(4_000, 1.3, 3)
    accuracy = float((z.argmax(axis=1) == truth).mean())
    fitted = tp.fit_utdc(z, (s, y), accuracy=accuracy)
    assert abs(fitted.predict_proba(z).max(axis=1).mean() - accuracy) < 0.03
    assert tp.metrics.ece(fitted(z), truth) < 0.25 * tp.metrics.ece(z, truth)


def test_the_accuracy_is_that_of_atc_where_none_is_given():
    (s, y), (z, _) = drawn(3_000, 2.0, 4), drawn(3_000, 1.5, 5)
    threshold = np.quantile(softmax(s, axis=1).max(axis=1), (s.argmax(axis=1) != y).mean())
    estimate = (softmax(z, axis=1).max(axis=1) > threshold).mean()
    given = tp.fit_utdc(z, (s, y), accuracy=estimate).temperature
    assert tp.fit_utdc(z, (s, y)).temperature == pytest.approx(given, rel=1e-6)


def test_what_cannot_be_fitted_is_said():
    z, y = drawn(300, 2.0, 6)
    with pytest.raises(tp.InputError, match="accuracy must be"):
        tp.fit_utdc(z, (z, y), accuracy=1.5)
    with pytest.raises(tp.NotIdentified, match="source accuracy is 0"):
        tp.fit_utdc(z, (z, (z.argmax(axis=1) + 1) % 5), accuracy=0.5)
    with pytest.raises(tp.NotIdentified, match="constant in every row"):
        tp.fit_utdc(np.zeros((50, 5)), (z, y), accuracy=0.5)
