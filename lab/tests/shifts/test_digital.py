"""Brightness, saturation, contrast and pixelation against the standard library and Pillow."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from pictures import pictures
from PIL import Image

from temperance_lab import shifts
from temperance_lab.shifts.registry import TABLE

SEVERITIES = range(1, 6)


@pytest.fixture(scope="module")
def colours():
    """Random colours, greys, black, white and pure colours."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
    x[0, 0] = np.arange(32)[:, None] * 8
    x[0, 1, :8] = [[255 * (i >> c & 1) for c in range(3)] for i in range(8)]
    x[0, 1, 8:16] //= 64  # nearly black
    return x


def in_hsv(x, change):
    """Convert, change and convert back, pixel by pixel."""
    pixels = x.reshape(-1, 3) / 255
    changed = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in pixels]
    return 255 * np.array(changed).reshape(x.shape)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_brightness_raises_the_value(severity, colours):
    amount = TABLE["brightness"].cifar[severity - 1]
    expected = in_hsv(colours, lambda h, s, v: (h, s, min(v + amount, 1)))
    np.testing.assert_allclose(shifts.corrupt(colours, "brightness", severity), expected, atol=0.51)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_saturate_changes_the_saturation(severity, colours):
    scale, shift = TABLE["saturate"].cifar[severity - 1]
    expected = in_hsv(colours, lambda h, s, v: (h, min(max(s * scale + shift, 0), 1), v))
    np.testing.assert_allclose(shifts.corrupt(colours, "saturate", severity), expected, atol=0.51)


def test_grey_images_brighten_by_a_sum_and_do_not_saturate():
    grey = pictures(3, 28, 28, 1)
    brighter = shifts.corrupt(grey, "brightness", 5)
    np.testing.assert_allclose(brighter, np.minimum(grey + 0.3 * 255, 255), atol=0.51)
    assert (shifts.corrupt(grey, "saturate", 5) == grey).all()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_shrinks_towards_the_mean_colour(severity, small):
    factor = TABLE["contrast"].cifar[severity - 1]
    mean = small.mean(axis=(1, 2), keepdims=True)
    shifted = shifts.corrupt(small, "contrast", severity)
    np.testing.assert_allclose(shifted, mean + factor * (small - mean), atol=0.51)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("shape", [(32, 32), (28, 28), (40, 46), (96, 100), (224, 224)])
def test_pixelate_equals_pillow(severity, shape):
    images = pictures(2, *shape)
    constants = TABLE["pixelate"]
    factor = (constants.cifar if max(shape) <= 64 else constants.imagenet)[severity - 1]
    shifted = shifts.corrupt(images, "pixelate", severity)
    height, width = shape
    for image, got in zip(images, shifted, strict=True):
        picture = Image.fromarray(image)
        cells = picture.resize((int(width * factor), int(height * factor)), Image.Resampling.BOX)
        expected = np.asarray(cells.resize((width, height), Image.Resampling.BOX)).astype(int)
        # Pillow averages rows first and rounds: a mean of means may differ by one.
        assert np.abs(expected - got).max() <= 1
        assert (expected == got).mean() > 0.8
