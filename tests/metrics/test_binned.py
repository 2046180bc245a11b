from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import logits, softmax

import temperance as tp
from temperance import metrics
from temperance.metrics import Bins


def ece_by_loops(confidence, correct, n_bins):
    """The definition, read aloud."""
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = (confidence > low) & (confidence <= high) | ((b == 0) & (confidence == 0))
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 100])
@pytest.mark.parametrize("k", [2, 10])
def test_ece_is_its_definition(n_bins, k):
    z, y = logits(700, k, sharpness=1.7, seed=k)
    p = softmax(z)
    expected = ece_by_loops(p.max(axis=1), p.argmax(axis=1) == y, n_bins)
    assert metrics.ece(z, y, n_bins=n_bins) == pytest.approx(expected, rel=1e-12)


def test_ece_of_one_bin_is_confidence_minus_accuracy():
    z, y = logits(1000, 5, sharpness=3.0)
    result = metrics.evaluate(z, y, n_bins=1)
    assert result.ece == pytest.approx(result.confidence - result.accuracy, rel=1e-12)


@pytest.mark.parametrize("n_bins", [1, 3, 7, 10, 15, 20, 49, 100, 1000])
def test_bins_are_closed_on_the_right(n_bins):
    edges = np.array([j / n_bins for j in range(n_bins + 1)])
    above = np.nextafter(edges[:-1], 1)
    at, beyond = (Bins.equal_width(c, c, n_bins=n_bins).counts for c in (edges, above))
    assert at.tolist() == [2, *[1] * (n_bins - 1)]  # 0 joins the first bin, 1 is in the last
    assert beyond.tolist() == [1] * n_bins


@given(st.lists(st.floats(0, 1), min_size=1), st.integers(1, 200))
def test_counts_are_those_of_a_search_among_the_edges(confidence, n_bins):
    edges = np.array([j / n_bins for j in range(1, n_bins)])
    expected = np.bincount(np.searchsorted(edges, confidence), minlength=n_bins)
    found = Bins.equal_width(np.array(confidence), np.ones(len(confidence)), n_bins=n_bins)
    assert found.counts.tolist() == expected.tolist()


def test_confidence_of_exactly_0_and_1():
    bins = Bins.equal_width(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0]))
    assert bins.counts.tolist() == [1, *[0] * 13, 2]
    assert bins.ece == pytest.approx((1 + 1) / 3)
    z = np.array([[1000.0, 0.0], [1000.0, 0.0], [0.0, 1000.0]])  # probabilities 1 and 0
    assert metrics.ece(z, [0, 0, 0]) == pytest.approx(1 / 3)
    assert metrics.classwise_ece(z, [0, 0, 0]) == pytest.approx(1 / 3)


def test_thirty_million_rows_in_one_bin():
    """Sums in float32 stop at 2^24; so do those of a peer, which returns 0 here."""
    n, right = 30_000, 24_000
    logit = np.log(0.97 / 0.03)
    z = tp.binary_logits(np.full(n, logit, dtype=np.float32))
    day = metrics.evaluate(z, np.arange(n) < right)
    total = day
    for _ in range(999):
        total = total + day
    assert total.bins.counts.sum() == total.n == 30_000_000
    assert total.ece == pytest.approx(0.17, abs=1e-8)
    assert total.nll == pytest.approx(day.nll, rel=1e-12)


