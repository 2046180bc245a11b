"""The guide: its Python runs, and its dashboard asks for numbers that exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from streams_of_windows import window

import temperance as tp

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_the_python_of_the_guide_runs(tmp_path, monkeypatch):
    text = (GUIDES / "monitoring.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [block for block in blocks if "mlflow" not in block]
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), "monitoring.md", "exec"), {})  # noqa: S102


@pytest.mark.slow
def test_the_mlflow_recipe_runs(tmp_path):
    pytest.importorskip("mlflow")
    text = (GUIDES / "monitoring.md").read_text("utf-8")
    (recipe,) = re.findall(r"^```python\n(import mlflow.*?)^```", text, re.DOTALL | re.MULTILINE)
    mon = tp.Monitor(source=window(500))
    for day in (1, 2):
        mon.add(window(12 if day == 1 else 300, seed=day)[0], at=f"2026-11-0{day}")
    mon.save(tmp_path / "state")
    begin = "import temperance as tp\nmon = tp.Monitor.load('state')\n"
    quiet = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_URI": "file:mlruns"}
    command = [sys.executable, "-c", begin + recipe]
    subprocess.run(command, cwd=tmp_path, env=os.environ | quiet, check=True, capture_output=True)
    (logged,) = tmp_path.glob("mlruns/*/*/metrics/accuracy")
    assert float(logged.read_text("utf-8").split()[1]) == mon.windows[-1].accuracy.value


def test_the_dashboard_asks_for_numbers_that_exist():
    board = json.loads((GUIDES / "grafana-dashboard.json").read_text("utf-8"))
    asked = {
        re.match(r"\w+", target["expr"]).group()
        for panel in board["panels"]
        for target in panel["targets"]
    }
    mon = tp.Monitor(source=window(500))
    mon.add(window(300, seed=1)[0], at="2026-11-01")
    given = set(re.findall(r"^# TYPE (\w+)", mon.prometheus(), re.MULTILINE))
    assert asked <= given
    assert {"schemaVersion", "title", "panels", "templating"} <= set(board)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
