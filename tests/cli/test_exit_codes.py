"""How a command ends: 0 done, 1 refused, 2 bad input, 70 a defect of ours, 130 interrupted."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance.cli import app, main
from temperance.cli.wording import in_options

SOURCE = Path(tp.__file__).parent


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    z = 2 * np.eye(3)[y] + rng.normal(size=(300, 3))
    np.savez(tmp_path / "rows.npz", logits=z, labels=y, classes=["é", "b", "c"])
    np.savez(tmp_path / "bare.npz", logits=z)
    tp.save(tp.Temperature(2.0), tmp_path / "map.json")
    return tmp_path


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError(), ZeroDivisionError("a\nb")])
def test_an_error_that_nobody_foresaw_is_a_defect_of_ours(monkeypatch, capsys, rows, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("temperance.io.artefact.load", broken)
    assert main(["inspect", str(rows / "map.json")]) == 70
    said = capsys.readouterr().err
    assert said.startswith("temperance: a defect of temperance, not of your files (")
    assert type(error).__name__ in said
    assert said.count("\n") == 1
    assert main(["inspect", str(rows / "map.json"), "--debug"]) == 70
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "raise error" in said


def test_debug_shows_where_bad_input_was_noticed(capsys, rows):
    assert main(["--debug", "evaluate", str(rows / "bare.npz")]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("temperance: bare.npz must have labels")


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "temperance", *map(str, arguments)],
        check=False,
        capture_output=True,
        env=os.environ | environment,
    )


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    pytest.param(
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize("environment", ASCII)
def test_a_terminal_of_ascii_shows_every_name(rows, environment):
    arguments = ["calibrate", rows / "rows.npz", "--source", rows / "rows.npz"]
    done = process(*arguments, "--out", rows / "cal.json", **environment)
    assert done.returncode == 0, done.stderr
    assert process("inspect", rows / "cal.json", **environment).returncode == 0
    asked = process("inspect", rows / "cal.json", "--json", **environment)
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["details"]["classes"][0] == "é"


def test_a_file_name_of_any_bytes(rows):
    name = os.fsencode(rows) + b"/caf\xe9\n.npz"
    os.link(rows / "rows.npz", name)
    out = os.fsencode(rows) + b"/m\xe9.json"
    command = [os.fsencode(sys.executable), b"-m", b"temperance"]
    done = subprocess.run([*command, b"fit", name, b"--out", out], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"wrote map" in done.stderr
    done = subprocess.run([*command, b"evaluate", name + b"x"], check=False, capture_output=True)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_class_names_of_any_bytes(tmp_path, capsys):
    np.savez(tmp_path / "t.npz", logits=np.eye(3)[np.arange(90) % 3], labels=np.arange(90) % 3)
    names = os.fsdecode(b"a,b,c\xff")
    for command in (["calibrate", "--prior", "uniform", "--report"], ["fit", "--out"]):
        where = tmp_path / ("o.html" if command[0] == "calibrate" else "o.json")
        arguments = [command[0], str(tmp_path / "t.npz"), *command[1:], str(where)]
        assert main([*arguments, "--classes", names]) == 2
        assert "classes must be text that UTF-8 can write. Got 'c" in capsys.readouterr().err
        assert not where.exists()


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("closed", CLOSED)
def test_a_process_without_standard_streams(rows, closed):
    """A file that is opened in the place of a closed stream would be written to by every print."""

    def run(name):
        command = f"{sys.executable} -m temperance apply {name} --map map.json --out o.npz {closed}"
        return subprocess.run(
            ["/bin/sh", "-c", command], check=False, cwd=rows, capture_output=True
        )

    assert run("none.npz").returncode == 2
    assert run("rows.npz").returncode == 0
    assert run("rows.npz").stdout == b""
    assert process("evaluate", rows / "o.npz").returncode == 0


def test_a_full_disk_under_stderr(rows):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "temperance", "evaluate", rows / "none.npz"]
        assert subprocess.run(command, check=False, stderr=full).returncode == 2


def test_a_full_disk_under_stdout(rows):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "temperance", "evaluate", rows / "rows.npz", "--json"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert b"No space left" in done.stderr


@pytest.mark.parametrize("delay", [0.05, 0.1, 0.2, 0.3, 0.5])
def test_ctrl_c_while_the_program_loads(delay, tmp_path):
    """From the moment at which the first line of the program runs."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, threading\n"
        "def strike():\n"
        "    import time; time.sleep(float(os.environ['DELAY']))\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    start = (
        "import sitecustomize, threading; from temperance_command import main; import sys\n"
        "threading.Thread(target=sitecustomize.strike, daemon=True).start()\n"
        "sys.exit(main())"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", start, "demo", "--out", tmp_path / "demo"],
        check=False,
        capture_output=True,
        env=os.environ | {"DELAY": str(delay), "PYTHONPATH": path},
    )
    assert done.returncode == 130
    assert done.stderr == b"temperance: interrupted; no file was changed.\n"
    assert done.stdout == b""


