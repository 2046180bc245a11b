"""Compiled outcomes and bins are those of NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from simulated import logits

import temperance as tp
from temperance import InputError, metrics
from temperance.data import Block
from temperance.metrics._outcomes import Outcomes, outcomes


@pytest.fixture
def by_numpy(monkeypatch):
    """A function that calls another without compiled kernels."""

    def call(function, *args, **options):
        with monkeypatch.context() as patch:
            for place in ("_kernels", "metrics._outcomes", "metrics.binned"):
                patch.setattr(f"temperance.{place}.fused", lambda: None)
            return function(*args, **options)

    return call


@pytest.mark.parametrize("shape", [(1, 2), (65, 3), (200, 10), (64, 32), (3, 33), (50, 1001)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_outcomes_agree_with_numpy(by_numpy, shape, dtype):
    z, y = logits(*shape, scale=3.0)
    block = Block(z.astype(dtype), y, np.arange(len(y), dtype=float))
    compiled, reference = outcomes(block), by_numpy(outcomes, block)
    for name in Outcomes._fields:
        np.testing.assert_allclose(
            getattr(compiled, name), getattr(reference, name), rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize("k", [4, 40])
def test_of_equal_logits_the_first_is_chosen(by_numpy, k):
    z = np.random.default_rng(0).integers(3, size=(500, k)).astype(float)
    y = np.random.default_rng(1).integers(k, size=500)
    block = Block(z, y, None)
    np.testing.assert_array_equal(outcomes(block).correct, by_numpy(outcomes, block).correct)
    np.testing.assert_array_equal(outcomes(block).correct, z.argmax(axis=1) == y)


@pytest.mark.parametrize("n_bins", [1, 7, 10, 15, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_agree_to_the_last_bit_of_the_counts(by_numpy, n_bins, weighted):
    rng = np.random.default_rng(3)
    edges = np.arange(n_bins + 1) / n_bins
    near = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, 1)])
    confidence = np.concatenate([rng.random(2000), near, [0.0, 1.0]])
    correct = (rng.random(confidence.size) < confidence).astype(float)
    weight = rng.random(confidence.size) if weighted else None
    sums = metrics.Bins.equal_width, confidence, correct, weight
    compiled = sums[0](*sums[1:], n_bins=n_bins)
    reference = by_numpy(*sums, n_bins=n_bins)
    assert compiled.counts.dtype == reference.counts.dtype
    np.testing.assert_array_equal(compiled.counts, reference.counts)
    np.testing.assert_allclose(compiled.confidence, reference.confidence, rtol=1e-14)
    np.testing.assert_allclose(compiled.correct, reference.correct, rtol=1e-14)


def test_an_evaluation_is_the_same_with_and_without(by_numpy):
    z, y = logits(40_000, 10)
    z = z.astype(np.float32)  # enough for NumPy to use float32 exponentials
    compiled, reference = metrics.evaluate(z, y), by_numpy(metrics.evaluate, z, y)
    np.testing.assert_array_equal(compiled.bins.counts, reference.bins.counts)
    for name in ("accuracy", "nll", "brier", "ece"):
        assert getattr(compiled, name) == pytest.approx(getattr(reference, name), rel=1e-6)


@pytest.mark.parametrize("shape", [(1, 2), (65, 3), (200, 10), (64, 31), (3, 33), (50, 1001)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sums_of_one_pass_are_those_of_numpy(by_numpy, shape, weighted):
    z, y = logits(*shape, scale=3.0)
    weight = np.random.default_rng(0).exponential(size=len(y)) if weighted else None
    compiled = metrics.evaluate(z, y, weight)
    reference = by_numpy(metrics.evaluate, z, y, weight)
    np.testing.assert_allclose(compiled.bins.counts, reference.bins.counts, rtol=1e-14)
    assert compiled.bins.counts.dtype == reference.bins.counts.dtype
    for name in ("n", "accuracy", "confidence", "nll", "brier", "ece"):
        got, wanted = getattr(compiled, name), getattr(reference, name)
        assert got == pytest.approx(wanted, rel=1e-12, abs=1e-14)


def test_in_one_pass_too_the_first_of_equal_logits_is_chosen():
    z = np.random.default_rng(0).integers(3, size=(500, 4)).astype(float)
    y = np.random.default_rng(1).integers(4, size=500)
    assert metrics.evaluate(z, y).accuracy == (z.argmax(axis=1) == y).mean()


@pytest.mark.parametrize("beyond", [0, 1 << 40, (1 << 63) - 101, -101, -(1 << 63)])
@pytest.mark.parametrize("row", [0, 63, 64, 30_004])
@pytest.mark.parametrize("k", [10, 100])
def test_a_label_without_a_column_is_found_in_the_pass(k, row, beyond):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(30_005, k)), rng.integers(k, size=30_005)
    y[row] = k + beyond
    for given in (z, np.where(np.arange(30_005)[:, None] == row, np.nan, z)):  # labels come first
        with pytest.raises(InputError, match=f"Row {row} holds {y[row]};"):
            metrics.evaluate(given, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_laid_side_by_side(dtype):
    numba, layout = (
        pytest.importorskip("numba"),
        pytest.importorskip("temperance._core.fused.layout"),
    )
    lay = numba.njit(layout.lay.py_func)
    for k, n in itertools.product((2, 4, 7, 10, 32), (1, 63, 64)):
        z = np.random.default_rng(n).integers(5, size=(n, k)).astype(dtype)
        x, top = np.zeros((k + 2, 64), dtype), np.zeros(64)
        lay(z, x, top)
        np.testing.assert_array_equal(x[:k, :n], z.T)
        np.testing.assert_array_equal(x[k, :n], z.argmax(axis=1))
        np.testing.assert_array_equal(top[:n], z.max(axis=1))
        assert (x[k + 1, :n] >= (z * z).sum(axis=1)).all()


def test_exponentials_of_metrics_are_right_to_rounding():
    mpmath, numba = pytest.importorskip("mpmath"), pytest.importorskip("numba")
    exponentiate = pytest.importorskip("temperance._core.fused.tallies").exponentiate

    @numba.njit
    def powers(u, es, zeros):
        for i in range(0, u.size, 16):
            exponentiate(u, es, zeros, i)

    u = -np.concatenate([[0.0, 1e-300, 1e-9, 705.0], np.linspace(0, 40, 1020)])
    got = np.empty(u.size)
    powers(u, got, np.zeros(u.size))
    exact = np.array([float(mpmath.exp(mpmath.mpf(v))) for v in u])
    assert (np.abs(got - exact) <= (8e-16 + 2.0**-53 * np.abs(u)) * exact).all()  # u / log 2 rounds
    assert got[0] == got[1] == 1


@pytest.mark.parametrize("k", [3, 5, 15])
def test_confidences_on_an_edge_are_placed_as_by_numpy(by_numpy, k):
    rng = np.random.default_rng(k)
    z = np.where(rng.random((640, 1)) < 0.5, 0.0, rng.normal(size=(640, k)))  # often 1/k exactly
    y = rng.integers(k, size=640)
    compiled, reference = metrics.evaluate(z, y).bins, by_numpy(metrics.evaluate, z, y).bins
    assert reference.counts[15 // k - 1] >= (z == 0).all(axis=1).sum() > 0
    np.testing.assert_array_equal(compiled.counts, reference.counts)
    np.testing.assert_array_equal(compiled.correct, reference.correct)


@pytest.mark.parametrize("k", [10, 40])
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e37), (np.float64, 1e98)])
def test_logits_whose_squares_overflow_are_evaluated(by_numpy, k, dtype, scale):
    z, y = logits(300, k)
    z = (z * scale / np.abs(z).max()).astype(dtype)
    compiled, reference = metrics.evaluate(z, y), by_numpy(metrics.evaluate, z, y)
    np.testing.assert_array_equal(compiled.bins.counts, reference.bins.counts)
    assert compiled.nll == pytest.approx(reference.nll, rel=1e-12)


@pytest.mark.parametrize("k", [3, 10, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e101])
def test_a_compiled_pass_finds_what_it_cannot_compute_with(k, bad):
    z, y = logits(20_000, k)
    z[17_321, k - 1] = bad
    for metric in (metrics.evaluate, metrics.ece, metrics.nll):
        with pytest.raises(tp.InputError, match=f"Row 17321, class {k - 1}"):
            metric(z, y)


def test_sums_of_very_sure_rows_are_exact():
    """The logarithm of a product loses nothing where every sum is 1 and a little."""
    z = np.zeros((6400, 4))
    z[:, 1] = np.linspace(20, 45, 6400)
    expected = np.log1p(3 * np.exp(-z[:, 1]))
    result = metrics.evaluate(z, np.ones(6400, int))
    assert result.nll == pytest.approx(expected.mean(), rel=1e-6, abs=1e-17)
    assert result.accuracy == 1
