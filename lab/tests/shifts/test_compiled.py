"""Machine code gives what NumPy gives; which of the two runs is a matter of speed."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import pictures

from temperance._core.kernels import SWITCH, fused
from temperance_lab import shifts
from temperance_lab.shifts import registry
from temperance_lab.shifts.compiled import CHANGES
from temperance_lab.shifts.compiled.plasma import extremes
from temperance_lab.shifts.geometry import smoothed_moves
from temperance_lab.shifts.planes import gaussian_matrix

SEVERITIES = range(1, 6)
# Heights and widths that are multiples of nothing, both sets of constants, grey and colour.
SHAPES = [(4, 32, 32, 3), (3, 28, 28, 1), (3, 37, 50, 3), (2, 101, 67, 3), (2, 66, 90, 1)]


@pytest.fixture
def numpy_only(monkeypatch):
    """Return `corrupt` as it is without Numba."""

    def corrupt(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(registry, "machine_code", dict)
            return shifts.corrupt(*arguments)

    return corrupt


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("shape", SHAPES)
def test_machine_code_equals_numpy(name, shape, numpy_only):
    images = pictures(*shape)
    for severity in SEVERITIES:
        fast = shifts.corrupt(images, name, severity, 5).astype(int)
        plain = numpy_only(images, name, severity, 5)
        different = fast != plain
        # A coefficient of JPEG between two units may go either way, and moves a few grey levels.
        assert np.abs(fast - plain).max() <= (4 if name == "jpeg_compression" else 1)
        assert different.mean() < 0.02


@pytest.mark.parametrize("shape", [(2, 80, 11, 3), (2, 11, 80, 1), (2, 300, 70, 3)])
def test_wide_and_narrow_cells_are_those_of_numpy(shape, numpy_only):
    images = pictures(*shape)
    for severity in SEVERITIES:
        fast = shifts.corrupt(images, "pixelate", severity)
        assert (fast == numpy_only(images, "pixelate", severity)).all()


def test_the_environment_switches_machine_code_off(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    for cached in (fused, registry.machine_code):
        cached.cache_clear()
    assert registry.machine_code() == {}
    monkeypatch.undo()
    for cached in (fused, registry.machine_code):
        cached.cache_clear()
    assert registry.machine_code() == CHANGES


@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_are_found_whatever_their_sign(sign):
    plane = sign * np.random.default_rng(0).normal(-1, 2, (7, 13)).astype(np.float32)
    assert extremes(plane) == (plane.min(), plane.max())
    assert extremes(abs(plane)) == (abs(plane).min(), abs(plane).max())


def test_a_very_smooth_move_is_told_by_few_numbers():
    noise = np.random.default_rng(0).uniform(-1, 1, (3, 2, 224, 200)).astype(np.float32)
    down, across = (gaussian_matrix(side, 140.0, "reflect", 3.0) for side in (224, 200))
    size = 2 * 200  # pixels
    np.testing.assert_allclose(
        size * smoothed_moves(noise, 140.0), size * (down @ noise @ across.T), atol=0.01
    )
