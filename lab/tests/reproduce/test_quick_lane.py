"""The whole of the reproduction on five thousand digits; run by `make test-reproduce`."""

from __future__ import annotations

import time

import pytest

from temperance_lab.cli import main
from temperance_lab.reproduce import EXPERIMENTS, ExperimentData, stored

pytestmark = pytest.mark.reproduce
MINUTES = 10


def test_everything_runs_on_digits(tmp_path):
    start = time.monotonic()
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path)]) == 0
    assert time.monotonic() - start < 60 * MINUTES
    data = ExperimentData(tmp_path / "quick", quick=True)
    for name, experiment in EXPERIMENTS.items():
        groups = experiment.groups(data)
        records = stored(name, tmp_path / "quick" / "records")
        assert {r.group for r in records} == set(groups)
        assert {r.method for r in records} <= set(experiment.methods)
        assert all(r.reproduced is not None for r in records)
        assert (tmp_path / "quick" / f"{name}.png").stat().st_size > 10_000
