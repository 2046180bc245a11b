from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from temperance import InputError
from temperance_lab import networks
from temperance_lab.networks.checkpoints import Checkpoint
from temperance_lab.networks.checkpoints import write as write_checkpoint
from temperance_lab.reproduce.networks import TASKS, digest, path_of
from temperance_lab.reproduce.paper_rows import ROWS, Row, reported
from temperance_lab.reproduce.record import Record, measured, read, write

CELL = {
    "experiment": "table-1",
    "group": "MNIST-Lenet-5",
    "dataset": "MNIST",
    "model": "Lenet-5",
    "method": "UTS",
    "metric": "nll",
}
NEEDS = {"file": "logits/a.npz", "hardware": "a GPU", "command": "temperance-lab reproduce table-1"}


def test_a_record_survives_its_file(tmp_path):
    values = np.random.default_rng(0).normal(0.04, 0.001, 20)
    full = Record(**CELL, **measured(values, {"mean": 0.0429, "std": 0.0009}, "exact"))
    empty = Record(**CELL | {"metric": "ece"}, needs=NEEDS)
    path = tmp_path / "deep" / "records.json"
    write(path, [full, empty])
    again = read(path)
    assert [r.to_dict() for r in again] == [full.to_dict(), empty.to_dict()]
    assert again[0].reproduced == pytest.approx(values.mean(), rel=1e-4)
    assert again[0].draws == 20
    assert [p.name for p in path.parent.iterdir()] == ["records.json"]


def test_a_line_of_a_file_tells_what_differs_from_the_line_before(tmp_path):
    # A field departs from its default, returns to it, and becomes a column of its own.
    found = measured([0.1, 0.2, 0.4], None, "exact")
    told = [("a", "", 1), ("b", "noisy", 1), ("c", "", 2), ("d", "", 2)]
    records = [
        Record(**CELL | {"group": g, "metric": m, "method": method}, caveat=caveat, x=x, **found)
        for g, caveat, x in told
        for method in ("TS", "UTS")
        for m in ("nll", "ece")[: 1 + (g < "c")]
    ]
    records[-1] = dataclasses.replace(records[-1], caveat="of one method", networks=5)
    note = "stood in for an answer, in 3 draws"
    records[1:6:2] = [dataclasses.replace(one, note=note) for one in records[1:6:2]]
    path = tmp_path / "records.json"
    write(path, records)
    assert [r.to_dict() for r in read(path)] == [r.to_dict() for r in records]
    lines = [json.loads(line.rstrip(",")) for line in path.read_text().splitlines()[1:-1]]
    assert [line["fields"] for line in lines[1:3]] == [
        {"group": "b", "caveat": "noisy"},
        {"group": "c", "x": 2, "caveat": "", "metric": "nll"},
    ]
    assert "columns" not in lines[1]
    assert path.read_text().count(note) == 1


def test_a_cell_is_measured_or_says_what_it_needs():
    with pytest.raises(InputError, match="either a reproduced number or what it needs"):
        Record(**CELL)
    with pytest.raises(InputError, match="either a reproduced number or what it needs"):
        Record(**CELL, **measured([0.1, 0.2], None, "exact"), needs=NEEDS)
    with pytest.raises(InputError, match="evidence must be one of"):
        Record(**CELL, needs=NEEDS, evidence="hearsay")


def test_a_file_with_other_fields_is_refused(tmp_path):
    path = tmp_path / "records.json"
    table = {"fields": {"experiment": "table-1"}, "columns": ["number"], "rows": [[3, 0.1]]}
    table |= {"metrics": ["nll"], "measured": ["sd"]}
    path.write_text(json.dumps({"shared": {}, "tables": [table]}))
    with pytest.raises(InputError, match="Fields differ"):
        read(path)


def test_the_interval_is_students():
    values = np.random.default_rng(1).normal(size=20)
    record = Record(**CELL, **measured(values, None, "nearest"))
    expected = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    assert record.interval == pytest.approx(expected)
    assert record.agrees is None


def test_several_training_runs_make_the_interval():
    # Four draws of each of five networks, in turn: the networks differ more than the draws.
    rng = np.random.default_rng(2)
    networks = rng.normal(size=5)
    values = np.tile(networks, 4) + 0.01 * rng.normal(size=20)
    record = Record(**CELL, **measured(values, None, "nearest", networks=5))
    means = values.reshape(4, 5).mean(axis=0)
    assert record.sd_networks == pytest.approx(means.std(ddof=1))
    assert record.interval == pytest.approx(
        stats.t.interval(0.95, 4, means.mean(), stats.sem(means))
    )


@pytest.mark.parametrize(("off", "agrees"), [(0.00068, True), (0.00070, False)])
def test_agreement_is_two_standard_errors_and_half_a_digit(off, agrees):
    # 20 draws of spread .001 on both sides: 2 sqrt(2 / 20) x .001 + .00005 = .00068246
    values = 0.04 + off + 0.001 * np.tile([-1, 1], 10) * np.sqrt(19 / 20)
    record = Record(**CELL, **measured(values, {"mean": 0.04, "std": 0.001}, "exact"))
    assert record.sd == pytest.approx(0.001)
    assert record.agrees is agrees
    other = Record(**CELL, **measured(values, {"mean": 0.04, "std": 0.001}, "other weights"))
    assert other.agrees is None


def test_the_papers_tables_are_the_papers():
    # What it says of its own table 1: TS is best in every row, UTS better than nothing.
    rows = [row for row in ROWS if reported(row, "TS", "nll")]
    assert len(rows) == 12
    for row in rows:
        nll = {
            m: reported(row, m, "nll") for m in ("uncalibrated", "TS", "UTS", "vector", "matrix")
        }
        means = {m: cell["mean"] for m, cell in nll.items() if cell}
        assert len(means) == 5
        assert min(means, key=lambda m: means[m]) == "TS"
        assert means["UTS"] < means["uncalibrated"]
        assert reported(row, "UTS", "accuracy") == reported(row, "TS", "accuracy")
    assert reported(rows[0], "prior-matched", "nll") is None


def test_the_hash_of_a_network_is_that_of_its_weights(tmp_path):
    facts = {name: [1, 2, 3] for name in ("recipe", "seed", "data", "validation", "history")}
    task, hashes = TASKS["mnist"], []
    for i, seed in enumerate((0, 0, 0, 0, 1)):
        weights = dict(networks.build("lenet5", 10, 1, seed=seed).state_dict())
        checkpoint = Checkpoint(dict(list(facts.items())[i:] + list(facts.items())[:i]), weights)
        write_checkpoint(path_of(task, "member_00", tmp_path / str(i)), checkpoint)
        hashes.append(digest(task, "member_00", tmp_path / str(i)))
    assert len(set(hashes[:4])) == 1
    assert hashes[4] != hashes[0]


def test_every_row_that_is_missing_names_its_file():
    missing = [row for row in ROWS if row.evidence == "missing"]
    tables, supplement = missing[:2], missing[2:]
    assert {row.group for row in tables} == {"SVHN-DenseNet100", "CIFAR100-WideResNet40-4"}
    assert {row.group for row in supplement} == {"ImageNet-ResNet152", "ISIC-ResNet200"}
    for row in missing:
        needs = row.needs("table-1")
        assert row.file in needs["file"]
        assert row.group in needs["command"]
    assert Row("A", "B", "c.npz").group == "A-B"
