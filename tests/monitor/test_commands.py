"""`temperance monitor` as a cron job and a person type it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from streams_of_windows import window

import temperance as tp
from temperance.cli import main


@pytest.fixture
def folder(tmp_path):
    z, y = window(1500, seed=1)
    names = ["ash", "beech", "cedar", "date"]
    np.savez(tmp_path / "source.npz", logits=z, labels=y, classes=names)
    np.savez(tmp_path / "good.npz", logits=window(500, seed=2)[0])
    z, y = window(600, signal=0.3, seed=3)
    table = pd.DataFrame(z, columns=[f"logit_{k}" for k in range(4)])
    table.assign(site=["n", "s"] * 300).to_parquet(tmp_path / "bad.parquet")
    table.assign(label=y).head(80).to_csv(tmp_path / "few.csv", index=False)
    days = pd.date_range("2026-10-05", periods=20, freq="D").repeat(60)
    past = pd.DataFrame(window(1200, seed=4)[0], columns=[f"logit_{k}" for k in range(4)])
    past.assign(seen=days).to_parquet(tmp_path / "past.parquet")
    return tmp_path


def run(capsys, *arguments):
    code = main(["monitor", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def state(folder, capsys):
    path = folder / "state.jsonl"
    limits = ["--min-accuracy", 0.85, "--max-ece", 0.2, "--min-recall", "ash=0.8"]
    code, _, err = run(
        capsys, "start", path, "--source", folder / "source.npz", "--prior", "source", *limits
    )
    assert code == 0, err
    return path


def test_a_month_at_the_command_line(folder, state, capsys):
    assert run(capsys, "add", state, folder / "good.npz", "--at", "2026-11-02")[0] == 0
    code, out, _ = run(
        capsys, "add", state, folder / "bad.parquet", "--at", "2026-11-09", "--segment", "site"
    )
    assert code == 1
    assert "2026-11-09: estimated accuracy" in out
    assert "Confidence fell" in " ".join(out.split())  # lines end where the terminal does
    code, out, _ = run(capsys, "show", state, "--json")
    facts = json.loads(out)
    assert code == 1
    assert [w["at"] for w in facts["windows"]] == ["2026-11-02", "2026-11-09"]
    held = tp.Monitor.load(state)
    assert facts["windows"][1]["accuracy"] == list(held.windows[1].accuracy)
    assert set(facts["windows"][1]["segments"]) == {"site=n", "site=s"}
    code, out, _ = run(
        capsys, "add", state, "--at", "2026-11-09", "--labelled", folder / "few.csv", "--json"
    )
    assert code == 1
    assert json.loads(out)["n_labelled"] == 80
    code, out, _ = run(capsys, "show", state)
    assert code == 1
    assert "2026-11-09" in out
    code, out, _ = run(capsys, "show", state, "--prometheus")
    assert code == 0
    assert 'temperance_rows{segment=""} 600' in out
    assert run(capsys, "report", state, "--out", folder / "page.html")[0] == 0
    assert "2026-11-09" in (folder / "page.html").read_text()


def test_proposals(folder, state, capsys):
    run(capsys, "add", state, folder / "bad.parquet", "--at", "2026-11-09")
    cal = folder / "cal.json"
    code, out, _ = run(capsys, "propose", state, "--out", cal, "--json")
    assert code == 1
    assert json.loads(out)["within_limits"] is False
    assert tp.load(cal).map == tp.Monitor.load(state).propose().calibration.map
    assert run(capsys, "accept", state)[0] == 1
    assert tp.Monitor.load(state).history == []
    assert run(capsys, "accept", state, "--outside-limits")[0] == 0
    assert tp.Monitor.load(state).map == tp.load(cal).map
    assert run(capsys, "rollback", state)[0] == 0
    assert tp.Monitor.load(state).map == tp.maps.IDENTITY
    code, _, err = run(capsys, "rollback", state)
    assert code == 2
    assert "nothing to undo" in err


def test_a_file_is_cut_by_its_column_of_dates(folder, state, capsys):
    code, out, _ = run(
        capsys,
        "add",
        state,
        folder / "past.parquet",
        "--dates",
        "seen",
        "--every",
        "week",
        "--json",
    )
    assert code == 0
    found = [(w["at"], w["rows"]) for w in json.loads(out)]
    assert found == [("2026-10-05", 420), ("2026-10-12", 420), ("2026-10-19", 360)]


def test_two_states_become_one(folder, state, capsys):
    other = folder / "other.jsonl"
    other.write_bytes(state.read_bytes())
    run(capsys, "add", state, folder / "good.npz", "--at", "2026-11-02")
    run(capsys, "add", other, folder / "bad.parquet", "--at", "2026-11-01")
    code, out, _ = run(capsys, "merge", state, other)
    assert (code, out) == (0, "1 windows were taken over.\n")
    assert [w.at for w in tp.Monitor.load(state).windows] == ["2026-11-01", "2026-11-02"]


def test_a_torn_line_is_said(folder, state, capsys):
    run(capsys, "add", state, folder / "good.npz", "--at", "2026-11-02")
    state.write_bytes(state.read_bytes()[:-9])
    code, _, err = run(capsys, "show", state)
    assert code == 0
    assert "not complete" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "STATE", "good.npz", "--at", "soon"), "at must be a date"),
        (("add", "STATE", "bad.parquet", "--dates", "site"), "2026-11-16. Row 0 holds 'n'."),
        (("add", "STATE", "good.npz", "--segment", "site"), "need a window in a .csv or .parquet"),
        (("add", "STATE", "bad.parquet", "--segment", "city"), "must have the column 'city'"),
        (("add", "STATE", "--at", "2020-01-01", "--labelled", "few.csv"), "the last windows are"),
        (("add", "good.npz", "good.npz"), "must be the state of a monitor"),
        (("start", "STATE", "--source", "source.npz"), "must be a new file"),
        (("start", "x", "--source", "source.npz", "--min-recall", "ash"), "like melanoma=0.9"),
        (("report", "STATE", "--out", "STATE"), "must end in .html"),
        (("propose", "STATE"), "add a window first"),
    ],
)
def test_bad_input_is_two_and_a_sentence(folder, state, capsys, arguments, words):
    before = state.read_bytes()
    known = {"STATE": state} | {
        name: folder / name for name in ("good.npz", "bad.parquet", "few.csv", "source.npz")
    }
    code, out, err = run(capsys, *(known.get(a, a) for a in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert state.read_bytes() == before
