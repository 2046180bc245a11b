"""A call is read in few files: as many as a newcomer can hold in mind."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import scenes

import temperance as tp

PACKAGE = Path(tp.__file__).parent


def files_of(call):
    """Return our files in which a function runs during a call, once all is loaded and compiled."""
    call()
    seen = set()

    def see(frame, event, _):
        if event == "call":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(see)
    threading.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = (Path(name) for name in seen)
    return {str(p.relative_to(PACKAGE)) for p in ours if p.is_relative_to(PACKAGE)}


def test_the_probe_sees_the_files_of_a_call():
    assert "maps.py" in files_of(lambda: tp.Temperature(2.0)(np.eye(3)))


def test_calibrate():
    s = scenes.shifted(k=5, n=1000, seed=1)
    found = files_of(lambda: tp.calibrate(s.target, prior=s.prior, source=s.source))
    assert len(found) <= 16, sorted(found)
    assert len([name for name in found if name.startswith("calibrate/")]) <= 8, sorted(found)


def test_a_streamed_fit():
    s = scenes.shifted(k=5, n=1000, seed=1)
    z, y = s.source
    blocks = [(z[:500], y[:500]), (z[500:], y[500:])]
    assert len(files_of(lambda: tp.fit_temperature(blocks))) <= 12
