"""Metrics against their definitions in 80-bit arithmetic, for every shape, type and extreme."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import logits

import temperance as tp
from temperance import metrics


def reference(z, y, weight=None, n_bins=15):
    """Return the numbers of `metrics.evaluate` by their definitions, in long doubles."""
    wide = z.astype(np.longdouble)
    w = np.ones(len(z), np.longdouble) if weight is None else weight.astype(np.longdouble)
    u = wide - wide.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(u).sum(axis=1))
    p = np.exp(u - log_total[:, None])
    confidence, correct = p.max(axis=1), wide.argmax(axis=1) == y
    place = np.maximum(np.ceil(confidence * n_bins).astype(int) - 1, 0)
    gaps = [(w * (correct - confidence))[place == b].sum() for b in range(n_bins)]
    truth = np.arange(z.shape[1]) == y[:, None]
    means = {
        "accuracy": correct,
        "confidence": confidence,
        "nll": log_total - u[truth],
        "brier": ((p - truth) ** 2).mean(axis=1),
    }
    found = {name: float((w * value).sum() / w.sum()) for name, value in means.items()}
    return found | {"n": float(w.sum()), "ece": float(np.abs(gaps).sum() / w.sum())}


def check(z, y, weight=None, rel=1e-12):
    found = metrics.evaluate(z, y, weight)
    for name, wanted in reference(z, y, weight).items():
        assert getattr(found, name) == pytest.approx(wanted, rel=rel, abs=1e-14), name


@pytest.mark.parametrize(
    "shape", [(1, 2), (65, 3), (200, 10), (64, 31), (64, 32), (3, 33), (50, 1001)]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_evaluation_is_its_definition(shape, dtype, weighted):
    z, y = logits(*shape, scale=3.0)
    weight = np.random.default_rng(0).exponential(size=len(y)) if weighted else None
    check(z.astype(dtype), y, weight, rel=1e-12 if dtype == np.float64 else 1e-7)


@pytest.mark.parametrize("k", [4, 40])
def test_of_equal_logits_the_first_is_chosen(k):
    z = np.random.default_rng(0).integers(3, size=(500, k)).astype(float)
    y = np.random.default_rng(1).integers(k, size=500)
    assert metrics.evaluate(z, y).accuracy == (z.argmax(axis=1) == y).mean()
    assert metrics.accuracy(z, y) == (z.argmax(axis=1) == y).mean()


@pytest.mark.parametrize("n_bins", [1, 7, 10, 15, 100])
def test_confidences_beside_an_edge_are_counted_on_their_side(n_bins):
    edges = np.array([j / n_bins for j in range(n_bins + 1)])
    near = np.clip(np.concatenate([np.nextafter(edges, 0), np.nextafter(edges, 1)]), 0, 1)
    confidence = np.concatenate([np.random.default_rng(3).random(2000), near, edges])
    bins = metrics.Bins.equal_width(confidence, np.ones(confidence.size), n_bins=n_bins)
    place = np.searchsorted(edges[1:-1], confidence)
    assert bins.counts.tolist() == np.bincount(place, minlength=n_bins).tolist()
    np.testing.assert_allclose(
        bins.confidence, np.bincount(place, confidence, minlength=n_bins), rtol=1e-13
    )


@pytest.mark.parametrize("k", [3, 5, 15])
def test_rows_without_an_opinion_are_on_an_edge(k):
    """A confidence of exactly 1/k is the upper end of a bin, and belongs to that bin."""
    rng = np.random.default_rng(k)
    flat = rng.random((640, 1)) < 0.5
    z = np.where(flat, 0.0, 30 * rng.normal(size=(640, k)) + 1)
    counts = metrics.evaluate(z, rng.integers(k, size=640)).bins.counts
    others = np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1) ** -1
    low, high = 1 / k - 1 / 15, 1 / k
    inside = (others > low + 1e-9) & (others <= high + 1e-12)
    assert counts[15 // k - 1] == inside.sum() >= flat.sum() > 0


@pytest.mark.parametrize("k", [10, 40])
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e37), (np.float64, 1e98)])
def test_logits_whose_squares_overflow_are_evaluated(k, dtype, scale):
    z, y = logits(300, k)
    check((z * scale / np.abs(z).max()).astype(dtype), y)


@pytest.mark.parametrize("beyond", [0, 1 << 40, (1 << 63) - 101, -101, -(1 << 63)])
@pytest.mark.parametrize("row", [0, 63, 64, 30_004])
@pytest.mark.parametrize("k", [10, 100])
def test_a_label_without_a_column_is_named(k, row, beyond):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(30_005, k)), rng.integers(k, size=30_005)
    y[row] = k + beyond
    for given in (z, np.where(np.arange(30_005)[:, None] == row, np.nan, z)):  # labels come first
        with pytest.raises(tp.InputError, match=f"Row {row} holds {y[row]};"):
            metrics.evaluate(given, y)


@pytest.mark.parametrize("k", [3, 10, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e101])
def test_a_logit_that_cannot_be_used_is_named(k, bad):
    z, y = logits(20_000, k)
    z[17_321, k - 1] = bad
    for metric in (metrics.evaluate, metrics.ece, metrics.nll):
        with pytest.raises(tp.InputError, match=f"Row 17321, class {k - 1}"):
            metric(z, y)


def test_sums_of_very_sure_rows_are_exact():
    z = np.zeros((6400, 4))
    z[:, 1] = np.linspace(20, 45, 6400)
    expected = np.log1p(3 * np.exp(-z[:, 1]))
    result = metrics.evaluate(z, np.ones(6400, int))
    assert result.nll == pytest.approx(expected.mean(), rel=1e-6, abs=1e-17)
    assert result.accuracy == 1
