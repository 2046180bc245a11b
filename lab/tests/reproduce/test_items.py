from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from temperance import InputError
from temperance_lab import datasets, networks
from temperance_lab.cli import main
from temperance_lab.datasets import Dataset
from temperance_lab.reproduce import EXPERIMENTS, ExperimentData, read, run, stored
from temperance_lab.reproduce.core import code_of, core_of_today, uses_core
from temperance_lab.reproduce.figures import FIGURES, draw
from temperance_lab.reproduce.networks import TASKS, trained
from temperance_lab.reproduce.paper_rows import ROWS
from temperance_lab.reproduce.probabilistic import NEIGHBOURS, PAPER
from temperance_lab.reproduce.record import write
from temperance_lab.reproduce.size import SHIFTED
from temperance_lab.reproduce.training_of_rows import TRAINED

RECORDS = Path(__file__).parents[2] / "experiments" / "paper"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return ExperimentData(tmp_path_factory.mktemp("cache"), quick=True)


@pytest.fixture(scope="module")
def table(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    return folder, dict(run("table-1", data, folder, cells="demo"))


def test_a_row_is_run_on_what_the_package_brings(table):
    folder, groups = table
    assert list(groups) == ["MNIST-demo"]
    records = groups["MNIST-demo"]
    assert {(r.method, r.metric) for r in records} == {
        (m, metric)
        for m in EXPERIMENTS["table-1"].methods
        for metric in ("accuracy", "nll", "ece", "brier")
    }
    assert all(r.draws == 5 and len(r.data) == 16 for r in records)
    assert [r.to_dict() for r in read(folder / "table-1.json")] == [r.to_dict() for r in records]
    by = {(r.method, r.metric): r.reproduced for r in records}
    assert by["TS", "nll"] < by["uncalibrated", "nll"]
    assert by["TS", "accuracy"] == by["UTS", "accuracy"] == by["uncalibrated", "accuracy"]


def test_what_is_there_is_kept_and_what_is_named_is_run_again(table, data):
    folder, _ = table
    path = folder / "table-1.json"
    before = read(path)
    write(path, [replace(r, reproduced=7.0) for r in before])
    (_, kept), *_ = run("table-1", data, folder, cells="demo")
    assert {r.reproduced for r in kept} == {7.0}
    (_, mixed), *_ = run("table-1", data, folder, cells="demo", methods=["TS"])
    assert {r.method for r in mixed if r.reproduced != 7.0} == {"TS"}
    again = {(r.method, r.metric): r.reproduced for r in before}
    for r in read(path):
        if r.method == "TS":
            assert r.reproduced == again[r.method, r.metric]


def test_what_another_core_has_measured_is_refreshed(table, data, tmp_path):
    folder, _ = table
    ours = {"prior-matched", "prior-matched, T only"}
    before = read(folder / "table-1.json")
    assert {r.core for r in before if r.method in ours} == {core_of_today()}
    assert {r.core for r in before if r.method not in ours} == {None}
    old = [replace(r, reproduced=7.0, core=r.core and "0" * 16) for r in before]
    write(tmp_path / "table-1.json", old)
    (_, kept), *_ = run("table-1", data, tmp_path, cells="demo")
    assert {r.reproduced for r in kept} == {7.0}
    (_, now), *_ = run("table-1", data, tmp_path, cells="demo", refresh=True)
    assert {r.method for r in now if r.reproduced != 7.0} == ours
    again = {(r.method, r.metric): r for r in before}
    assert all(r.core == again[r.method, r.metric].core for r in stored("table-1", tmp_path))


def test_a_core_is_its_code_alone():
    text = '"""One."""\n\n\ndef f(x):\n    """Two."""\n    return x + 1  # three\n'
    words = text.replace("One", "First").replace("Two", "Second").replace("three", "third")
    assert code_of(words) == code_of(text)
    assert code_of(text.replace("x + 1", "x + 2")) != code_of(text)
    assert not uses_core("uncalibrated")
    assert not uses_core("UTS")
    assert uses_core("ensemble + prior-matched, T only")
    assert uses_core("calibrate, 50 labels")


def test_a_group_of_fewer_training_runs_is_measured_again(table, data, tmp_path):
    folder, _ = table
    old = [replace(r, reproduced=7.0) for r in read(folder / "table-1.json")]
    write(tmp_path / "table-1.json", old)
    (_, kept), *_ = run("table-1", data, tmp_path, cells="demo")
    assert {r.reproduced for r in kept} == {7.0}
    write(tmp_path / "table-1.json", [replace(r, weights="0" * 16) for r in old])
    (_, now), *_ = run("table-1", data, tmp_path, cells="demo")
    assert len(now) == len(old)
    assert 7.0 not in {r.reproduced for r in now}


def test_a_row_without_its_file_says_what_it_needs(tmp_path):
    name = "CIFAR100-WideResNet40-4"
    (_, records), *_ = run(
        "table-1", ExperimentData(tmp_path, tmp_path), tmp_path / "r", cells=name
    )
    assert all(r.reproduced is None and name in r.needs["command"] for r in records)
    assert all("cifar100_wideresnet40_4.npz" in r.needs["file"] for r in records)
    assert {r.reported["mean"] for r in records if r.metric == "nll" and r.reported} == {
        0.8751,
        0.8192,
        0.8439,
        0.8757,
        0.8609,
    }


@pytest.mark.parametrize(
    ("group", "network", "pixels", "images", "recipe"),
    [
        ("SVHN-DenseNet100", "densenet100", 32, 73_257, "densenet-svhn"),
        ("CIFAR100-WideResNet40-4", "wideresnet40_4", 32, 50_000, "wideresnet-cifar"),
        ("ISIC-ResNet200", "resnet200", 224, 6_009, "resnet200-isic"),
        ("ImageNet-ResNet152", "resnet152", 224, 50_000, ""),
    ],
)
def test_the_operations_that_a_row_needs_are_those_of_its_recipe(
    group, network, pixels, images, recipe
):
    """A step of training takes three times the operations of a prediction."""
    row = next(r for r in ROWS if r.group == group)
    built = networks.build(network, row.classes, 3).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        built(torch.zeros(1, 3, pixels, pixels))
    passes = 3 * networks.RECIPES[recipe].epochs if recipe else 1
    said = float(re.findall(r"(\S+) operations", row.hardware)[0])
    assert said == pytest.approx(counter.get_total_flops() * images * passes, rel=0.05)


def test_the_file_that_a_row_names_fills_it(tmp_path):
    row = next(r for r in ROWS if r.group == "SVHN-DenseNet100")
    (tmp_path / "logits").mkdir()
    data = ExperimentData(tmp_path, tmp_path)
    (_, missing), *_ = run("table-1", data, tmp_path / "r", cells=row.group)
    assert all(r.needs is not None for r in missing)
    z = 3 * np.random.default_rng(0).normal(size=(500, row.classes))
    np.savez(tmp_path / "logits" / row.file, logits=z, labels=z.argmax(axis=1))
    (_, records), *_ = run("table-1", data, tmp_path / "r", cells=row.group, methods=["TS", "UTS"])
    filled = [r for r in records if r.method in {"TS", "UTS"}]
    assert {r.evidence for r in filled} == {"other weights"}
    assert all(r.needs is None and r.reported and r.agrees is None for r in filled)
    others = [r for r in missing if r.method not in {"TS", "UTS"}]
    assert [r for r in records if r not in filled] == others  # what they need is still said


@pytest.mark.slow
@pytest.mark.parametrize("group", TRAINED)
def test_a_missing_row_is_filled_by_its_command(group, tmp_path, monkeypatch):
    """One epoch of eight images in the place of hours; then the row has numbers."""
    row = next(r for r in ROWS if r.group == group)
    rng = np.random.default_rng(0)
    x = rng.integers(256, size=(8, 32, 32, 3), dtype=np.uint8)
    y = np.arange(8) % row.classes
    names = tuple(map(str, range(row.classes)))
    given = Dataset(x, y, x, y, names)
    monkeypatch.setattr("temperance_lab.datasets.load", lambda *_: given)
    for name, recipe in networks.RECIPES.items():
        monkeypatch.setitem(networks.RECIPES, name, replace(recipe, epochs=1, batch_size=4))
    assert main(["train", group, "--data", str(tmp_path)]) == 0
    with np.load(tmp_path / "logits" / row.file) as file:
        assert file["logits"].shape == (8, row.classes)
    data = ExperimentData(tmp_path, tmp_path)
    assert row.available(data)
    assert f"temperance-lab train {group} --data" in row.hardware
    assert main(["train", "MNIST-Lenet-5", "--data", str(tmp_path)]) == 2


def test_records_come_in_the_order_of_the_paper(tmp_path):
    data = ExperimentData(tmp_path, tmp_path)
    cells = ("CIFAR100-WideResNet40-4", "SVHN-DenseNet100")
    for name in cells:
        list(run("table-1", data, tmp_path, cells=name))
    assert list(dict.fromkeys(r.group for r in stored("table-1", tmp_path))) == [*reversed(cells)]


def test_an_unknown_experiment_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="name must be one of"):
        list(run("table-9", data, tmp_path))


