"""Bad usage and bad input: one sentence on stderr, nothing on stdout, code 2. And the terminal."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import temperance as tp
from temperance.cli import main
from temperance.io import formats

COMMANDS = ("apply", "calibrate", "demo", "evaluate", "fit", "inspect", "report")


def complaint(capsys, *arguments, code=2):
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("temperance: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    z = 2 * np.eye(3)[y] + rng.normal(size=(300, 3))
    np.savez(tmp_path / "rows.npz", logits=z, labels=y)
    np.savez(tmp_path / "bare.npz", logits=z)
    return tmp_path


def test_the_front_page_names_every_command(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in COMMANDS)
    assert "Exit codes" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_fit_a_terminal(capsys, command):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  temperance {command}" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "─" not in out  # no frames in a pipe
    assert "--empty" not in out  # an option that nobody asked for


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["calibrat"], 'Did you mean "calibrate"?'),
        (["calibrate"], "requires an argument"),
        (["fit", "x.npz", "--out", "m.json", "--metod", "vector"], "--method"),
        (["fit", "x.npz"], "See temperance fit --help."),
        (["fit", "x.npz", "--out", "m.json", "--method", "tempature"], "temperature"),
        (["evaluate", "a.npz", "b.npz"], "b.npz"),
        (["calibrate", "x.npz", "--seed", "two"], "two"),
        (["demo", "now"], "there is no place for 'now'."),
        (["--install-completion", "bash"], "there is no place for 'bash'."),
    ],
)
def test_a_slip_of_the_fingers(capsys, arguments, hint):
    assert hint in complaint(capsys, *arguments)


def test_files_that_are_not_there_or_cannot_be_written(capsys, rows):
    assert "No such file" in complaint(capsys, "evaluate", rows / "nowhere.npz")
    bare = rows / "rows.npz"
    message = complaint(capsys, "fit", bare, "--out", rows / "no" / "map.json")
    assert "directory that exists" in message
    assert "must end in one of" in complaint(
        capsys, "apply", bare, "--map", rows / "m.json", "--out", rows / "x.txt"
    )
    message = complaint(capsys, "apply", bare, "--map", rows / "m.json", "--out", rows / "x.npz")
    assert "m.json" in message


def test_an_output_that_looks_like_another_file_is_not_overwritten(capsys, rows):
    file = rows / "rows.npz"
    before = file.read_bytes()
    assert "must end in .json or .safetensors" in complaint(capsys, "fit", file, "--out", file)
    page = ("calibrate", file, "--prior", "uniform", "--report", file)
    assert "must end in .html" in complaint(capsys, *page)
    assert file.read_bytes() == before


def test_an_output_is_not_one_of_the_inputs(capsys, rows):
    file, link, prior = rows / "rows.npz", rows / "link.npz", rows / "prior.json"
    link.symlink_to(file)
    prior.write_text("[0.2, 0.3, 0.5]")
    tp.save(tp.Temperature(2.0), rows / "map.json")
    before = file.read_bytes()
    for out in (file, link):
        message = complaint(capsys, "apply", file, "--map", rows / "map.json", "--out", out)
        assert "rows.npz', which is read here and would be lost" in message
    complaint(capsys, "calibrate", file, "--prior", prior, "--out", prior)
    tensors = rows / "rows.safetensors"
    formats.write(tensors, formats.read(file))
    complaint(capsys, "fit", tensors, "--out", tensors)
    assert file.read_bytes() == before
    assert prior.read_text() == "[0.2, 0.3, 0.5]"
    assert formats.read(tensors).n == 300


def test_a_name_does_not_steer_the_terminal(capsys, rows):
    tp.save(tp.Temperature(2.0), rows / "map.json", classes=["\x1b]0;title\x07", "\u202eb"])
    assert main(["inspect", str(rows / "map.json")]) == 0
    out = capsys.readouterr().out
    assert "0;title" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_labels_that_are_missing(capsys, rows):
    message = complaint(capsys, "evaluate", rows / "bare.npz")
    assert message == "temperance: bare.npz must have labels here. Add an array 'labels'.\n"
    np.save(rows / "z.npy", np.random.default_rng(0).normal(size=(50, 3)))
    assert "--labels" in complaint(capsys, "evaluate", rows / "z.npy")
    assert ".npy" in complaint(capsys, "evaluate", rows / "z.npy", "--labels", rows / "rows.npz")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[0.5, 0.5", "p.json is no JSON (line 1"),
        ('{"0": 0.5, "1": 0.5}', "It lacks '2'"),
        ('{"0": 0.5, "1": 0.3, "cat": 0.2}', "names 'cat'"),
        ('["a", "b", "c"]', "3 numbers, one per class. Got shape (3,) of text"),
        ("[0.5, 0.5, 0.5]", "must sum to 1. Got 1.5"),
        ("[0.5, 0.5]", "3 numbers, one per class"),
        ("[[0.9, 1], [0.9, 1], [0.9, 1]]", "widen the ranges"),
    ],
)
def test_priors_that_are_none(capsys, rows, content, sentence):
    (rows / "p.json").write_text(content)
    message = complaint(capsys, "calibrate", rows / "bare.npz", "--prior", rows / "p.json")
    assert sentence in message


def test_priors_in_words(capsys, rows):
    file = rows / "bare.npz"
    assert "'uniform' or 'source'" in complaint(capsys, "calibrate", file, "--prior", "equal")
    assert "needs a --source" in complaint(capsys, "calibrate", file, "--prior", "source")
    assert main(["calibrate", str(file)]) == 1  # neither prior nor source
    assert "Give at least one of the three: --prior, --source or --labelled" in " ".join(
        capsys.readouterr().out.split()
    )
    assert "can be read" in complaint(capsys, "calibrate", file, "--prior", "none.json")


def test_class_names_beside_a_file(capsys, rows):
    header = "logit_0,logit_1,logit_2,label\n"
    lines = [f"{i},{i},{i},{('cat', 'dog', 'owl')[i % 3]}\n" for i in range(40)]
    (rows / "t.csv").write_text(header + "".join(lines))
    assert "--classes" in complaint(capsys, "evaluate", rows / "t.csv")
    assert "Row 2 holds 'owl'" in complaint(
        capsys, "evaluate", rows / "t.csv", "--classes", "cat,dog,elk"
    )
    (rows / "names.json").write_text('["cat", "dog", "owl"]')
    assert main(["evaluate", str(rows / "t.csv"), "--classes", str(rows / "names.json")]) == 0


def test_class_names_that_contradict_the_file(capsys, rows):
    y = np.arange(60) % 3
    named = rows / "named.npz"
    np.savez(named, logits=2.0 * np.eye(3)[y], labels=y, classes=["cat", "dog", "owl"])
    message = complaint(capsys, "evaluate", named, "--classes", "dog,cat,owl")
    assert "named.npz: classes must be the names that the file has" in message
    assert "leave --classes out" in message


def test_data_that_do_not_identify_a_map_are_refused_with_1(capsys, tmp_path):
    y = np.arange(60) % 3
    np.savez(tmp_path / "sure.npz", logits=5.0 * np.eye(3)[y], labels=y)  # every row is right
    message = complaint(capsys, "fit", tmp_path / "sure.npz", "--out", tmp_path / "m.json", code=1)
    assert message.startswith("temperance: refused: ")
    assert not (tmp_path / "m.json").exists()


def test_artefacts_of_the_wrong_kind_or_damaged(capsys, rows):
    tp.save(tp.Temperature(2.0), rows / "map.json")
    assert "a map alone" in complaint(capsys, "report", rows / "map.json", "--out", rows / "r.html")
    text = (rows / "map.json").read_text().replace("2.0", "3.0")
    (rows / "map.json").write_text(text)
    assert "sha256" in complaint(capsys, "inspect", rows / "map.json")


def test_gates_must_be_possible(capsys, rows):
    said = complaint(capsys, "evaluate", rows / "rows.npz", "--max-ece", "5")
    assert "--max-ece must be a finite number in [0, 1]. Got 5.0" in said


def test_json_and_complaints_do_not_mix(capsys, rows):
    assert "labels" in complaint(capsys, "evaluate", rows / "bare.npz", "--json")


# ------------------------------------------------------------------------- as a process


def command(*arguments):
    return [sys.executable, "-m", "temperance", *map(str, arguments)]


def test_help_starts_at_once():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command("--help"), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time: the clock of a busy machine says nothing about the program.
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 1.5


def test_nothing_heavy_is_imported_for_help():
    code = (
        "import sys; from temperance.cli import main; main(['fit', '--help']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert {"cyclopts", "temperance"} <= loaded
    assert not {"torch", "matplotlib", "pandas", "jinja2", "pyarrow"} & loaded


@pytest.mark.slow
def test_a_terminal_gets_colours_and_a_pipe_does_not(rows):
    arguments = command("evaluate", rows / "rows.npz")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        arguments, stdout=slave, stderr=slave, env=os.environ | {"TERM": "xterm"}
    )
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(master)
    assert process.wait() == 0
    assert b"\x1b[" in shown
    assert "─".encode() in shown
    piped = subprocess.run(arguments, check=True, capture_output=True)
    assert b"\x1b[" not in piped.stdout
    assert piped.stderr == b""


def test_ctrl_c_leaves_no_half_written_file(tmp_path):
    big = np.lib.format.open_memmap(tmp_path / "z.npy", "w+", np.float32, (2_000_000, 10))
    big[:, 0] = 1
    del big
    tp.save(tp.Temperature(2.0), tmp_path / "map.json")
    out = tmp_path / "out.csv"  # slow to write
    process = subprocess.Popen(
        command("apply", tmp_path / "z.npy", "--map", tmp_path / "map.json", "--out", out),
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".out.csv.*")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)  # until the writing has begun
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"interrupted" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["map.json", "z.npy"]


def test_a_reader_who_leaves_sees_no_error_and_passes_no_gate(rows):
    tp.save(tp.Temperature(2.0), rows / "map.json")
    process = subprocess.Popen(
        command("inspect", rows / "map.json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141  # as of every command that SIGPIPE ends; 0 would be a passed gate


def test_json_of_a_process_is_json(rows):
    done = subprocess.run(
        command("evaluate", rows / "rows.npz", "--json"), check=True, capture_output=True
    )
    assert json.loads(done.stdout)["rows"] == 300
