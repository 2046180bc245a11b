"""Rotation, rolling and the elastic transform against SciPy and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import pictures
from scipy import ndimage

import temperance
from temperance_lab import shifts
from temperance_lab.shifts import geometry


@pytest.mark.parametrize("turns", range(-5, 6))
@pytest.mark.parametrize("side", [28, 33])
def test_quarter_turns_equal_rot90(turns, side):
    images = pictures(4, side, side)
    assert (shifts.rotate(images, 90 * turns) == np.rot90(images, turns, (1, 2))).all()


@pytest.mark.parametrize("degrees", [0, 360, -720, 0.0])
def test_whole_turns_are_the_identity(degrees):
    images = pictures(3, 30, 47)
    assert (shifts.rotate(images, degrees) == images).all()


def test_half_a_turn_of_an_oblong():
    images = pictures(3, 30, 47)
    assert (shifts.rotate(images, 180) == images[:, ::-1, ::-1]).all()


@pytest.mark.parametrize("degrees", [15, 30, 45, 60, 75, 105, 165, -20, 1e-3])
@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3), (30, 47, 3)])
def test_rotation_equals_scipy(degrees, shape):
    images = pictures(3, *shape)
    expected = ndimage.rotate(
        images.astype(float), degrees, (2, 1), reshape=False, order=1, mode="grid-constant"
    )
    np.testing.assert_allclose(shifts.rotate(images, degrees), expected, atol=0.51)


def test_rotation_fills_with_black():
    white = np.full((1, 28, 28), 255, np.uint8)
    turned = shifts.rotate(white, 45)
    assert turned[0, 0, 0] == turned[0, -1, -1] == 0
    assert (turned[0, 8:20, 8:20] == 255).all()


@pytest.mark.parametrize("pixels", [0, 1, -3, 14, 28, 31, np.int64(5), 4.0])
def test_rolling_equals_numpy_and_wraps(pixels):
    images = pictures(3, 28, 28)
    rolled = shifts.roll(images, pixels)
    assert (rolled == np.roll(images, int(pixels), axis=2)).all()
    assert (shifts.roll(rolled, -pixels) == images).all()
    assert (shifts.roll(images[..., 0], pixels) == rolled[..., 0]).all()


@pytest.mark.parametrize("pixels", [1.5, "2", None, np.nan])
def test_rolling_by_no_whole_number_is_refused(pixels):
    with pytest.raises(temperance.InputError, match="pixels"):
        shifts.roll(pictures(1, 28, 28), pixels)


@pytest.mark.parametrize("degrees", [np.inf, "90", None])
def test_rotating_by_no_number_is_refused(degrees):
    with pytest.raises(temperance.InputError, match="degrees"):
        shifts.rotate(pictures(1, 28, 28), degrees)


def test_an_elastic_transform_of_size_zero_is_the_identity():
    images = pictures(4, 32, 40)
    assert all(
        (geometry.elastic(x, (0, 0, 0), np.random.default_rng(0)) == x).all() for x in images
    )


@pytest.mark.parametrize("severity", range(1, 6))
def test_elastic_keeps_colours_within_the_range_of_the_image(severity, small):
    moved = shifts.corrupt(small, "elastic_transform", severity)
    assert (moved.max(axis=(1, 2)) <= small.max(axis=(1, 2))).all()
    assert (moved.min(axis=(1, 2)) >= small.min(axis=(1, 2))).all()


def test_the_affine_map_undoes_the_move_of_its_three_points():
    size, n = 2.0, 500
    rng = np.random.default_rng(5)
    maps = np.stack([geometry.affine_map((32, 32), size, rng) for _ in range(n)])
    points = np.array([[26, 26, 1], [26, 6, 1], [6, 6, 1]])  # the centre 16, less and more 10
    square = np.concatenate([maps, np.broadcast_to([[0], [0], [1]], (n, 3, 1))], axis=2)
    moved = points @ np.linalg.inv(square)
    moves = (moved - points)[..., :2]
    assert np.abs(moves).max() <= size * (1 + 1e-4)
    assert moves.std() == pytest.approx(size / np.sqrt(3), rel=0.05)  # uniform
    np.testing.assert_allclose(moves.mean(axis=0), 0, atol=0.2)


@pytest.mark.parametrize("sigma", [1.5, 6.0, 20.0])
def test_moves_are_smoothed_by_a_gaussian(sigma):
    moves = np.random.default_rng(0).uniform(-1, 1, (2, 48, 40))
    expected = ndimage.gaussian_filter(moves, (0, sigma, sigma), mode="reflect", truncate=8)
    np.testing.assert_allclose(geometry.smoothed(moves, sigma), expected, atol=2e-4)


def test_elastic_reads_where_the_moves_point(monkeypatch):
    """Without an affine move, the image is read at the smooth moves, mirrored at the border."""
    image = pictures(1, 40, 33)[0]
    moves = np.random.default_rng(1).uniform(-3, 3, (2, 40, 33)).astype(np.float32)
    monkeypatch.setattr(geometry, "smoothed", lambda *_: moves / 33)
    moved = geometry.elastic(image, (1.0, 0.1, 0.0), np.random.default_rng(0))
    places = np.indices((40, 33)) + moves
    for channel in range(3):
        expected = ndimage.map_coordinates(
            image[..., channel].astype(float), places, order=1, mode="mirror"
        )
        np.testing.assert_allclose(moved[..., channel], expected, atol=0.05)
