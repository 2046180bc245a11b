"""LaSCal where only the class mix changes."""

from __future__ import annotations

import numpy as np

import temperance as tp


def test_lascal_minimises_the_error_that_target_labels_would_show():
    rng = np.random.default_rng(6)
    y, old = rng.choice(3, p=[0.7, 0.2, 0.1], size=8_000), rng.integers(3, size=8_000)
    z, s = (4 * (1.5 * np.eye(3)[t] + rng.normal(size=(8_000, 3))) for t in (y, old))
    grid = np.geomspace(0.5, 20, 60)
    measured = [tp.metrics.classwise_ece(z / t, y) for t in grid]
    best = grid[np.argmin(measured)]
    assert abs(np.log(tp.fit_lascal(z, (s, old)).temperature / best)) < 0.25
    known = tp.fit_lascal(z, (s, old), prior=[0.7, 0.2, 0.1]).temperature
    assert abs(np.log(known / best)) < 0.25
