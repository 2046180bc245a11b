"""Snow falls, frost is ice, fog is mist, spatter is drops."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import pictures

from temperance_lab import shifts
from temperance_lab.shifts import weather
from temperance_lab.shifts.ice import PANES, frozen_panes

SEVERITIES = range(1, 6)
BLACK = np.zeros((60, 32, 32, 3), np.uint8)
WHITE = np.full((60, 32, 32, 3), 255, np.uint8)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow_is_white_and_only_brightens(severity, small):
    snowy = shifts.corrupt(small, "snow", severity)
    assert (snowy >= small).all()
    falling = shifts.corrupt(BLACK, "snow", severity)
    assert (falling == falling[..., :1]).all()  # without colour
    assert (falling == falling[:, ::-1, ::-1]).all()  # the flakes fall twice, turned by 180°


def test_flakes_are_bright_streaks_that_fall():
    dark = np.zeros((300, 64, 64), np.uint8)
    flakes = shifts.corrupt(dark, "snow", 4).astype(float)
    flakes -= flakes.min(axis=(1, 2), keepdims=True)
    assert 0.005 < (flakes > 60).mean() < 0.6
    along = np.abs(np.diff(flakes, axis=1)).mean()
    across = np.abs(np.diff(flakes, axis=2)).mean()
    assert along < 0.75 * across  # smoother from top to bottom


def test_snow_pales_the_scene():
    keep = 0.95  # severity 1
    red = np.zeros((1, 32, 32, 3), np.uint8)
    red[..., 0] = 200
    grey = 1.5 * 0.299 * 200 + 127.5
    lightest = shifts.corrupt(red, "snow", 1).min(axis=(0, 1, 2))
    pale = keep * red[0, 0, 0] + (1 - keep) * np.maximum(red[0, 0, 0], grey)
    np.testing.assert_allclose(lightest, pale, atol=0.51)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_is_a_share_of_ice_added_to_a_share_of_the_scene(severity):
    keep, ice = [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)][severity - 1]
    on_black = shifts.corrupt(BLACK, "frost", severity).astype(float)
    dim = np.full_like(BLACK, 60)
    on_dim = shifts.corrupt(dim, "frost", severity).astype(float)
    np.testing.assert_allclose(on_dim - on_black, 60 * keep, atol=1.01)
    mean = ice * np.mean([colour for colour, _ in PANES])
    assert on_black.mean() == pytest.approx(mean, rel=0.15)
    assert on_black[..., 2].mean() > on_black[..., 0].mean()  # ice is bluish


def test_grey_frost_is_the_luminance_of_the_coloured():
    coloured = shifts.corrupt(BLACK, "frost", 5) @ weather.LUMA
    np.testing.assert_allclose(shifts.corrupt(BLACK[..., 0], "frost", 5), coloured, atol=1.01)


@pytest.mark.parametrize(("size", "crystal"), [(128, 4.0), (384, 24.0)])
def test_panes_have_the_tones_they_are_given_and_can_be_tiled(size, crystal):
    panes = frozen_panes(size, crystal).astype(float)
    for pane, (colour, contrast) in zip(panes, PANES, strict=True):
        np.testing.assert_allclose(pane.mean(axis=(0, 1)), colour, atol=6)
        assert pane[..., 1].std() == pytest.approx(contrast, rel=0.1)
    across = np.abs(np.diff(panes, axis=1)).mean()
    seam = np.abs(panes[:, 0] - panes[:, -1]).mean()
    assert seam == pytest.approx(across, rel=0.2)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_fog_keeps_the_brightest_value_a_bound(severity, small):
    foggy = shifts.corrupt(small, "fog", severity)
    assert (foggy.max(axis=(1, 2, 3)) <= small.max(axis=(1, 2, 3))).all()
    contrast = foggy.std(axis=(1, 2, 3)).mean() / small.std(axis=(1, 2, 3)).mean()
    assert severity == 5 or contrast < 1


@pytest.mark.parametrize(("side", "size"), [(28, 32), (32, 32), (33, 64), (224, 256)])
def test_plasma_fills_the_unit_interval(side, size):
    assert weather.plasma_size(20, side) == weather.plasma_size(side, 20) == size
    rng = np.random.default_rng(0)
    mist = np.stack([weather.plasma(size, 2.0, rng) for _ in range(3)])
    assert mist.shape == (3, size, size)
    np.testing.assert_allclose(mist.min(axis=(1, 2)), 0)
    np.testing.assert_allclose(mist.max(axis=(1, 2)), 1)
    seam = np.abs(mist[:, 0] - mist[:, -1]).mean()
    assert seam < 3 * np.abs(np.diff(mist, axis=1)).mean()  # a torus


def seeded(i):
    return np.random.default_rng(i)


def test_plasma_roughens_as_its_decay_falls():
    rough = [
        np.mean([np.abs(np.diff(weather.plasma(64, decay, seeded(i)), axis=0)) for i in range(20)])
        for decay in (3, 2.5, 2, 1.75, 1.4)
    ]
    assert (np.diff(rough) > 0).all()


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_water_adds_light_in_drops(severity, small):
    wet = shifts.corrupt(small, "spatter", severity)
    assert (wet >= small).all()
    drops = shifts.corrupt(BLACK, "spatter", severity).astype(float)
    brightest = drops.max(axis=(1, 2))
    np.testing.assert_allclose(brightest, 0.5 * np.broadcast_to(weather.WATER, (60, 3)), atol=0.51)
    assert 0.01 < (drops > 5).mean() < 0.4


@pytest.mark.parametrize("severity", [4, 5])
def test_mud_covers_with_brown(severity):
    muddy = shifts.corrupt(WHITE, "spatter", severity).astype(float)
    cover = (255 - muddy) / (255 - weather.MUD)  # the same in every channel
    assert np.abs(cover - cover[..., :1]).max() < 0.01
    covered = cover[cover > 0.01]
    assert covered.min() > 0.78  # nothing but thick mud
    assert 0.005 < (cover > 0.01).mean() < 0.3


def test_without_a_drop_nothing_changes():
    image = pictures(1, 32, 32)[0]
    dry = (0.1, 0.001, 1.0, 0.7, 0.5, False)
    assert (weather.spatter(image, dry, seeded(0)) == image).all()
