"""The blurs against SciPy's filters, and what every blur must keep."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import pictures
from scipy import ndimage

from temperance_lab import shifts
from temperance_lab.shifts import blur
from temperance_lab.shifts.registry import TABLE

BLURS = [name for name in shifts.CORRUPTIONS if name.endswith("blur")]
SEVERITIES = range(1, 6)
# Half a grey level by rounding, and what float32 adds.
ROUNDING = 0.502


@pytest.mark.parametrize("name", BLURS)
@pytest.mark.parametrize("value", [0, 1, 137, 255])
@pytest.mark.parametrize("side", [28, 32, 65])
def test_a_constant_image_stays_constant(name, value, side):
    constant = np.full((2, side, side + 3, 3), value, np.uint8)
    for severity in SEVERITIES:
        assert (shifts.corrupt(constant, name, severity) == value).all()


def roughness(images):
    return np.abs(np.diff(images.astype(float), axis=2)).mean()


@pytest.mark.parametrize("name", sorted(set(BLURS) - {"glass_blur"}))
@pytest.mark.parametrize("severity", SEVERITIES)
def test_blurs_smooth_and_keep_the_mean(name, severity, small):
    blurred = shifts.corrupt(small, name, severity)
    assert roughness(blurred) < roughness(small)
    assert blurred.mean() == pytest.approx(small.mean(), abs=1.5)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("side", [32, 70])
def test_gaussian_blur_equals_scipy(severity, side):
    images = pictures(3, side, side + 5)
    constants = TABLE["gaussian_blur"]
    sigma = (constants.cifar if side < 65 else constants.imagenet)[severity - 1]
    expected = ndimage.gaussian_filter(
        images.astype(float), (0, sigma, sigma, 0), mode="nearest", truncate=4
    )
    shifted = shifts.corrupt(images, "gaussian_blur", severity)
    np.testing.assert_allclose(shifted, expected, atol=ROUNDING)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("side", [32, 70])
def test_defocus_blur_equals_a_convolution_with_the_disc(severity, side):
    images = pictures(2, side, side + 5)
    constants = TABLE["defocus_blur"]
    radius, rim = (constants.cifar if side < 65 else constants.imagenet)[severity - 1]
    across = np.arange(-14, 15)
    disc = (np.hypot(across[:, None], across) <= radius).astype(float)
    # The rim is smoothed by a Gaussian on 3 x 3 pixels, on 5 x 5 for discs beyond 8 pixels.
    reach = 2 if radius > 8 else 1
    disc = ndimage.gaussian_filter(disc / disc.sum(), rim, radius=reach)
    expected = ndimage.convolve(images.astype(float), disc[None, :, :, None], mode="mirror")
    shifted = shifts.corrupt(images, "defocus_blur", severity)
    np.testing.assert_allclose(shifted, expected, atol=ROUNDING)


@pytest.mark.parametrize("quarter", range(4))
def test_a_streak_along_an_axis_is_half_a_gaussian(quarter):
    images = pictures(2, 32, 32)
    weights = np.exp(-0.5 * (np.arange(13) / 2.0) ** 2)
    kernel = np.zeros(25)
    kernel[12:] = weights / weights.sum()
    turned = np.rot90(images, quarter, (1, 2)).astype(float)
    expected = ndimage.correlate1d(turned, kernel, axis=2, mode="nearest")
    expected = np.rot90(expected, -quarter, (1, 2))
    for image, wanted in zip(images.astype(np.float32), expected, strict=True):
        got = blur.streak(image, 6, 2.0, quarter * np.pi / 2)
        np.testing.assert_allclose(got, wanted, atol=0.05)


def test_motion_blur_moves_within_45_degrees_of_the_rows():
    dot = np.zeros((200, 33, 33), np.uint8)
    dot[:, 16, 16] = 255
    streaks = shifts.corrupt(dot, "motion_blur", 5).astype(float)
    np.testing.assert_allclose(streaks.sum(axis=(1, 2)), 255, atol=5)  # rounding of nine pixels
    down, right = np.arange(33)[:, None] - 16, np.arange(33) - 16
    row, column = ((streaks * axis).sum(axis=(1, 2)) for axis in (down, right))
    angle = np.degrees(np.arctan2(row, column + 0.0))
    angle = (angle + 90) % 180 - 90  # a direction has no sign
    assert np.abs(angle).max() < 50  # pixels are coarse
    assert angle.std() == pytest.approx(90 / np.sqrt(12), rel=0.15)  # uniform over 90°


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("side", [32, 28, 96])
def test_zoom_blur_is_the_mean_of_magnifications(severity, side):
    images = pictures(2, side, side).astype(float)
    constants = TABLE["zoom_blur"]
    factors = np.arange(1, *(constants.cifar if side < 65 else constants.imagenet)[severity - 1])
    total = images.copy()
    for factor in factors:
        cut = int(np.ceil(side / factor))
        top = (side - cut) // 2
        middle = images[:, top : top + cut, top : top + cut]
        blown = ndimage.zoom(middle, (1, factor, factor, 1), order=1)
        trim = (blown.shape[1] - side) // 2
        total += blown[:, trim : trim + side, trim : trim + side]
    shifted = shifts.corrupt(images.astype(np.uint8), "zoom_blur", severity)
    np.testing.assert_allclose(shifted, total / (len(factors) + 1), atol=ROUNDING)


def test_glass_blur_takes_colours_of_neighbours():
    image = np.arange(32 * 32, dtype=np.uint16).view(np.uint8).reshape(32, 32, 2)
    image = np.concatenate([image, image[..., :1]], axis=2)  # every pixel has its own colour
    shifted = blur.glass(image, (0.05, 1, 1), np.random.default_rng(0))
    origin = shifted[..., :2].copy().view(np.uint16)[:, :, 0].astype(int)
    down, right = origin // 32 - np.arange(32)[:, None], origin % 32 - np.arange(32)
    inner = np.s_[2:, 2:]
    assert set(np.unique(down[inner])) == set(np.unique(right[inner])) == {-1, 0}
    assert down[inner].mean() == pytest.approx(-0.5, abs=0.1)
    assert (down[:2] == 0).all()
    assert (right[:, :2] == 0).all()
