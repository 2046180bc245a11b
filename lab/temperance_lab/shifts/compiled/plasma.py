# pyright: basic
"""The plasma fractals of fog, compiled: `temperance_lab.shifts.weather.plasma` before it is scaled."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from temperance_lab.shifts.compiled.lines import compiled, inlined


@compiled
def grown(bits: Any, size: int, decay: float) -> Any:
    """Grow a plasma fractal: `temperance_lab.shifts.weather.plasma` before it is scaled."""
    grid = np.zeros((1, 1), np.float32)
    amplitude = nb.float32(1)
    m = 1
    while m < size:
        noise = bits[m * m : 4 * m * m].reshape(3, m, m)
        finer = np.empty((2 * m, 2 * m), np.float32)
        centres = np.empty((m, m), np.float32)
        for y in range(m):
            _diamond(grid[y], grid[(y + 1) % m], noise[0, y], amplitude, centres[y])
        for y in range(m):
            above, below = centres[y - 1], grid[(y + 1) % m]
            _squares(
                grid[y],
                below,
                above,
                centres[y],
                noise[1, y],
                noise[2, y],
                amplitude,
                finer[2 * y],
                finer[2 * y + 1],
            )
        grid, m, amplitude = finer, 2 * m, amplitude / decay
    return grid


@inlined
def _spread(bits: int) -> Any:
    return (nb.float32(bits) - nb.float32(32767.5)) * nb.float32(2 / 65536)


@compiled
def _diamond(here: Any, below: Any, noise: Any, amplitude: float, out: Any) -> None:
    last = here.size - 1
    quarter = nb.float32(0.25)
    for j in range(last):
        corners = (here[j] + below[j]) + (here[j + 1] + below[j + 1])
        out[j] = quarter * corners + amplitude * _spread(noise[j])
    corners = (here[last] + below[last]) + (here[0] + below[0])
    out[last] = quarter * corners + amplitude * _spread(noise[last])


@compiled
def _squares(
    here: Any,
    below: Any,
    above: Any,
    centre: Any,
    first: Any,
    second: Any,
    amplitude: float,
    upper: Any,
    lower: Any,
) -> None:
    """Middles of the edges to the right and downwards, laid between corners and centres."""
    last = here.size - 1
    quarter = nb.float32(0.25)
    for j in range(last):
        edge = (here[j] + here[j + 1]) + (centre[j] + above[j])
        upper[2 * j] = here[j]
        upper[2 * j + 1] = quarter * edge + amplitude * _spread(first[j])
    edge = (here[last] + here[0]) + (centre[last] + above[last])
    upper[2 * last] = here[last]
    upper[2 * last + 1] = quarter * edge + amplitude * _spread(first[last])
    edge = (here[0] + below[0]) + (centre[0] + centre[last])
    lower[0] = quarter * edge + amplitude * _spread(second[0])
    lower[1] = centre[0]
    for j in range(1, last + 1):
        edge = (here[j] + below[j]) + (centre[j] + centre[j - 1])
        lower[2 * j] = quarter * edge + amplitude * _spread(second[j])
        lower[2 * j + 1] = centre[j]


@compiled
def extremes(plane: Any) -> Any:
    """Return the smallest and the largest number, found by their bits, eight at once."""
    bits = plane.view(np.int32)
    low = high = _ordered(bits[0, 0])
    for y in range(bits.shape[0]):
        line = bits[y]
        for j in range(line.size):
            low, high = min(_ordered(line[j]), low), max(_ordered(line[j]), high)
    found = np.array([_ordered(low), _ordered(high)], np.int32).view(np.float32)
    return found[0], found[1]


@inlined
def _ordered(bits: int) -> Any:
    """Integers in the order of the floats with these bits; its own inverse."""
    return nb.int32(bits ^ ((bits >> nb.int32(31)) & nb.int32(0x7FFFFFFF)))
