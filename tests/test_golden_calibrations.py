"""`calibrate` returns what it returned when ``golden/calibrations.json`` was made.

To be deleted, with its record and its script, when the label-free estimate changes on purpose.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_golden import check


@pytest.mark.parametrize(
    "numba",
    [pytest.param("0", id="numpy"), pytest.param("1", id="compiled", marks=pytest.mark.slow)],
)
def test_calibrations_are_what_they_were(numba):
    check("make_calibrations.py", "calibrations.json", numba, lambda _: 1e-5)
