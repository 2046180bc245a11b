"""A call is read in few files: as many as a newcomer can hold in mind."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance.cli import main

PACKAGE = Path(tp.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
UNSAID = {"_core/kernels_numba.py", "_core/kernels_numpy.py", "report/texts.py"}  # in all walks


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


@pytest.fixture(scope="module")
def walked():
    """The files of the library that the walk through the code names."""
    text = CONTRIBUTING.read_text("utf-8")
    walk = text[text.index("## How a call travels") : text.index("## How to add")]
    return set(re.findall(r"`([\w/]+\.py)`", walk)) - {"tests/test_files_of_a_call.py"}


def test_the_walk_names_files_that_are_there(walked):
    assert len(walked) > 30
    assert [name for name in walked if not (PACKAGE / name).exists()] == []


def test_the_walk_passes_every_file_of_its_calls(walked, tmp_path, capsys):
    s = scenes.shifted(k=5, n=1000, seed=1)
    z, y = s.source
    known = {"prior": s.prior, "source": s.source}
    tp.calibrate(s.target, **known).save(tmp_path / "cal.json")
    np.savez(tmp_path / "new.npz", logits=z)
    places = [tmp_path / name for name in ("new.npz", "cal.json", "out.npz")]
    new, cal, out = map(str, places)

    def blocks():
        yield z[:500], y[:500]
        yield z[500:], y[500:]

    calls = (
        lambda: tp.calibrate(s.target, **known),
        lambda: tp.fit_temperature(blocks),
        lambda: main(["apply", new, "--map", cal, "--out", out]),
    )
    assert set().union(*map(files_of, calls)) - walked - UNSAID == set()
    assert "wrote" in capsys.readouterr().err
