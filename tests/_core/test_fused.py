"""Compiled passes of the label-free fits are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from temperance.methods import profile


@pytest.fixture
def by_numpy(monkeypatch):
    """A function that calls another without compiled kernels."""

    def call(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr("temperance.methods.source.fused", lambda: None)
            return function(*args)

    return call


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("k", [2, 10, 50])
def test_lengths_sums_and_cosines_agree(by_numpy, dtype, scale, k):
    rng = np.random.default_rng(k)
    z = (scale * rng.normal(size=(200, k)) + 1).astype(dtype)
    offset = scale * rng.normal(size=k)
    y = np.where(rng.random(200) < 0.5, (z + offset).argmax(axis=1), rng.integers(k, size=200))
    tolerance = 3e-12 * max(1, scale)  # rows are centred: of a sum, what is left may be little
    total = by_numpy(profile.class_sums, z, y)
    np.testing.assert_allclose(profile.class_sums(z, y), total, rtol=1e-12, atol=tolerance)
    total += 2 * scale * (np.eye(k) - 1 / k)  # a class has more than one row
    for function, *args in ((profile.row_lengths, z), (profile.cosines, z, total, y, offset)):
        np.testing.assert_allclose(
            function(*args), by_numpy(function, *args), rtol=0, atol=tolerance
        )


def test_a_row_without_length_is_like_nothing(by_numpy):
    z, patterns = np.zeros((3, 4)), np.eye(4) - 0.25
    z[1] = patterns[1] * 1e-200  # its squares would vanish
    for call in (lambda f, *args: f(*args), by_numpy):
        assert call(profile.cosines, z, patterns) == pytest.approx([0, 1, 0])
        assert call(profile.row_lengths, z)[0] == 0
