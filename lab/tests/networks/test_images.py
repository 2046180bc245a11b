from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from temperance_lab import networks, shifts
from temperance_lab.networks.images import as_batch, augment, channel_moments
from temperance_lab.networks.run import seeded

PLAIN = networks.Recipe(epochs=1, batch_size=1, learning_rate=1.0)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(256, size=(200, 12, 12, 3), dtype=np.uint8)


def augmented(images, **options):
    with seeded(0):
        batch = augment(as_batch(images), replace(PLAIN, **options))
    return (batch.permute(0, 2, 3, 1) * 255).round().numpy().astype(np.uint8)


def test_batch_is_the_image(images):
    batch = as_batch(images)
    assert batch.shape == (200, 3, 12, 12)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(augmented(images), images)


def test_moments_are_those_of_the_pixels(images):
    mean, std = channel_moments(images)
    pixels = images.reshape(-1, 3) / 255
    np.testing.assert_allclose(mean.ravel(), pixels.mean(0), rtol=1e-6)
    np.testing.assert_allclose(std.ravel(), pixels.std(0), rtol=1e-6)
    flat = channel_moments(np.full((2, 4, 4, 1), 7, dtype=np.uint8))
    assert flat[1].item() == pytest.approx(1 / 255)  # not zero: nothing divides by it


@pytest.mark.parametrize(("letters", "axes"), [("h", [2]), ("hv", [1, 2])])
def test_flips_are_fair_and_only_flips(images, letters, axes):
    views = [images]
    for axis in axes:
        views += [np.flip(v, axis) for v in views]
    result = augmented(images, flip=letters)
    which = np.array(
        [[np.array_equal(r, v) for v in each] for r, *each in zip(result, *views, strict=True)]
    )
    assert (which.sum(1) == 1).all()
    share = which.mean(0)
    np.testing.assert_allclose(share, 1 / len(views), atol=4 * np.sqrt(0.25 / 200))


def test_crops_are_windows_of_the_padded_image(images):
    result = augmented(images, crop=2)
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    places = [(i, j) for i in range(5) for j in range(5)]
    which = np.array(
        [
            [np.array_equal(r, p[i : i + 12, j : j + 12]) for i, j in places]
            for r, p in zip(result, padded, strict=True)
        ]
    )
    assert (which.sum(1) == 1).all()
    assert (which.sum(0) > 0).all()  # every place occurs


def test_rotation_turns_about_the_centre_by_at_most_the_angle():
    # A smooth blob off centre: its angle about the centre is what the rotation changed.
    y, x = np.mgrid[:41, :41] - 20.0
    blob = 255 * np.exp(-((x - 12) ** 2 + y**2) / 8)
    images = np.repeat(blob.astype(np.uint8)[None, :, :, None], 400, axis=0)
    result = augmented(images, rotate=12.5)[..., 0].astype(float)
    mass = result.sum((1, 2))
    angle = np.degrees(np.arctan2((result * y).sum((1, 2)) / mass, (result * x).sum((1, 2)) / mass))
    assert np.abs(angle).max() <= 12.6
    assert np.abs(angle).max() > 11.5
    assert 0.4 < (np.abs(angle) < 0.05).mean() < 0.6  # half are left alone
    assert abs(angle.mean()) < 1.5


def test_rotation_agrees_with_the_shift_of_the_library():
    y, x = np.mgrid[:41, :41] - 20.0
    blob = (255 * np.exp(-((x - 9) ** 2 + (y - 4) ** 2) / 18)).astype(np.uint8)
    result = augmented(np.repeat(blob[None, :, :, None], 50, axis=0), rotate=30)
    candidates = [shifts.rotate(blob[None, :, :, None], degrees)[0] for degrees in range(-30, 31)]
    distance = [min(np.abs(r.astype(int) - c).max() for c in candidates) for r in result]
    assert max(distance) < 12  # candidates are a degree apart
