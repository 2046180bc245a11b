"""JPEG compression loses what the published qualities lose."""

from __future__ import annotations

import io

import numpy as np
import pytest
from pictures import pictures
from PIL import Image

from temperance_lab import shifts


def through_a_file(images, quality):
    """Write every image as JPEG and read it again."""
    read = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        read.append(np.asarray(Image.open(file)))
    return np.stack(read)


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("side", [32, 96])
def test_severities_are_the_published_qualities(severity, side):
    images = pictures(4, side, side)
    qualities = [80, 65, 58, 50, 40] if side == 32 else [25, 18, 15, 10, 7]
    expected = through_a_file(images, qualities[severity - 1])
    assert (shifts.corrupt(images, "jpeg_compression", severity) == expected).all()


def test_a_second_compression_loses_little():
    images = pictures(30, 32, 32)
    once = shifts.corrupt(images, "jpeg_compression", 4)
    twice = shifts.corrupt(once, "jpeg_compression", 4)
    first = np.abs(once.astype(float) - images).mean()
    assert np.abs(twice.astype(float) - once).mean() < 0.2 * first


@pytest.mark.parametrize("value", [0, 77, 128, 255])
def test_a_constant_grey_image_survives(value):
    constant = np.full((2, 28, 28, 1), value, np.uint8)
    shifted = shifts.corrupt(constant, "jpeg_compression", 1)
    assert np.abs(shifted.astype(int) - value).max() <= 1