def test_a_background_job_that_ignores_ctrl_c_goes_on(rows):
    start = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('ready', flush=True); from temperance_command import main; sys.exit(main())"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", start, "evaluate", rows / "rows.npz"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 0


def test_version_and_completion(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == tp.__version__
    for shell in ("bash", "zsh", "fish"):
        script = app.app.generate_completion(shell=shell)
        assert all(word in script for word in ("calibrate", "min-accuracy", "probabilities"))


def test_several_files_are_a_directory(capsys, tmp_path):
    (tmp_path / "target").mkdir()
    parts = [tmp_path / "target" / f"{i}.parquet" for i in range(3)]
    for part in parts:
        part.write_bytes(b"")
    assert main(["calibrate", *map(str, parts)]) == 2
    said = capsys.readouterr().err
    assert "one directory is read at a time. Got 2 more: pass the directory" in said
    assert "target'" in said


# ---------------------------------------------------------------------- words of the command line

PYTHON = re.compile(r"temperance\.(?!json|io\b)\w+|\b(prior|source|labels|labelled|classes)=(?!\w)")
FINDINGS = ("calibrate/findings.py",)


def messages(file):
    """Yield the text of every string in a file, joined where Python joins it."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_message_speaks_python_to_a_user_of_the_command_line(capsys, rows):
    """Messages that a file can bring about name options, not arguments."""
    z = np.load(rows / "bare.npz")["logits"]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.save(rows / "p.npy", p)
    np.save(rows / "percent.npy", 100 * p)
    np.save(rows / "dense.npy", np.zeros((2, 3, 4, 4)))
    np.save(rows / "one.npy", np.zeros(30))
    np.save(rows / "single.npy", np.zeros((30, 1)))
    np.savez(rows / "words.npz", logits=z, labels=np.array(["b"] * 300))
    (rows / "named.json").write_text('{"x": 0.5, "y": 0.25, "z": 0.25}')
    tried = [
        ["calibrate", "p.npy", "--prior", "uniform"],
        ["calibrate", "percent.npy", "--prior", "uniform"],
        ["calibrate", "dense.npy", "--prior", "uniform"],
        ["calibrate", "one.npy", "--prior", "uniform"],
        ["calibrate", "single.npy", "--prior", "uniform"],
        ["calibrate", "bare.npz", "--prior", "named.json"],
        ["calibrate", "bare.npz", "--prior", "0.5,0.5"],
        ["calibrate", "bare.npz", "--probabilities", "--prior", "uniform"],
        ["evaluate", "words.npz"],
        ["fit", "words.npz", "--out", "m.json"],
    ]
    for arguments in tried:
        placed = [str(rows / a) if (rows / a).exists() or a == "m.json" else a for a in arguments]
        assert main(placed) in (1, 2), arguments
        captured = capsys.readouterr()
        assert not PYTHON.search(captured.out + captured.err), captured
    cal = str(rows / "cal.json")
    known = ["calibrate", str(rows / "bare.npz"), "--source", str(rows / "rows.npz"), "--out", cal]
    assert main(known) in (0, 1)
    report = ["report", cal, "--labelled", str(rows / "rows.npz"), "--out", str(rows / "r.html")]
    for arguments in (report, [*known, "--features", *[str(rows / "one.npy")] * 2]):
        capsys.readouterr()
        assert main(arguments) == 2
        assert not PYTHON.search(capsys.readouterr().err)
    np.savez(rows / "nameless.npz", z)
    assert main(["calibrate", str(rows / "nameless.npz"), "--prior", "uniform"]) == 2
    assert "numpy.savez(path, logits=z), or" in capsys.readouterr().err  # Python, as it is meant


def test_messages_of_the_checks_are_known_to_the_command_line():
    """A new message with Python in it needs words of its own in cli/wording.py."""
    files = [SOURCE / "_core" / "checks.py", *(SOURCE / "io").glob("*.py")]
    files += [SOURCE / name for name in FINDINGS]
    for file in files:
        for text in messages(file):
            sentence = " must " in text or "; " in text
            if sentence and "\n" not in text and ">>>" not in text:
                assert not PYTHON.search(in_options(text)), (file.name, text)