def test_wrong_labels_and_numbers_of_rows(data, tmp_path):
    few = {"label-noise": ["uncalibrated", "TS"], "sample-size": ["TS", "UTS"]}
    found = {}
    for name, methods in few.items():
        (_, records), *_ = run(name, data, tmp_path / name, cells="demo", methods=methods)
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
    kept = tmp_path / "out" / "quick" / "records"
    kept.mkdir(parents=True)
    (kept / "table-1.json").write_text((folder / "table-1.json").read_text())
    command = ["reproduce", "table-1", "--quick", "--cells", "demo", "--out", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4 * len(EXPERIMENTS["table-1"].methods)
    assert (tmp_path / "out" / "quick" / "table-1.png").exists()
    assert main(command) == 0
    assert "UTS improves calibration" in capsys.readouterr().out
    assert main(["reproduce", "table-9", "--quick"]) == 2
    assert "table-9" in capsys.readouterr().err


def test_records_of_two_runs_are_compared(table, tmp_path, capsys):
    records = table[1]["MNIST-demo"]
    now, then = tmp_path / "now", tmp_path / "then"
    write(now / "table-1.json", records)
    changed = [
        replace(r, data="0" * 16) if r.method == "TS" else replace(r, core=r.core and "0" * 16)
        for r in records
        if r.method != "UTS"
    ]
    write(then / "table-1.json", changed)
    assert main(["compare", str(now), str(then)]) == 0
    told = capsys.readouterr().out
    n = 4 * (len(EXPERIMENTS["table-1"].methods) - 4)
    assert f"{n} same, 4 other logits, 4 new, 8 another core" in " ".join(told.split())
    tolerance = [r.sd / 50 + 1e-4 * r.reproduced for r in changed]
    for times, code in ((0.9, 0), (1.1, 1)):
        moved = [
            replace(r, reproduced=r.reproduced + times * off)
            for r, off in zip(changed, tolerance, strict=True)
        ]
        write(now / "table-1.json", moved)
        assert main(["compare", str(now), str(then)]) == code
        assert ("differs: " in capsys.readouterr().out) == bool(code)


@pytest.mark.skipif(not RECORDS.is_dir(), reason="a source distribution has no experiments/")
def test_a_network_of_another_recipe_is_not_taken(tmp_path):
    task, digits = replace(TASKS["mnist-5k"], epochs=1), datasets.load("mnist-5k")
    first, again = (trained(task, "member_00", digits, tmp_path) for _ in range(2))
    assert torch.equal(first.head.weight, again.head.weight)
    with pytest.raises(InputError, match="another recipe"):
        trained(replace(task, epochs=2), "member_00", digits, tmp_path)
    longer = replace(task, other_epochs={"ll_dropout": 3})
    assert [longer.recipe_of(kind).epochs for kind in ("member_00", "ll_dropout")] == [1, 3]
    assert "3 epochs" in longer.training("ll_dropout")


def test_a_complete_group_trains_no_network(tmp_path, monkeypatch):
    """A run that goes on does not train networks for methods that a group does not have."""
    (tmp_path / "sample-size.json").write_bytes((RECORDS / "sample-size.json").read_bytes())
    monkeypatch.setattr(ExperimentData, "network", lambda *_: pytest.fail("a network is trained"))
    data = ExperimentData(tmp_path, tmp_path)
    groups = [g for g, _ in run("sample-size", data, tmp_path, cells="MNIST")]
    assert len(groups) == 20


@pytest.mark.skipif(not RECORDS.is_dir(), reason="a source distribution has no experiments/")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_records_are_complete(name):
    """Every cell of the paper has a number or says what it needs."""
    records = stored(name, RECORDS)
    assert len({r.key for r in records}) == len(records) > 0
    assert all(r.needs or (len(r.data) == 16 and r.draws >= 20) for r in records)
    assert {r.group for r in records} == set(EXPERIMENTS[name].order)
    assert name in FIGURES
    for group in EXPERIMENTS[name].order:
        there = {r.method for r in records if r.group == group}
        assert set(EXPERIMENTS[name].methods) - there <= not_asked(name, group), group


def not_asked(name, group):
    """Return methods that a group does not have: BBQ with many classes, a target without shift."""
    if name == "table-1":
        return {"BBQ"} if group.startswith(("Birds", "CIFAR100")) else set()
    if name == "sample-size":
        return {"ATS"} if group in SHIFTED else {"prior-matched", "TS-Target"}
    if name == "probabilistic":
        return set() if group in PAPER else set(NEIGHBOURS)
    return set()
