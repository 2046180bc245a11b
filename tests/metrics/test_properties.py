"""What must hold for every metric, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from temperance import metrics

EVERY = pytest.mark.parametrize(
    "metric",
    [
        metrics.accuracy,
        metrics.nll,
        metrics.brier,
        metrics.ece,
        metrics.adaptive_ece,
        metrics.classwise_ece,
        metrics.smooth_ece,
        metrics.aurc,
        metrics.excess_aurc,
    ],
    ids=lambda metric: metric.__name__,
)
FEW = settings(max_examples=settings().max_examples // 3)  # times nine metrics


@st.composite
def tables(draw, max_rows=12):
    """Logits with a clear winner, and labels.

    Multiples of 1/8 are exact to shift by whole numbers; above 2 they are no probabilities, and a
    first row won by the last class is not sorted.
    """
    n, k = draw(st.integers(1, max_rows)), draw(st.integers(2, 6))
    eighths = draw(hnp.arrays(np.int64, (n, k), elements=st.integers(-60, 60)))
    z = 10 + eighths / 8
    winner = draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    winner[0] = k - 1
    z[np.arange(n), winner] = z.max(axis=1) + draw(st.integers(1, 40)) / 8
    return z, draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))


@EVERY
@FEW
@given(tables(), st.randoms(use_true_random=False))
def test_row_order_is_irrelevant(metric, table, random):
    z, y = table
    order = random.sample(range(len(y)), len(y))
    assert metric(z[order], y[order]) == pytest.approx(metric(z, y), rel=1e-11, abs=1e-14)


@EVERY
@FEW
@given(tables(), st.data())
def test_a_constant_added_to_a_row_is_irrelevant(metric, table, data):
    z, y = table
    shift = data.draw(hnp.arrays(np.int64, (len(y), 1), elements=st.integers(0, 1000)))
    assert metric(z + shift, y) == metric(z, y)


@EVERY
@FEW
@given(tables(), st.randoms(use_true_random=False))
def test_classes_can_be_renamed(metric, table, random):
    z, y = table
    # Renaming changes the order of a sum, and so its last bit: that must not make or break a tie.
    confidence = np.sort(1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1))
    assume(np.diff(confidence).min(initial=1) > 1e-9)
    name = np.array(random.sample(range(z.shape[1]), z.shape[1]))
    renamed = np.empty_like(z)
    renamed[:, name] = z
    assert metric(renamed, name[y]) == pytest.approx(metric(z, y), rel=1e-9, abs=1e-12)


@EVERY
@FEW
@given(tables(), st.data())
def test_a_weight_is_a_repetition(metric, table, data):
    z, y = table
    times = data.draw(hnp.arrays(np.int64, len(y), elements=st.integers(0, 4)))
    times[0] += 1
    repeated = metric(np.repeat(z, times, axis=0), np.repeat(y, times))
    assert metric(z, y, times) == pytest.approx(repeated, rel=1e-9, abs=1e-12)


@EVERY
@FEW
@given(tables())
def test_twice_the_rows_is_the_same(metric, table):
    z, y = table
    twice = metric(np.concatenate([z, z]), np.concatenate([y, y]))
    assert twice == pytest.approx(metric(z, y), rel=1e-9, abs=1e-12)


@given(tables())
def test_bounds(table):
    z, y = table
    for metric in (
        metrics.accuracy,
        metrics.ece,
        metrics.adaptive_ece,
        metrics.classwise_ece,
        metrics.smooth_ece,
        metrics.aurc,
    ):
        assert 0 <= metric(z, y) <= 1 + 1e-12
    assert metrics.nll(z, y) >= 0
    assert 0 <= metrics.brier(z, y, per_class=False) <= 2
    assert metrics.excess_aurc(z, y) >= -1e-12


@given(tables(), st.data())
def test_merged_parts_are_the_whole(table, data):
    z, y = table
    cut = data.draw(st.integers(1, max(1, len(y) - 1)))
    whole = metrics.evaluate(z, y)
    if cut == len(y):
        return
    merged = metrics.evaluate(z[:cut], y[:cut]) + metrics.evaluate(z[cut:], y[cut:])
    assert np.array_equal(merged.bins.counts, whole.bins.counts)
    assert np.array_equal(merged.bins.correct, whole.bins.correct)
    assert merged.nll == pytest.approx(whole.nll, rel=1e-13)
    assert merged.brier == pytest.approx(whole.brier, rel=1e-13)
    assert merged.ece == pytest.approx(whole.ece, rel=1e-12, abs=1e-14)


@given(tables())
def test_one_bin_error_is_the_smallest(table):
    """Merging bins cannot raise the error: |a + b| <= |a| + |b|."""
    z, y = table
    coarse, fine = (metrics.ece(z, y, n_bins=m) for m in (5, 15))
    assert metrics.ece(z, y, n_bins=1) <= coarse + 1e-12 <= fine + 2e-12
