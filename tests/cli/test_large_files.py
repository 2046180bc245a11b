"""Files larger than what is held: mapped, read once, and in little memory."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from simulated import logits

from temperance.cli import main
from temperance.data.parquet import ParquetBlocks
from temperance.io import formats, parquet

N, K = 6_000, 4


@pytest.fixture(scope="module")
def data():
    z, y = logits(N, K, sharpness=2.0)
    return z.astype(np.float32), y


@pytest.fixture
def dataset(data, tmp_path):
    """A directory of Parquet files, and the same rows in a file of each other kind."""
    z, y = data
    (tmp_path / "days").mkdir()
    for i, part in enumerate(np.array_split(np.arange(N), 3)):
        columns = {f"logit_{k}": z[part, k] for k in range(K)} | {"label": y[part]}
        pq.write_table(pa.table(columns), tmp_path / "days" / f"day-{i}.parquet")
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    return tmp_path


@pytest.fixture
def scans(monkeypatch):
    """Count how often Parquet is read."""
    counted = []
    batches = ParquetBlocks.batches

    def counting(self, extras):
        counted.append(extras)
        return batches(self, extras)

    monkeypatch.setattr(ParquetBlocks, "batches", counting)
    return counted


def test_a_directory_is_one_table(data, dataset):
    held = formats.read(dataset / "days")
    np.testing.assert_array_equal(held.logits, data[0])
    np.testing.assert_array_equal(held.labels, data[1])


def test_what_is_large_is_mapped(data, dataset, monkeypatch):
    monkeypatch.setattr(parquet, "IN_MEMORY", 0)
    held = formats.read(dataset / "days")
    assert isinstance(held.logits, np.memmap)
    np.testing.assert_array_equal(held.logits, data[0])


def run(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["fit", "evaluate", "calibrate"])
def test_commands_read_a_dataset_once_and_say_what_an_array_says(
    dataset, capsys, monkeypatch, scans, command
):
    monkeypatch.setattr(parquet, "IN_MEMORY", 0)
    days, z, y = dataset / "days", dataset / "z.npy", dataset / "y.npy"
    if command == "fit":
        got = run(capsys, "fit", days, "--out", dataset / "a.json")
        want = run(capsys, "fit", z, "--labels", y, "--out", dataset / "b.json")
    elif command == "evaluate":
        got = run(capsys, "evaluate", days)
        want = run(capsys, "evaluate", z, "--labels", y)
    else:
        got = run(capsys, "calibrate", days, "--prior", "uniform")
        want = run(capsys, "calibrate", z, "--prior", "uniform")
    assert len(scans) == 1
    assert got == want
