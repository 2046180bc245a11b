from __future__ import annotations

from inspect import signature

import mpmath
import numpy as np
import pytest
from simulated import logits, softmax
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

import temperance as tp
from temperance import metrics
from temperance._core.checks import LARGEST


def exact(z, y):
    """NLL and Brier score with fifty digits."""
    with mpmath.workdps(50):
        nll = brier = mpmath.mpf(0)
        for row, label in zip(np.asarray(z).tolist(), y, strict=True):
            e = [mpmath.exp(mpmath.mpf(v)) for v in row]
            p = [v / mpmath.fsum(e) for v in e]
            nll -= mpmath.log(p[label])
            brier += mpmath.fsum((v - (k == label)) ** 2 for k, v in enumerate(p))
        return float(nll / len(y)), float(brier / len(y))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 5, 200])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 60.0])
def test_nll_and_brier_are_those_of_fifty_digits(dtype, k, scale):
    z, y = logits(12, k, scale=scale, seed=k)
    z = z.astype(dtype)
    nll, brier = exact(z.astype(np.float64), y)
    assert metrics.nll(z, y) == pytest.approx(nll, rel=1e-13)
    assert metrics.brier(z, y, per_class=False) == pytest.approx(brier, rel=1e-12)
    assert metrics.brier(z, y) == pytest.approx(brier / k, rel=1e-12)


@pytest.mark.skipif(
    "scale_by_half" not in signature(brier_score_loss).parameters, reason="scikit-learn before 1.7"
)
def test_equal_to_scikit_learn():
    z, y = logits(5000, 7, sharpness=2.0)
    p = softmax(z)
    assert metrics.accuracy(z, y) == accuracy_score(y, z.argmax(axis=1))
    assert metrics.nll(z, y) == pytest.approx(log_loss(y, p), rel=1e-13)
    sum_form = brier_score_loss(y, p, labels=np.arange(7), scale_by_half=False)
    assert metrics.brier(z, y, per_class=False) == pytest.approx(sum_form, rel=1e-13)


def test_equal_to_scikit_learn_with_weights():
    z, y = logits(500, 4)
    w = np.random.default_rng(1).gamma(1.0, size=500)
    predicted = z.argmax(axis=1)
    assert metrics.accuracy(z, y, w) == pytest.approx(
        accuracy_score(y, predicted, sample_weight=w), rel=1e-13
    )
    assert metrics.nll(z, y, w) == pytest.approx(
        log_loss(y, softmax(z), sample_weight=w), rel=1e-13
    )


def test_a_confident_mistake_is_not_clipped():
    z = np.array([[1e5, 0.0], [1e5, 0.0]], dtype=np.float32)
    assert metrics.nll(z, [1, 0]) == 5e4  # scikit-learn says log of its smallest probability


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_at_the_ends_of_their_range(dtype):
    big = 0.9 * min(float(np.finfo(dtype).max), LARGEST)
    z = np.array([[big, -big], [big, -big]], dtype=dtype)
    many = np.repeat(z, 200_000, axis=0)  # beyond SMALL: the fast exponentials
    for rows in (z, many):
        y = np.zeros(len(rows), dtype=int)
        assert metrics.nll(rows, y) == 0
        assert metrics.nll(rows, 1 - y) == pytest.approx(2 * big, rel=1e-6)
        assert metrics.brier(rows, 1 - y) == 1


def test_of_equal_logits_the_first_is_chosen():
    z = np.zeros((3, 3))
    assert metrics.accuracy(z, [0, 1, 2]) == pytest.approx(1 / 3)
    assert metrics.accuracy(z, [0, 0, 0]) == 1


def test_constant_logits_know_nothing():
    z, y = np.full((10, 4), 7.5), np.arange(10) % 4
    assert metrics.nll(z, y) == pytest.approx(np.log(4), rel=1e-15)
    assert metrics.brier(z, y, per_class=False) == pytest.approx(0.75, rel=1e-15)


def test_soft_labels_are_weighted_hard_labels():
    z, _ = logits(40, 3)
    soft = softmax(np.random.default_rng(2).normal(size=(40, 3)))
    every = np.repeat(z, 3, axis=0)
    labels, weight = np.tile(np.arange(3), 40), soft.ravel()
    for metric in (metrics.accuracy, metrics.nll):  # linear in the label
        assert metric(z, soft) == pytest.approx(metric(every, labels, weight), rel=1e-13)
    gap = ((softmax(z) - soft) ** 2).sum(axis=1).mean()
    assert metrics.brier(z, soft, per_class=False) == pytest.approx(gap, rel=1e-13)


def test_evaluations_add():
    z, y = logits(300, 4)
    w = np.random.default_rng(3).random(300)
    whole = metrics.evaluate(z, y, w)
    parts = [metrics.evaluate(z[i], y[i], w[i]) for i in (slice(0, 1), slice(1, None))]
    added = parts[0] + parts[1]
    for name in ("accuracy", "nll", "brier"):
        assert getattr(added, name) == pytest.approx(getattr(whole, name), rel=1e-14)
    with pytest.raises(tp.InputError, match="4 columns"):
        parts[0] + metrics.evaluate(*logits(300, 5))


def test_needs_labels():
    with pytest.raises(tp.InputError, match="labels"):
        metrics.nll(np.zeros((2, 2)))
