from __future__ import annotations

import numpy as np
import pytest
import relplot
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from simulated import logits, softmax

import temperance as tp
from temperance import metrics


def kernel(t, f, sigma):
    """Gaussian reflected at 0 and 1, as a sum over images."""
    images = [sign * f + 2 * m for m in range(-4, 5) for sign in (1, -1)]
    near = np.exp(-((t - np.array(images)[:, None]) ** 2) / (2 * sigma**2)).sum(axis=0)
    return near / (sigma * np.sqrt(2 * np.pi))


def smooth_ece_by_quadrature(confidence, residual):
    """The fixed point of the definition, integrated by the trapezium rule."""
    t = np.linspace(0, 1, 20_001)

    def error(sigma):
        pieces = [r * kernel(t, f, sigma) for f, r in zip(confidence, residual, strict=True)]
        return trapezoid(np.abs(np.mean(pieces, axis=0)), t)

    return brentq(lambda sigma: error(sigma) - sigma, 0.01, 2.0, xtol=1e-12)


@pytest.mark.parametrize(
    ("confidence", "correct"),
    [
        ([0.6, 0.9], [1, 0]),
        ([0.55, 0.75, 0.97], [1, 0, 1]),
        ([0.999, 0.51], [0, 1]),
        ([0.8, 0.81, 0.82, 0.83], [1, 0, 1, 1]),
    ],
)
def test_the_fixed_point_by_quadrature(confidence, correct):
    score = np.log(confidence) - np.log1p(-np.asarray(confidence))
    expected = smooth_ece_by_quadrature(confidence, np.asarray(correct) - confidence)
    assert metrics.smooth_ece(tp.binary_logits(score), correct) == pytest.approx(expected, abs=2e-8)


def test_gaps_of_one_sign_add_up_whatever_the_bandwidth():
    z, _ = logits(3000, 5, sharpness=2.0)
    never = z.argmin(axis=1)
    confidence = softmax(z).max(axis=1)
    assert metrics.smooth_ece(z, never) == pytest.approx(confidence.mean(), rel=1e-9)


@pytest.mark.parametrize("gap", [0.0, 1e-6, 1e-5, 1e-4])
def test_errors_below_the_width_of_a_cell(gap):
    z = np.array([[np.log(3.0 - 16 * gap), 0.0]] * 4)
    confidence = softmax(z)[0, 0]
    assert metrics.smooth_ece(z, [0, 0, 0, 1]) == pytest.approx(0.75 - confidence, abs=5e-8)


def test_all_wrong_and_sure_is_one():
    assert metrics.smooth_ece(np.array([[1e4, 0.0]] * 3), [1, 1, 1]) == pytest.approx(1)


@pytest.mark.parametrize("sharpness", [0.3, 0.7, 1.0, 1.3])
@pytest.mark.parametrize("n", [200, 2000, 20_000])
def test_equal_to_relplot(n, sharpness):
    z, y = logits(n, 5, sharpness=sharpness, scale=1.2, seed=n)
    confidence, correct = softmax(z).max(axis=1), z.argmax(axis=1) == y
    expected = relplot.smECE(confidence, correct.astype(float))
    assert metrics.smooth_ece(z, y) == pytest.approx(expected, abs=1.5e-3)


def test_relplot_counts_half_of_a_row_with_confidence_one():
    """A disagreement, written down: its reflection leaves out the last point of the grid.

    Half of the rows are sure and wrong (gap 1), half have confidence 1/2 and half of them are
    right (gap 0): the error is 1/2.
    """
    z = np.array([[1e4, 0.0], [1e4, 0.0], [1e-9, 0.0], [1e-9, 0.0]])
    y = [1, 1, 0, 1]
    peer = relplot.smECE(np.array([1.0, 1.0, 0.5, 0.5]), np.array([0.0, 0.0, 1.0, 0.0]))
    assert metrics.smooth_ece(z, y) == pytest.approx(0.5, abs=1e-6)
    assert peer == pytest.approx(1 / 3, abs=0.01)


def test_certain_rows_are_smoothed_like_almost_certain_ones():
    z = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    certain, almost = (metrics.smooth_ece(margin * z, [0, 0, 1]) for margin in (800.0, 20.0))
    assert certain == pytest.approx(almost, rel=1e-6)
