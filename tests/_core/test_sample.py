"""What a map says of a sample, compiled and not."""

from __future__ import annotations

import numpy as np
import pytest

from temperance._core.sample import Sample
from temperance.methods import sample


@pytest.fixture
def both(monkeypatch):
    """A function that makes a sample with compiled passes and one without."""

    def make(z):
        compiled = Sample(z)
        with monkeypatch.context() as patch:
            patch.setattr(sample, "fused", lambda: None)
            return compiled, Sample(z)

    return make


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 3, 10, 33, 500])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("n", [1, 64, 301])
def test_the_compiled_pass_is_nearly_that_of_numpy(both, dtype, k, offset, n):
    rng = np.random.default_rng(5)
    z, b = (3 * rng.normal(size=(n, k)) + offset).astype(dtype), rng.normal(size=k)
    compiled, reference = both(z)
    np.testing.assert_array_equal(compiled.predicted, reference.predicted)
    said, truth = (one.beliefs(1.3, b) for one in (compiled, reference))
    assert said.share == pytest.approx(truth.share, rel=5e-6)
    assert said[1:] == pytest.approx(truth[1:], rel=1e-6)
    slopes, true_slopes = (one.covariances(1.3, b) for one in (compiled, reference))
    np.testing.assert_allclose(slopes, true_slopes, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e20, 1e100])
def test_logits_of_any_scale(both, scale):
    z = scale * np.random.default_rng(6).normal(size=(200, 4))
    said, truth = (one.beliefs(scale, np.arange(4.0)) for one in both(z))
    assert said.share == pytest.approx(truth.share, rel=5e-6)
    assert said[1:] == pytest.approx(truth[1:], rel=1e-6)


def test_of_equal_logits_the_first_is_predicted(both):
    z = np.random.default_rng(7).integers(3, size=(130, 6)).astype(np.float32)
    for one in both(z):
        np.testing.assert_array_equal(one.predicted, z.argmax(axis=1))


def test_rows_that_say_nothing(both):
    for one in both(np.full((70, 5), 2.0)):
        said = one.beliefs(3.0)
        assert said.share == pytest.approx(np.full(5, 0.2))
        assert (said.sure, said.kept) == pytest.approx((0.2, 0.2))


def test_covariances_are_the_slopes_of_the_shares(both):
    rng = np.random.default_rng(8)
    z, b, step = rng.normal(size=(150, 4)), rng.normal(size=4), 1e-5
    _, reference = both(z)
    slopes = [
        (reference.beliefs(0.7, b + step * d).share - reference.beliefs(0.7, b - step * d).share)
        / (2 * step)
        for d in np.eye(4)
    ]
    np.testing.assert_allclose(reference.covariances(0.7, b), slopes, atol=1e-9)


def test_some_rows_are_spread_over_all():
    z = np.repeat(np.arange(5000.0)[:, None], 3, axis=1)
    some = Sample(z).some
    assert 1024 <= len(some) < 2048
    assert np.ptp(np.diff(some.z[:, 0])) == 0
    assert some.some is some
