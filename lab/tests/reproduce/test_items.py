from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from temperance import InputError
from temperance.cli import main
from temperance_lab.reproduce import ITEMS, Bench, Record, read, run, stored
from temperance_lab.reproduce.figures import FIGURES, draw
from temperance_lab.reproduce.paper_rows import ROWS
from temperance_lab.reproduce.record import write

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("cache"), quick=True)


@pytest.fixture(scope="module")
def table(bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    return folder, dict(run("table-1", bench, folder, cells="demo"))


def test_a_row_is_run_on_what_the_package_brings(table):
    folder, groups = table
    assert list(groups) == ["MNIST-demo"]
    records = groups["MNIST-demo"]
    assert {(r.method, r.metric) for r in records} == {
        (m, metric)
        for m in ITEMS["table-1"].methods
        for metric in ("accuracy", "nll", "ece", "brier")
    }
    assert all(r.draws == 5 and len(r.data) == 64 for r in records)
    assert [r.to_dict() for r in read(folder / "MNIST-demo.json")] == [r.to_dict() for r in records]
    by = {(r.method, r.metric): r.reproduced for r in records}
    assert by["TS", "nll"] < by["uncalibrated", "nll"]
    assert by["TS", "accuracy"] == by["UTS", "accuracy"] == by["uncalibrated", "accuracy"]


def test_what_is_there_is_kept_and_what_is_named_is_run_again(table, bench):
    folder, _ = table
    path = folder / "MNIST-demo.json"
    before = path.read_text()
    facts = json.loads(before)
    for fact in facts:
        fact["reproduced"] = 7.0
    path.write_text(json.dumps(facts))
    (_, kept), *_ = run("table-1", bench, folder, cells="demo")
    assert {r.reproduced for r in kept} == {7.0}
    (_, mixed), *_ = run("table-1", bench, folder, cells="demo", methods=["TS"])
    assert {r.method for r in mixed if r.reproduced != 7.0} == {"TS"}
    again = {(f["method"], f["metric"]): f["reproduced"] for f in json.loads(before)}
    for r in read(path):
        if r.method == "TS":
            assert r.reproduced == again[r.method, r.metric]


def test_a_row_without_its_file_says_what_it_needs(tmp_path):
    name = "CIFAR100-WideResNet40-4"
    (_, records), *_ = run("table-1", Bench(tmp_path, tmp_path), tmp_path / "r", cells=name)
    assert all(r.reproduced is None and name in r.needs["command"] for r in records)
    assert all("cifar100_wideresnet40_4.npz" in r.needs["file"] for r in records)
    assert {r.reported["mean"] for r in records if r.metric == "nll" and r.reported} == {
        0.8751,
        0.8192,
        0.8439,
        0.8757,
        0.8609,
    }


def test_the_file_that_a_row_names_fills_it(tmp_path):
    row = next(r for r in ROWS if r.group == "SVHN-DenseNet100")
    (tmp_path / "logits").mkdir()
    bench = Bench(tmp_path, tmp_path)
    (_, missing), *_ = run("table-1", bench, tmp_path / "r", cells=row.group)
    assert all(r.needs is not None for r in missing)
    z = 3 * np.random.default_rng(0).normal(size=(500, row.classes))
    np.savez(tmp_path / "logits" / row.file, logits=z, labels=z.argmax(axis=1))
    (_, records), *_ = run("table-1", bench, tmp_path / "r", cells=row.group, methods=["TS", "UTS"])
    filled = [r for r in records if r.method in {"TS", "UTS"}]
    assert {r.evidence for r in filled} == {"other weights"}
    assert all(r.needs is None and r.reported and r.agrees is None for r in filled)
    others = [r for r in missing if r.method not in {"TS", "UTS"}]
    assert [r for r in records if r not in filled] == others  # what they need is still said


def test_records_come_in_the_order_of_the_paper(tmp_path):
    for name in ("MNIST-rotation", "CIFAR10-gaussian_noise", "MNIST-rolling", "later"):
        cell = {"item": "figure-shift", "group": name, "dataset": "d", "model": "m"}
        write(tmp_path / f"{name}.json", [Record(**cell, method="TS", metric="nll", needs={})])
    order = ["MNIST-rotation", "MNIST-rolling", "CIFAR10-gaussian_noise", "later"]
    assert [r.group for r in stored("figure-shift", tmp_path)] == order


def test_an_unknown_item_is_refused(bench, tmp_path):
    with pytest.raises(InputError, match="name must be one of"):
        list(run("table-9", bench, tmp_path))


def test_wrong_labels_and_numbers_of_rows(bench, tmp_path):
    few = {"label-noise": ["uncalibrated", "TS"], "sample-size": ["TS", "UTS"]}
    found = {}
    for name, methods in few.items():
        (_, records), *_ = run(name, bench, tmp_path / name, cells="demo", methods=methods)
        draw(name, records, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000
        found[name] = {(r.x, r.method, r.metric): r.reproduced for r in records}
    ts = [found["label-noise"][share, "TS", "nll"] for share in (0.0, 0.2, 0.5)]
    assert ts == sorted(ts)
    # With rows, the shortfall that UTS reads fades, and T with it.
    uts = [found["sample-size"][n, "UTS", "temperature"] for n in (50, 200, 1_000)]
    assert uts == sorted(uts, reverse=True)


def test_command_line(table, tmp_path, capsys):
    folder, _ = table
    kept = tmp_path / "out" / "quick" / "records" / "table-1"
    kept.mkdir(parents=True)
    (kept / "MNIST-demo.json").write_text((folder / "MNIST-demo.json").read_text())
    command = ["reproduce", "table-1", "--quick", "--cells", "demo", "--out", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4 * len(ITEMS["table-1"].methods)
    assert (tmp_path / "out" / "quick" / "table-1.png").exists()
    assert main(command) == 0
    assert "UTS improves calibration" in capsys.readouterr().out
    assert main(["reproduce", "table-9", "--quick"]) == 2
    assert "table-9" in capsys.readouterr().err


@pytest.mark.skipif(not EXPERIMENTS.is_dir(), reason="a source distribution has no experiments/")
@pytest.mark.parametrize("name", ITEMS)
def test_committed_records(name):
    folder = EXPERIMENTS / name.replace("-", "_")
    records = [r for path in sorted((folder / "records").glob("*.json")) for r in read(path)]
    assert len({r.key for r in records}) == len(records) > 0
    assert all(r.needs or (len(r.data) == 64 and r.draws == 20) for r in records)
    if name == "table-1":
        assert {r.group for r in records} == {row.group for row in ROWS}
        for row in ROWS:
            methods = {r.method for r in records if r.group == row.group}
            assert methods == set(ITEMS[name].methods)
    assert name in FIGURES
