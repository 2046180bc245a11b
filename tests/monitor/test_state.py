"""The file of a monitor: killed processes, two writers, torn and damaged lines, merging."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from streams_of_windows import window

import temperance as tp

HELPERS = Path(__file__).parents[1] / "helpers"
WRITER = """
import sys
sys.path.insert(0, {helpers!r})
from streams_of_windows import window
import temperance as tp
mon = tp.Monitor.load(sys.argv[1])
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    mon.add(window(40, seed=i)[0], at=f"2026-{{1 + i // 28:02}}-{{1 + i % 28:02}}")
    mon.save(sys.argv[1])
    print(i, flush=True)
"""


@pytest.fixture
def begun(tmp_path):
    path = tmp_path / "state.jsonl"
    mon = tp.Monitor(source=window(400, seed=1), limits=tp.Limits(accuracy=0.8))
    mon.add(window(100, seed=2)[0], at="2025-12-31")
    mon.save(path)
    return path


def writer(path, first, last):
    code = WRITER.format(helpers=str(HELPERS))
    arguments = [sys.executable, "-c", code, str(path), str(first), str(last)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_a_file_gives_back_what_was_saved(tmp_path):
    mon = tp.Monitor(
        source=window(400, seed=1),
        prior=tp.about([0.25] * 4, rows=50),
        classes=list("abcd"),
        limits=tp.Limits(accuracy=0.8, recall={"b": 0.5}),
        false_alarms_per=100,
    )
    z, y = window(200, signal=1.0, seed=2)
    mon.add(z, at="2026-11-01T10:00:00+02:00", segments=y, labelled=(z[:30], y[:30]))
    mon.accept(mon.propose())
    mon.add(window(200, seed=3)[0], at="2026-11-02")
    path = tmp_path / "s"
    mon.save(path)
    again = tp.Monitor.load(path)
    assert (again.windows, again.alarms, again.history) == (mon.windows, mon.alarms, mon.history)
    assert (again.limits, again.false_alarms_per, again.map) == (mon.limits, 100, mon.map)
    more = window(200, seed=4)[0]
    assert again.add(more, at="2026-11-03") == mon.add(more, at="2026-11-03")
    assert again.propose().calibration.map.parameters().keys() == {"temperature", "bias"}


def test_a_proposal_from_a_file_can_be_saved_and_applied(begun, tmp_path):
    proposal = tp.Monitor.load(begun).propose()
    proposal.calibration.save(tmp_path / "cal.json")
    z = window(10)[0]
    loaded = tp.load(tmp_path / "cal.json")
    assert (loaded.predict_proba(z) == proposal.calibration.predict_proba(z)).all()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_process_loses_no_window_that_was_saved(begun):
    process = writer(begun, 0, 300)
    said = [process.stdout.readline() for _ in range(3)]
    time.sleep(0.02)  # somewhere in the next window
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = tp.Monitor.load(begun)
    assert len(held.windows) in {len(said) + 1, len(said) + 2}  # saved, and not said before the end
    held.add(window(50, seed=99)[0], at="2026-12-31")
    held.save(begun)
    assert tp.Monitor.load(begun).windows[-1].at == "2026-12-31"


def test_two_writers_keep_the_windows_of_both(begun):
    both = [writer(begun, 0, 6), writer(begun, 100, 106)]
    for process in both:
        assert len(process.communicate()[0].split()) == 6
        assert process.returncode == 0
    assert len(tp.Monitor.load(begun).windows) == 1 + 12


@pytest.mark.parametrize("cut", [1, 2, 500, 2000])
def test_a_torn_last_line_is_dropped_and_said(begun, cut):
    mon = tp.Monitor.load(begun)
    mon.add(window(60, seed=5)[0], at="2026-01-02")
    mon.save(begun)
    whole = begun.read_bytes()
    begun.write_bytes(whole[:-cut])
    with pytest.warns(UserWarning, match="not complete"):
        torn = tp.Monitor.load(begun)
    assert [w.at for w in torn.windows] == ["2025-12-31"]
    torn.add(window(60, seed=5)[0], at="2026-01-02")
    torn.save(begun)
    assert tp.Monitor.load(begun).windows == mon.windows


def test_a_torn_first_line_is_written_again(tmp_path):
    mon, path = tp.Monitor(source=window(400, seed=1)), tmp_path / "s"
    mon.save(path)
    path.write_bytes(path.read_bytes()[:100])
    mon.save(path)
    assert tp.Monitor.load(path).classes == mon.classes


def test_damage_inside_is_refused_with_the_line(begun):
    mon = tp.Monitor.load(begun)
    mon.add(window(60, seed=5)[0], at="2026-01-02")
    mon.save(begun)
    lines = begun.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"2025-12-31", b"2025-12-30", 1)
    begun.write_bytes(b"".join(lines))
    with pytest.raises(tp.InputError, match="Line 2 of"):
        tp.Monitor.load(begun)


def without(*keys):
    def change(record):
        for key in keys[:-1]:
            record = record[key]
        del record[keys[-1]]

    return change


def with_source(data):
    return lambda record: record.update(source=base64.b64encode(data).decode())


def sign_again(path, line, change):
    """Change the record of a line, and compute its checksum anew."""
    lines = path.read_bytes().splitlines()
    body = lines[line][38:-1]
    if change is None:
        body = body.replace(b'"kind":"window"', b'"kind":"window","kind":"window"')
    else:
        record = json.loads(body)
        change(record)
        body = json.dumps(record, separators=(",", ":")).encode()
    lines[line] = lines[line][:11] + hashlib.sha256(body).hexdigest()[:16].encode()
    lines[line] += b'","record":' + body + b"}"
    path.write_bytes(b"\n".join(lines) + b"\n")


WRONG = {
    "no version": (0, without("version")),
    "a version in words": (0, lambda r: r.update(version="1")),
    "no classes": (0, without("classes")),
    "a source that is no archive": (0, with_source(b"nothing")),
    "a source that is no text": (0, lambda r: r.update(source="\u00e9")),
    "one class less": (0, lambda r: r["classes"].pop()),
    "a mix of no rows": (
        0,
        lambda r: r.update(
            prior={"kind": "about", "rows": 0} | {n: [0.25] * 4 for n in ("value", "low", "high")}
        ),
    ),
    "no map in use": (1, without("in_use")),
    "no estimates": (1, without("estimates")),
    "an interval of two": (1, lambda r: r["estimates"]["accuracy"].pop()),
    "an interval of words": (1, lambda r: r["estimates"].update(ece=["a", "b", "c"])),
    "no temperature": (1, without("calibration", "temperature")),
    "labels of no row": (2, lambda r: r.update(n=0)),
    "labels of endless rows": (2, lambda r: r.update(n=1e308)),
    "labels of one class in a list": (2, lambda r: r.update(by_class=[1])),
    "no map": (3, without("map")),
    "a key twice": (1, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_sound_line_with_wrong_facts_is_refused(begun, capsys, case):
    """Whoever computes checksums anew gets one sentence, in bounded memory."""
    from temperance.cli import main

    mon = tp.Monitor.load(begun)
    mon.add(None, at="2025-12-31", labelled=window(9, seed=3))
    mon.accept(mon.propose())
    mon.save(begun)
    sign_again(begun, *WRONG[case])
    with pytest.raises(tp.InputError, match="the state"):
        tp.Monitor.load(begun)
    assert main(["monitor", "show", str(begun)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_source_that_would_fill_the_memory_is_refused_unread(begun):
    file = io.BytesIO()
    how = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    with zipfile.ZipFile(file, "w", **how) as archive, archive.open("logits.npy", "w") as member:
        facts = {"descr": "<f8", "fortran_order": False, "shape": (40 << 20, 4)}
        np.lib.format.write_array_header_1_0(member, facts)
        for _ in range(80):
            member.write(bytes(16 << 20))
    sign_again(begun, 0, with_source(file.getvalue()))
    with pytest.raises(tp.InputError, match="made to fill the memory"):
        tp.Monitor.load(begun)


@pytest.mark.parametrize("start", [b"", b'{"sha256":"'])
def test_a_line_without_an_end_is_no_state(tmp_path, start):
    """A file of 40 GB that takes no place on the disk."""
    with (tmp_path / "m.jsonl").open("wb") as file:
        file.write(start)
        file.truncate(40 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(tp.InputError, match="path must be the state of a monitor"):
            tp.Monitor.load(tmp_path / "m.jsonl")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 600 << 20


def test_a_new_state_is_for_its_owner_alone(tmp_path):
    mon, path = tp.Monitor(source=window(400, seed=1)), tmp_path / "s"
    before = os.umask(0o022)
    try:
        mon.save(path)
        assert path.stat().st_mode & 0o777 == 0o600  # labelled rows are inside
        path.chmod(0o640)
        mon.add(window(60, seed=5)[0], at="2026-01-03")
        mon.save(path)
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_states_of_two_machines_are_merged(begun, tmp_path):
    here, there = tp.Monitor.load(begun), tp.Monitor.load(begun)
    here.add(window(60, seed=5)[0], at="2026-01-03")
    there.add(window(60, signal=0.0, seed=6)[0], at="2026-01-02")
    there.save(tmp_path / "there")
    here.merge(tp.Monitor.load(tmp_path / "there"))
    assert [w.at for w in here.windows] == ["2025-12-31", "2026-01-02", "2026-01-03"]
    with pytest.raises(tp.InputError, match="same source and settings"):
        here.merge(tp.Monitor(source=window(400, seed=2)))
    with pytest.raises(tp.InputError, match="must be a monitor"):
        here.merge(None)


def test_a_file_that_another_process_holds_is_waited_for_and_then_named(begun, monkeypatch):
    monkeypatch.setattr("temperance.monitor.state.PATIENCE", 0.3)
    held = tp.Monitor.load(begun)
    with begun.open("rb") as file:  # as a writer that was stopped (Ctrl-Z) does
        fcntl.flock(file, fcntl.LOCK_EX)
        for call in (lambda: tp.Monitor.load(begun), lambda: held.save(begun)):
            with pytest.raises(tp.InputError, match="another process has held"):
                call()
    held.save(begun)


def test_a_loop_of_links_is_no_state(begun, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(tp.InputError, match="Too many levels"):
        tp.Monitor.load(loop)
    with pytest.raises(tp.InputError, match="file in a directory"):
        tp.Monitor.load(begun).save(loop)


def test_nothing_else_is_written_over(tmp_path, begun):
    other = tmp_path / "letter.txt"
    other.write_text("Dear Sir\n")
    mon = tp.Monitor(source=window(400, seed=2))
    for path in (other, begun):
        before = path.read_bytes()
        with pytest.raises(tp.InputError):
            mon.save(path)
        assert path.read_bytes() == before
    with pytest.raises(tp.InputError):
        tp.Monitor.load(other)
    with pytest.raises(tp.InputError):
        tp.Monitor.load(tmp_path / "nowhere")


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    from temperance.monitor import state

    with monkeypatch.context() as patched:
        patched.setattr(state, "STATE_VERSION", 2)
        tp.Monitor(source=window(400, seed=2)).save(tmp_path / "s")
    with pytest.raises(tp.InputError, match="update temperance"):
        tp.Monitor.load(tmp_path / "s")
