"""The noises have the distributions that they are named after."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from temperance_lab import shifts
from temperance_lab.shifts.registry import TABLE

SEVERITIES = range(1, 6)
N = 300  # images of 32 x 32 x 3: 921,600 values


def flat(value, n=N):
    return np.full((n, 32, 32, 3), value, np.uint8)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_noise_has_the_stated_variance(severity):
    sigma = TABLE["gaussian_noise"].cifar[severity - 1]
    noise = shifts.corrupt(flat(128), "gaussian_noise", severity) - 128.0
    variance = (255 * sigma) ** 2 + 1 / 12  # and that of rounding
    assert noise.mean() == pytest.approx(0, abs=5 * 255 * sigma / np.sqrt(noise.size))
    assert noise.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / noise.size))


def test_gaussian_noise_is_gaussian_and_white():
    noise = shifts.corrupt(flat(128), "gaussian_noise", 3) - 128.0
    z = noise / (255 * 0.08)
    edges = np.arange(-62.5, 63) / (255 * 0.08)  # between grey levels
    counts, _ = np.histogram(z, edges)
    expected = np.diff(stats.norm.cdf(edges)) * z.size
    rare = expected < 10
    assert (
        stats.chisquare(
            counts[~rare], expected[~rare] * counts[~rare].sum() / expected[~rare].sum()
        ).pvalue
        > 1e-3
    )
    for axis in range(4):
        ahead, behind = (
            np.take(z, range(1, z.shape[axis]), axis),
            np.take(z, range(z.shape[axis] - 1), axis),
        )
        assert abs((ahead * behind).mean()) < 5 / np.sqrt(ahead.size)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("value", [20, 100, 180])
def test_speckle_noise_grows_with_the_light(severity, value):
    sigma = TABLE["speckle_noise"].cifar[severity - 1]
    noise = shifts.corrupt(flat(value, 100), "speckle_noise", severity) - float(value)
    std = np.hypot(sigma * value, np.sqrt(1 / 12))
    if value + 4.5 * sigma * value < 255:
        assert noise.std() == pytest.approx(std, rel=0.01)
    assert (shifts.corrupt(flat(0, 5), "speckle_noise", severity) == 0).all()


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("value", [0, 3, 40, 128])
def test_shot_noise_counts_photons(severity, value):
    photons = TABLE["shot_noise"].cifar[severity - 1]
    shifted = shifts.corrupt(flat(value, 100), "shot_noise", severity).astype(float)
    count = np.arange(2000)
    share = stats.poisson(photons * value / 255).pmf(count)
    grey = np.minimum(np.rint(255 * count / photons), 255)
    mean = share @ grey
    variance = share @ (grey - mean) ** 2
    assert shifted.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / shifted.size) + 1e-3)
    assert shifted.var() == pytest.approx(variance, rel=0.015)


def test_shot_noise_is_poisson_where_few_photons_come():
    photons, value = 50, 10
    counts = np.rint(shifts.corrupt(flat(value), "shot_noise", 5) * (photons / 255)).astype(int)
    share = np.bincount(counts.ravel(), minlength=12)[:12] / counts.size
    np.testing.assert_allclose(
        share, stats.poisson(photons * value / 255).pmf(range(12)), atol=2e-3
    )


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulse_noise_is_salt_and_pepper_in_equal_parts(severity):
    amount = TABLE["impulse_noise"].cifar[severity - 1]
    shifted = shifts.corrupt(flat(100), "impulse_noise", severity)
    assert set(np.unique(shifted)) == {0, 100, 255}
    error = 5 * np.sqrt(amount / 2 / shifted.size)
    assert (shifted == 0).mean() == pytest.approx(amount / 2, abs=error)
    assert (shifted == 255).mean() == pytest.approx(amount / 2, abs=error)
