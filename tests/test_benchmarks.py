"""The benchmark beside the peers runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import sklearn.calibration

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc"
)


def load(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def peers(monkeypatch):
    """The benchmark, with scikit-learn as the only peer: the others take seconds to import."""
    if not hasattr(sklearn.calibration, "_TemperatureScaling"):
        pytest.skip("scikit-learn before 1.8 has no temperature scaling")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    contenders = load(ROOT / "benchmarks" / "contenders.py", monkeypatch)
    monkeypatch.setattr(contenders, "versions", lambda: dict.fromkeys(contenders.PACKAGES))
    return load(ROOT / "benchmarks" / "peers.py", monkeypatch)


def test_everybody_finds_the_temperature(peers):
    rows = peers.temperature(300, 5, 1)
    assert set(rows) >= {"temperance", "temperance, NumPy", "scikit-learn"}
    for name, row in rows.items():
        assert row["cpu_ms"] > 0
        if not name.startswith("plain"):
            assert -1e-12 < row["excess"] < 1e-6
    assert rows["scikit-learn"]["ratio"] == 1


def test_matrix_scaling_is_compared_at_its_optimum(peers):
    rows = peers.affine("matrix", 600, 3, 1)
    assert rows["temperance"]["excess"] < 1e-9


def test_a_peer_that_fails_is_named_and_left_out(peers, capsys):
    def fail(_):
        raise ZeroDivisionError("no luck")

    live = peers.take_turns([peers.Contender("unlucky", fail), peers.Contender("fine", id)], 2)
    assert [one.name for one in live] == ["fine"]
    assert len(live[0].seconds) == 2
    assert "unlucky fails: ZeroDivisionError: no luck" in capsys.readouterr().out


def test_two_threads_are_told_apart(peers, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    gains = peers.two_threads(200, 5, 300, 1)
    assert [row["gain"] > 0 for row in gains.values()] == [True, True]