@pytest.mark.slow
def test_thirty_million_rows_in_one_call():
    n = 30_000_000
    z = np.broadcast_to(np.array([[0.0, np.log(0.97 / 0.03)]], dtype=np.float32), (n, 2))
    labels = np.ones(n, dtype=np.int64)
    labels[: n // 5] = 0
    assert metrics.ece(z, labels) == pytest.approx(0.17, abs=1e-7)


def test_rows_at_an_edge_are_binned_as_in_float64():
    """Float32 exponentials err by 1e-7; the bin of a row does not depend on them."""
    rng = np.random.default_rng(0)
    edge = rng.integers(8, 15, size=300_000) / 15
    score = np.log(edge / (1 - edge)).astype(np.float32)
    score += rng.integers(-3, 4, size=score.size) * np.spacing(score)
    z, y = tp.binary_logits(score), rng.integers(0, 2, size=score.size)
    fast, exact = metrics.evaluate(z, y).bins, metrics.evaluate(z.astype(np.float64), y).bins
    assert np.array_equal(fast.counts, exact.counts)
    assert np.array_equal(fast.correct, exact.correct)
    assert len(np.flatnonzero(exact.counts)) > 7


@pytest.mark.parametrize("cuts", [[1], [1, 2, 3], [500], [17, 400, 999]])
def test_merged_bins_have_the_counts_of_the_whole(cuts):
    z, y = logits(1000, 6, sharpness=2.0)
    z = z.astype(np.float32)
    whole = metrics.evaluate(z, y).bins
    pieces = zip(np.split(z, cuts), np.split(y, cuts), strict=True)
    first, *rest = (metrics.evaluate(*piece).bins for piece in pieces)
    merged = sum(rest, start=first)
    assert np.array_equal(merged.counts, whole.counts)
    assert np.array_equal(merged.correct, whole.correct)
    assert merged.ece == pytest.approx(whole.ece, rel=1e-13)
    assert whole.counts.dtype.kind == "i"


def test_only_bins_with_equal_edges_add():
    confidence, correct = np.array([0.3, 0.7]), np.array([0.0, 1.0])
    ten = Bins.equal_width(confidence, correct, n_bins=10)
    assert ten == Bins.equal_width(confidence, correct, n_bins=10)
    assert ten != Bins.equal_width(confidence, 1 - correct, n_bins=10)
    for other in (
        Bins.equal_width(confidence, correct, n_bins=11),
        Bins.equal_mass(confidence, correct, n_bins=10),
    ):
        with pytest.raises(tp.InputError, match="same edges"):
            ten + other


@pytest.mark.parametrize("n", [15, 16, 29, 1000])
def test_adaptive_bins_hold_equally_many_rows(n):
    rng = np.random.default_rng(n)
    confidence = rng.permutation(np.linspace(0.2, 0.9, n))
    bins = Bins.equal_mass(confidence, rng.random(n) < confidence)
    assert bins.counts.sum() == n
    assert np.ptp(bins.counts) <= 1
    ordered = np.sort(confidence)
    runs = np.split(ordered, np.cumsum(bins.counts.astype(int))[:-1])
    assert bins.confidence == pytest.approx([run.sum() for run in runs])
    assert bins.edges[1:] == pytest.approx([run.max() for run in runs])


def test_adaptive_ece_by_sorting():
    z, y = logits(900, 4, sharpness=2.0)
    p = softmax(z)
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    order = np.argsort(confidence).reshape(15, 60)
    gaps = np.abs(correct[order].mean(axis=1) - confidence[order].mean(axis=1))
    assert metrics.adaptive_ece(z, y) == pytest.approx(gaps.mean(), rel=1e-12)


def test_equal_confidences_stay_in_one_adaptive_bin():
    confidence = np.array([0.5] * 6 + [0.9] * 2)
    correct = np.array([1, 1, 1, 0, 0, 0, 1, 1.0])
    bins = Bins.equal_mass(confidence, correct, n_bins=4)
    assert sorted(bins.counts.tolist()) == [0, 0, 2, 6]
    assert bins.ece == pytest.approx(2 / 8 * 0.1)


def test_adaptive_edges_are_those_of_the_bins():
    z, y = logits(200, 3, seed=4)
    p = softmax(z.round(1)).max(axis=1)
    bins = Bins.equal_mass(p, y == 0, n_bins=7)
    place = np.searchsorted(bins.edges[1:-1], p)
    assert np.array_equal(np.bincount(place, minlength=7), bins.counts)


def test_classwise_ece_is_the_mean_of_binary_errors():
    z, y = logits(600, 5, sharpness=2.0)
    p = softmax(z)
    each = [ece_by_loops(p[:, k], y == k, 15) for k in range(5)]
    assert metrics.classwise_ece(z, y) == pytest.approx(np.mean(each), rel=1e-12)


def test_a_class_without_rows_counts_in_classwise_ece():
    z = np.log(np.array([[0.6, 0.3, 0.1]] * 10))
    y = [0] * 6 + [1] * 4  # class 2 never comes: its error is 0.1, that of class 1 too
    assert metrics.classwise_ece(z, y) == pytest.approx(0.2 / 3, rel=1e-12)


def test_a_thousand_classes():
    z, y = logits(80, 1000)
    p = softmax(z)
    assert metrics.ece(z, y) == pytest.approx(
        ece_by_loops(p.max(axis=1), p.argmax(axis=1) == y, 15), rel=1e-12
    )
    each = [ece_by_loops(p[:, k], y == k, 15) for k in range(1000)]
    assert metrics.classwise_ece(z, y) == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.parametrize("metric", [metrics.ece, metrics.adaptive_ece, metrics.classwise_ece])
@pytest.mark.parametrize("n_bins", [0, -1, 2.5, True, "15"])
def test_n_bins_must_be_a_positive_integer(metric, n_bins):
    with pytest.raises(tp.InputError, match="n_bins"):
        metric(np.zeros((2, 2)), [0, 1], n_bins=n_bins)


def test_bins_are_made_of_columns_of_any_kind_and_of_one_length():
    sure, right = np.array([0.2, 0.4, 0.9], np.float32), np.array([True, False, True])
    bins = metrics.Bins.equal_width(sure, right, np.array([1, 2, 3]))
    assert bins.correct.sum() == 4
    assert bins.counts.sum() == 6
    for make in (metrics.Bins.equal_width, metrics.Bins.equal_mass):
        with pytest.raises(tp.InputError, match=r"correct must have the shape .*\(3,\). Got"):
            make(sure, right[:1])


@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "classwise_ece", "evaluate"])
def test_more_bins_than_memory_holds_are_refused(metric):
    with pytest.raises(tp.InputError, match="at least 1 and at most 100,000"):
        getattr(metrics, metric)(*logits(40, 3), n_bins=10**9)
