"""The recipes of the manual, run as they are printed, and what the trackers keep of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import temperance as tp
from temperance.cli import demo

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"
SETUP, *RECIPES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
QUIET = {
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_TRACKING_URI": "file:mlruns",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
}


@pytest.fixture(scope="module")
def facts():
    source, target = demo.load("source"), demo.load("rotated_60")
    cal = tp.calibrate(target.logits, demo.class_mix(), (source.logits, source.labels))
    return cal.to_dict()


def run(tmp_path, tool, setup=SETUP):
    """Run the setup and one recipe in a directory of its own."""
    (recipe,) = (text for text in RECIPES if f"import {tool}" in text)
    assert len(recipe.strip().splitlines()) <= 11  # an import, an empty line, ten of recipe
    done = subprocess.run(
        [sys.executable, "-c", setup + recipe],
        cwd=tmp_path,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_mlflow_keeps_the_facts(tmp_path, facts):
    run(tmp_path, "mlflow")
    (logged,) = (path.parent for path in tmp_path.glob("mlruns/*/*/artifacts"))
    for name in ("accuracy", "temperature", "ece_before", "ece_after"):
        for suffix, expected in zip(("", "_low", "_high"), facts[name], strict=True):
            text = (logged / "metrics" / f"{name}{suffix}").read_text("utf-8")
            assert float(text.split()[1]) == expected  # time, value, step
    assert (logged / "tags" / "verdict").read_text("utf-8") == facts["verdict"]
    assert json.loads((logged / "artifacts" / "facts.json").read_text("utf-8")) == facts
    page = (logged / "artifacts" / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")


def test_a_refusal_is_logged_without_numbers_that_are_not_known(tmp_path):
    refused = SETUP.replace("target.logits, ", "target.logits[:12], ", 1)
    assert refused != SETUP
    run(tmp_path, "mlflow", refused)
    (logged,) = (path.parent for path in tmp_path.glob("mlruns/*/*/artifacts"))
    assert (logged / "tags" / "verdict").read_text("utf-8") == "refused"
    names = {path.name for path in (logged / "metrics").iterdir()}
    assert names == {"temperature", "temperature_low", "temperature_high"}


def test_wandb_keeps_the_facts_without_a_network(tmp_path, facts):
    run(tmp_path, "wandb")
    (record,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    kept = record.read_bytes()
    assert f'"{facts["verdict"]}"'.encode() in kept
    assert repr(facts["accuracy"][0])[:8].encode() in kept
    (page,) = tmp_path.glob("wandb/offline-run-*/files/media/html/*.html")
    assert "Calibration report" in page.read_text("utf-8")
