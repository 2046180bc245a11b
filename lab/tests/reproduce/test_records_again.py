"""Cheap cells of the committed records, measured again from nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from temperance_lab.reproduce import ExperimentData, run, stored

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CHEAP = ["uncalibrated", "TS", "UTS"]
# A solver that ends elsewhere within its tolerance moves a row or two between bins of ECE.
OF_THE_SPREAD = 1 / 50

pytestmark = pytest.mark.skipif(
    not EXPERIMENTS.is_dir(), reason="a source distribution has no experiments/"
)


def compare(now, committed):
    then = {(r.x, r.method, r.metric): r for r in committed}
    assert now
    for record in now:
        before = then[record.x, record.method, record.metric]
        assert record.data == before.data
        tolerance = before.sd * OF_THE_SPREAD + 1e-4 * abs(before.reproduced)
        assert record.reproduced == pytest.approx(before.reproduced, abs=tolerance)


@pytest.mark.parametrize("name", ["table-1", "label-noise", "sample-size"])
def test_quick_records_of_the_shipped_logits(name, tmp_path):
    """What ``temperance-lab reproduce NAME --quick --cells demo`` writes, without any file."""
    data = ExperimentData(tmp_path, quick=True)
    (group, now), *_ = run(name, data, tmp_path, cells="demo", methods=CHEAP)
    compare(now, [r for r in stored(name, EXPERIMENTS / "quick") if r.group == group])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("table-1", "CIFAR10-VGG16"),
        ("table-1", "CIFAR10-DenseNet100"),
        ("label-noise", "CIFAR10-VGG16"),
    ],
)
def test_records_of_public_logits(name, group, tmp_path, shared_data):
    """What ``temperance-lab reproduce NAME --cells GROUP --data DIR`` writes."""
    data = ExperimentData(tmp_path, shared_data)
    (_, now), *_ = run(name, data, tmp_path, cells=group, methods=CHEAP)
    compare(now, [r for r in stored(name, EXPERIMENTS / "paper") if r.group == group])


@pytest.mark.reproduce
def test_records_of_the_library_of_today(tmp_path, shared_data):
    """Prior-matched scaling changes with the library; a failure asks to measure it again."""
    data = ExperimentData(tmp_path, shared_data)
    group, ours = "CIFAR10-VGG16", ["prior-matched, T only", "prior-matched"]
    (_, now), *_ = run("table-1", data, tmp_path, cells=group, methods=ours)
    compare(now, [r for r in stored("table-1", EXPERIMENTS / "paper") if r.group == group])
