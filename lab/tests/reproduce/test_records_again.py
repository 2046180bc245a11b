"""Cheap cells of the committed records, measured again from nothing."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from temperance_lab.reproduce import ExperimentData, run, stored
from temperance_lab.reproduce.claims import ORDER
from temperance_lab.reproduce.comparison import compare
from temperance_lab.reproduce.core import core_of
from temperance_lab.reproduce.figures import EQUAL
from temperance_lab.reproduce.paper_rows import ROWS
from temperance_lab.reproduce.protocol import Logits, draw_shifted, over_draws
from temperance_lab.reproduce.record_table import RecordTable

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CHEAP = ["uncalibrated", "TS", "UTS"]

pytestmark = pytest.mark.skipif(
    not EXPERIMENTS.is_dir(), reason="a source distribution has no experiments/"
)


def assert_same(now, committed):
    """Every record of now is one of the committed, on the same logits with the same number."""
    counts, differ = compare(now, committed)
    assert not differ
    assert counts["same"] == len(now) > 0


@pytest.mark.parametrize("name", ["table-1", "label-noise", "sample-size"])
def test_quick_records_of_the_shipped_logits(name, tmp_path):
    """What ``temperance-lab reproduce NAME --quick --cells demo`` writes, without any file."""
    data = ExperimentData(tmp_path, quick=True)
    (group, now), *_ = run(name, data, tmp_path, cells="demo", methods=CHEAP)
    assert_same(now, [r for r in stored(name, EXPERIMENTS / "quick") if r.group == group])


def shipped(name):
    with np.load(str(files("temperance.cli") / "demo_data" / f"{name}.npz")) as file:
        z, y = file["logits"].astype(np.float64), file["labels"].astype(np.int64)
    return Logits(z, y, np.bincount(y) / len(y), name)


def test_order_of_the_methods_on_shipped_logits():
    """Digits rotated by 60 degrees, where UTS and TS are close in the records of figure 2."""
    draw = draw_shifted(shipped("mnist_source"), shipped("mnist_rotated_60"))
    draws = over_draws(draw, ORDER, 5)
    target, ours, uts, ts, nothing = (np.mean(draws.values[m]["brier"]) for m in ORDER)
    assert target < ours < min(uts, ts)
    assert max(uts, ts) < nothing


def test_order_of_the_methods_in_figure_2():
    """Where labels of the source leave TS worse than equal probabilities, the order is whole."""
    t = RecordTable(stored("figure-shift", EXPERIMENTS / "paper"))
    scores = [
        [t.value(g, m, "brier", x) for m in ORDER]
        for g in t.groups()
        for x in t.degrees(g)
        if t.value(g, "TS", "brier", x) > EQUAL
    ]
    assert len(scores) > 10
    assert (np.diff(scores, axis=1) > 0).all()


@pytest.mark.parametrize("name", ["table-1", "label-noise"])
@pytest.mark.parametrize(
    "group", [row.group for row in ROWS if row.file and row.evidence != "missing"]
)
def test_records_of_public_logits(name, group, tmp_path, shared_data):
    """What ``temperance-lab reproduce NAME --cells GROUP --data DIR`` writes."""
    data = ExperimentData(tmp_path, shared_data)
    (_, now), *_ = run(name, data, tmp_path, cells=group, methods=CHEAP)
    assert_same(now, [r for r in stored(name, EXPERIMENTS / "paper") if r.group == group])


@pytest.mark.reproduce
def test_records_of_the_library_of_today(tmp_path, shared_data):
    """Prior-matched scaling changes with the library; a failure asks to measure it again."""
    data = ExperimentData(tmp_path, shared_data)
    group, ours = "CIFAR10-VGG16", ["prior-matched, T only", "prior-matched"]
    (_, now), *_ = run("table-1", data, tmp_path, cells=group, methods=ours)
    committed = [r for r in stored("table-1", EXPERIMENTS / "paper") if r.group == group]
    # A core of other code may compute the same.
    assert_same(now, [replace(r, core=core_of(r.method)) for r in committed])


@pytest.mark.reproduce
def test_a_network_that_is_trained_again_has_the_recorded_weights(tmp_path, shared_data):
    """From an empty directory: a LeNet-5 is trained, digits are rotated, the numbers the same."""
    data = ExperimentData(tmp_path, shared_data)
    group, method = "MNIST-rotation-105", ["ll-Laplace"]
    (_, now), *_ = run("probabilistic", data, tmp_path / "r", cells=group, methods=method)
    committed = [r for r in stored("probabilistic", EXPERIMENTS / "paper") if r.group == group]
    assert {r.weights for r in now} == {r.weights for r in committed if r.method in method}
    assert_same(now, committed)
