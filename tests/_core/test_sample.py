"""Means of a softmax over a sample, against SciPy, compiled and not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from temperance._core import kernels
from temperance._core.sample import Sample

MODULES = ["kernels_numpy", "kernels_numba"]


@pytest.fixture(params=MODULES)
def module(request, monkeypatch):
    """One of the two modules with the passes over rows."""
    chosen = pytest.importorskip(f"temperance._core.{request.param}", exc_type=ImportError)
    monkeypatch.setattr(kernels, "backend", lambda: chosen)
    return chosen


def truth(z, temperature, bias):
    p = softmax(z.astype(float) / temperature + bias, axis=1)
    kept = p[np.arange(len(z)), z.argmax(axis=1)].mean()
    return p.mean(axis=0), p.max(axis=1).mean(), kept


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 3, 10, 33, 500])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("n", [1, 64, 301])
def test_means_are_those_of_a_softmax(dtype, k, offset, n):
    rng = np.random.default_rng(5)
    z, b = (3 * rng.normal(size=(n, k)) + offset).astype(dtype), rng.normal(size=k)
    sample = Sample(z)
    np.testing.assert_array_equal(sample.predicted, z.argmax(axis=1))
    means, confidence, kept = truth(z, 1.3, b)
    said = sample.beliefs(1.3, b)
    assert said.share == pytest.approx(means, rel=5e-6)
    assert said[1:] == pytest.approx((confidence, kept), rel=1e-6)
    p = softmax(z.astype(float) / 1.3 + b, axis=1)
    slopes = np.diag(means) - p.T @ p / n
    np.testing.assert_allclose(sample.covariances(1.3, b), slopes, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e20, 1e50, 1e100])
def test_logits_of_any_scale(scale):
    z = scale * np.random.default_rng(6).normal(size=(200, 4))
    means, *others = truth(z, scale, np.arange(4.0))
    said = Sample(z).beliefs(scale, np.arange(4.0))
    assert said.share == pytest.approx(means, rel=5e-6)
    assert said[1:] == pytest.approx(others, rel=1e-6)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("mask", [-1e4, -1e30, float(np.finfo(np.float32).min)])
def test_masks_are_classes_of_probability_zero(mask):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 5)).astype(np.float32)
    z[:, 4] = mask
    z[:100, 2:] = mask
    z[:10, 1:] = mask  # rows with one possible class
    means, *others = truth(z, 0.8, np.zeros(5))
    said = Sample(z).beliefs(0.8)
    assert said.share == pytest.approx(means, rel=5e-6, abs=1e-30)
    assert said[1:] == pytest.approx(others, rel=1e-6)


@pytest.mark.usefixtures("module")
def test_of_equal_logits_the_first_is_predicted():
    z = np.random.default_rng(7).integers(3, size=(130, 6)).astype(np.float32)
    np.testing.assert_array_equal(Sample(z).predicted, z.argmax(axis=1))


@pytest.mark.usefixtures("module")
def test_equal_logits_have_equal_probabilities():
    said = Sample(np.full((70, 5), 2.0)).beliefs(3.0)
    assert said.share == pytest.approx(np.full(5, 0.2))
    assert said[1:] == pytest.approx((0.2, 0.2))


def test_some_rows_are_spread_over_all():
    z = np.repeat(np.arange(5000.0)[:, None], 3, axis=1)
    some = Sample(z).some
    assert 1024 <= len(some) < 2048
    assert np.ptp(np.diff(some.z[:, 0])) == 0
    assert some.some is some
