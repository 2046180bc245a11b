"""The example that needs nothing but the package: train, shift, calibrate, within five minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "experiments" / "mnist5k_end_to_end.py"
TEMPERATURES = ("TS", "UTS", "TS-Target (oracle)")


@pytest.mark.slow
def test_mnist_5k_end_to_end(tmp_path):
    before = os.times()
    command = [
        sys.executable,
        "-W",
        "error",
        str(EXAMPLE),
        "--directory",
        str(tmp_path / "networks"),
    ]
    command += ["--json", str(tmp_path / "records.json")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    after = os.times()
    # Of processor time, so that other work on the machine does not count: two cores need less.
    user, system = (after.children_user - before.children_user), after.children_system
    assert user + system - before.children_system < 300
    assert "mean over the shifts" in result.stdout

    records = json.loads((tmp_path / "records.json").read_text())
    table = {(r["shift"], r["method"]): r for r in records}
    shifts = {shift for shift, _ in table}
    assert len(table) == len(records) == len(shifts) * len({method for _, method in table})
    assert np.isfinite([[r["nll"], r["ece"], r["brier"]] for r in records]).all()

    def mean(method, metric="nll"):
        return np.mean([table[shift, method][metric] for shift in shifts - {"none"}])

    # At home the network reads digits; shifted, it is wrong more often than it says.
    assert table["none", "uncalibrated"]["accuracy"] > 0.95
    assert mean("uncalibrated", "ece") > 4 * table["none", "uncalibrated"]["ece"]
    # No temperature beats the oracle's; the more a method knows of the target, the closer it comes.
    assert mean("TS-Target (oracle)") < mean("prior-matched, T only") < mean("UTS")
    assert mean("UTS") < mean("TS") < mean("uncalibrated")
    assert mean("calibrate") < mean("UTS")
    assert mean("ensemble") < mean("uncalibrated")
    # The paper's future work: an ensemble is calibrated without labels like any classifier.
    assert mean("ensemble + UTS") < mean("ensemble")
    assert mean("ensemble + calibrate") < mean("ensemble")
    # A temperature leaves the predictions alone.
    for shift in shifts:
        accuracy = table[shift, "uncalibrated"]["accuracy"]
        assert {table[shift, method]["accuracy"] for method in TEMPERATURES} == {accuracy}
