"""The library opens no connection, whatever it is asked to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import sys

def watch(event, arguments):
    if event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"}:
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(watch)
from temperance.cli import main

assert main(["demo", "--out", "demo"]) == 0
for arguments in (
    ["calibrate", "demo/target.npz", "--source", "demo/source.npz", "--out", "cal.json"],
    ["evaluate", "demo/labelled.npz", "--map", "cal.json"],
    ["apply", "demo/target.npz", "--map", "cal.json", "--out", "p.parquet", "--probabilities"],
    ["report", "cal.json", "--labelled", "demo/labelled.npz", "--out", "r.html"],
    ["inspect", "cal.json"],
):
    assert main(arguments) in (0, 1), arguments
"""


@pytest.mark.slow
def test_no_command_opens_a_connection(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
