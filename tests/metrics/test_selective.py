from __future__ import annotations

import itertools

import numpy as np
import pytest
from simulated import logits, softmax

import temperance as tp
from temperance import metrics


def test_the_curve_is_its_definition():
    z, y = logits(300, 4, sharpness=1.5)
    z = z.round(1)  # some ties
    p = softmax(z)
    confidence, wrong = p.max(axis=1), p.argmax(axis=1) != y
    curve = metrics.risk_coverage(z, y)
    assert len(curve.threshold) == len(np.unique(confidence))
    assert (np.diff(curve.threshold) < 0).all()
    for coverage, risk, threshold in zip(*curve, strict=True):
        accepted = confidence >= threshold - 1e-14
        assert coverage == pytest.approx(accepted.mean())
        assert risk == pytest.approx(wrong[accepted].mean())
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - metrics.accuracy(z, y))


def test_aurc_is_the_mean_risk_over_coverages():
    z, y = logits(500, 6)
    p = softmax(z)
    wrong = (p.argmax(axis=1) != y)[np.argsort(-p.max(axis=1))]
    risks = np.cumsum(wrong) / np.arange(1, 501)
    assert metrics.aurc(z, y) == pytest.approx(risks.mean(), rel=1e-12)


def test_ties_share_the_risk_at_the_end_of_their_run():
    z = tp.binary_logits([2.0, 2.0, 2.0, 1.0])
    assert metrics.aurc(z, [0, 1, 1, 1]) == pytest.approx((3 * 1 / 3 + 1 / 4) / 4)


@pytest.mark.parametrize("right", [0, 1, 700, 999, 1000])
def test_a_perfect_ranking_has_no_excess(right):
    """Right rows are more confident than wrong ones; the sum differs from the integral by < 1/n."""
    n = 1000
    z = tp.binary_logits(np.linspace(5.0, 0.1, n))
    y = (np.arange(n) < right).astype(int)
    best = np.cumsum(y == 0) / np.arange(1, n + 1)
    assert metrics.aurc(z, y) == pytest.approx(best.mean(), abs=1e-14)
    assert 0 <= metrics.excess_aurc(z, y) + 1e-15 < 1 / n


def test_a_random_ranking_has_the_error_rate_as_area():
    rng = np.random.default_rng(0)
    z = tp.binary_logits(2 * rng.random(100_000))
    y = rng.random(100_000) < 0.7
    assert metrics.aurc(z, y) == pytest.approx(0.3, abs=0.01)


def test_one_row():
    z = np.array([[1.0, 0.0]])
    assert metrics.aurc(z, [0]) == 0
    assert metrics.aurc(z, [1]) == 1
    assert metrics.excess_aurc(z, [1]) == 0


@pytest.mark.parametrize("metric", [metrics.aurc, metrics.adaptive_ece])
def test_equal_confidences_are_equal_in_every_order_of_the_classes(metric):
    rng = np.random.default_rng(0)
    z, y = rng.integers(3, size=(64, 3)).astype(float), rng.integers(3, size=64)
    z[np.arange(64), y] += rng.integers(2, size=64)
    values = []
    for order in itertools.permutations(range(3)):
        place = np.argsort(order)
        keep = (z == z.max(axis=1, keepdims=True)).sum(axis=1) == 1  # whose prediction is the same
        values.append(metric(z[keep][:, order], place[y[keep]]))
    assert np.ptp(values) < 1e-12
