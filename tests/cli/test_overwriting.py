"""No command writes over a file that it reads, however the two are named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import temperance as tp
from temperance.cli import main

K = 3


@pytest.fixture
def files(tmp_path):
    """Return one file of every kind that a command reads, and a directory of Parquet."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=200)
    z = 2 * np.eye(K)[y] + rng.normal(size=(200, K))
    np.savez(tmp_path / "rows.npz", logits=z, labels=y)
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "prior.json").write_text("[0.2, 0.3, 0.5]")
    (tmp_path / "names.json").write_text('["a", "b", "c"]')
    tp.save(tp.Temperature(2.0), tmp_path / "map.json")
    tp.calibrate(z, np.full(K, 1 / K), (z, y)).save(tmp_path / "cal.json")
    (tmp_path / "parts").mkdir()
    for part in (0, 1):
        rows = slice(100 * part, 100 * part + 100)
        columns = {f"logit_{k}": z[rows, k] for k in range(K)} | {"label": y[rows]}
        parquet.write_table(pa.table(columns), tmp_path / "parts" / f"part-{part}.parquet")
    return tmp_path


def digests(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# Each writing command, and which of its arguments name files that it reads. "{out}" is written.
COMMANDS = {
    "calibrate --out": (
        ["calibrate", "rows.npz", "--prior", "prior.json", "--source", "rows.npz"],
        ["--classes", "names.json", "--out", "{out}"],
        [".json", ".safetensors"],
    ),
    "calibrate --report": (
        ["calibrate", "rows.npz", "--prior", "prior.json", "--source", "parts"],
        ["--report", "{out}"],
        [".html"],
    ),
    "fit": (
        ["fit", "z.npy", "--labels", "y.npy", "--classes", "names.json"],
        ["--out", "{out}"],
        [".json", ".safetensors"],
    ),
    "apply": (
        ["apply", "parts", "--map", "map.json", "--classes", "names.json"],
        ["--out", "{out}"],
        [".npz", ".npy", ".csv", ".parquet", ".safetensors"],
    ),
    "report": (
        ["report", "cal.json", "--labelled", "rows.npz"],
        ["--out", "{out}"],
        [".html"],
    ),
}
DISGUISES = ("itself", "another spelling", "link", "hard link")


def disguised(read, ending, how, folder):
    """Return a name for a file that is read, as a careless user might spell it as an output."""
    if how == "itself":
        return read
    if how == "another spelling":
        return folder / ".." / folder.name / read.relative_to(folder)
    alias = folder / f"alias{ending}"
    if how == "link":
        alias.symlink_to(read)
    else:
        os.link(read, alias)
    return alias


@pytest.mark.parametrize("how", DISGUISES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_file_that_a_command_reads_survives_it(files, capsys, monkeypatch, command, how):
    monkeypatch.chdir(files)
    head, tail, endings = COMMANDS[command]
    read = [files / a for a in head + tail if not a.startswith(("-", "{")) and (files / a).exists()]
    read = [p for path in read for p in ([path] if path.is_file() else sorted(path.iterdir()))]
    tried = 0
    for path in read:
        for ending in endings:
            if how in DISGUISES[:2] and path.suffix != ending:
                continue
            out = disguised(path, ending, how, files)
            before = digests(files)
            arguments = [a.format(out=out) for a in head + tail]
            assert main(arguments) == 2, (arguments, path)
            assert "would be lost" in capsys.readouterr().err
            assert digests(files) == before
            tried += 1
            (files / f"alias{ending}").unlink(missing_ok=True)
    assert tried or how in DISGUISES[:2]


@pytest.mark.parametrize("name", ["part-0.parquet", "part-2.parquet", "deep/part.parquet", "x.csv"])
def test_nothing_is_written_into_a_directory_that_is_read(files, capsys, name):
    (files / "parts" / "deep").mkdir()
    (files / "alias").symlink_to(files / "parts")
    before = digests(files)
    for folder in ("parts", "alias"):
        out = files / folder / name
        for read in ("parts", "alias"):
            arguments = ["apply", files / read, "--map", files / "map.json", "--out", out]
            assert main([str(a) for a in arguments]) == 2
            assert "parts" in (said := capsys.readouterr().err) or "alias" in said
    assert digests(files) == before


def test_a_directory_may_hold_links_to_files_elsewhere(files, capsys):
    elsewhere = files / "elsewhere.parquet"
    (files / "parts" / "part-1.parquet").rename(elsewhere)
    (files / "parts" / "part-1.parquet").symlink_to(elsewhere)
    before = digests(files)
    arguments = ["apply", files / "parts", "--map", files / "map.json", "--out", elsewhere]
    assert main([str(a) for a in arguments]) == 2
    assert "part-1.parquet', which is read here" in capsys.readouterr().err
    assert digests(files) == before


def test_a_directory_may_hold_links_to_directories(files, capsys):
    (files / "more").mkdir()
    (files / "parts" / "part-1.parquet").rename(files / "more" / "part-1.parquet")
    (files / "parts" / "more").symlink_to(files / "more")
    (files / "more" / "back").symlink_to(files / "parts")  # a loop
    before = digests(files / "more")
    for name in ("part-1.parquet", "new.csv"):
        out = files / "more" / name
        arguments = ["apply", files / "parts", "--map", files / "map.json", "--out", out]
        assert main([str(a) for a in arguments]) == 2
        assert "which is read here" in capsys.readouterr().err
    assert digests(files / "more") == before


def test_two_outputs_are_two_files(files, capsys):
    arguments = ["calibrate", files / "rows.npz", "--prior", "uniform"]
    page = files / "page.html"
    out = files / "cal2.json"
    out.symlink_to(page)
    assert main([str(a) for a in [*arguments, "--out", out, "--report", page]]) == 2
    assert "--report must be another file than --out" in capsys.readouterr().err
    assert not page.exists()


def test_an_output_is_no_device(files, capsys):
    """Replacing a link to /dev/null by renaming would cost a superuser the device."""
    (files / "out.npz").symlink_to("/dev/null")
    os.mkfifo(files / "pipe.npz")
    for name in ("out.npz", "pipe.npz"):
        arguments = ["apply", files / "rows.npz", "--map", files / "map.json", "--out"]
        assert main([str(a) for a in [*arguments, files / name]]) == 2
        assert "must be a file" in capsys.readouterr().err
    assert not Path("/dev/null").is_file()
