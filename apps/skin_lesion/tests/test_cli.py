"""The command, as a process."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

import numpy as np
from PIL import Image
from sqlalchemy import select

from temperance_skin_lesion import cli
from temperance_skin_lesion.store import Case, Store

COMMAND = [sys.executable, "-m", "temperance_skin_lesion"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def run(*arguments):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )


def kill(server):
    """End a server with its workers, without a word of warning."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)


@contextmanager
def process(*arguments, **options):
    """A server in a process of its own, ready for requests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*COMMAND, *map(str, arguments), "--port", str(port)]
    options |= {"env": ENVIRONMENT, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with subprocess.Popen(command, **options) as server:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                deadline = time.monotonic() + 180
                while True:
                    try:
                        client.get("/api/v1/health")
                        break
                    except httpx.TransportError:
                        assert server.poll() is None
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
                yield client, server
        finally:
            kill(server)


def test_pictures_are_judged_without_a_server(tmp_path, lesions):
    for i, content in enumerate(lesions(2)):
        (tmp_path / f"{i}.jpg").write_bytes(content)
    (tmp_path / "notes.txt").write_text("hello")
    done = run("predict", tmp_path, "--json", "--data", tmp_path / "record")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert [case["name"] for case in answer["cases"]] == ["0.jpg", "1.jpg"]
    assert "notes.txt: this is not a picture" in answer["problems"][0]
    assert "Research use only" in answer["notice"]
    exported = run("export", "--format", "jsonl", "--data", tmp_path / "record")
    assert [json.loads(line)["id"] for line in exported.stdout.splitlines()] == [1, 2]


def test_many_files_are_judged_some_at_a_time_in_their_order(
    tmp_path, lesions, monkeypatch, capsys
):
    monkeypatch.setattr(cli, "AT_ONCE", 2)
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, content in enumerate([*lesions(2), b"nothing", *lesions(2, first=2)]):
        (folder / f"{i}.jpg").write_bytes(content)
    assert cli.main(["predict", str(folder), "--json", "--data", str(tmp_path / "record")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [case["name"] for case in found["cases"]] == ["0.jpg", "1.jpg", "3.jpg", "4.jpg"]
    assert [case["id"] for case in found["cases"]] == [1, 2, 3, 4]
    assert len(found["problems"]) == 1


def test_a_person_is_told_in_lines(tmp_path, lesions, capsys):
    (tmp_path / "0.jpg").write_bytes(lesions(1)[0])
    picture, record = str(tmp_path / "0.jpg"), str(tmp_path / "record")
    assert cli.main(["predict", picture, "--data", record]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("0.jpg\t")
    assert "Research use only" in said.err
    assert cli.main(["export", "--data", record]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_bad_usage_is_exit_2(tmp_path, lesions, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["predict"])
    (tmp_path / "0.jpg").write_bytes(lesions(1)[0])
    nothing = str(tmp_path / "nothing")
    picture = str(tmp_path / "0.jpg")
    assert cli.main(["predict", picture, "--weights", nothing, "--data", nothing]) == 2
    assert "No model in" in capsys.readouterr().err
    assert cli.main(["export", "--data", nothing]) == 2
    assert "There is no record in" in capsys.readouterr().err


def test_the_address_is_printed_when_somebody_answers(capfd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        waiting = threading.Thread(target=cli.announce, args=("127.0.0.1", port, False))
        waiting.start()
        line, _ = server.accept()
        line.recv(1000)
        assert capfd.readouterr().err == ""  # the port is open, and nobody answers yet
        line.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        line.close()
        waiting.join(60)
    assert capfd.readouterr().err == f"http://127.0.0.1:{port}/\n"


@pytest.mark.slow
def test_the_demo_starts_with_one_command():
    with process("demo") as (client, _):
        assert client.get("/api/v1/health").json()["cases"] > 50
        assert "Demo: pictures drawn by code" in client.get("/").text
        assert client.get("/api/v1/measured").json()["cases"] >= 30


def recorded(directory):
    """Numbers of the cases that a next server would find."""
    (path,) = directory.glob("*.sqlite3")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    store = Store(path)
    with store.reading() as session:
        found = session.scalars(select(Case.id)).all()
    store.close()
    return found


@pytest.mark.slow
def test_a_killed_server_has_lost_no_answered_case(tmp_path, lesions, as_files):
    with process("serve", "--data", tmp_path) as (client, server):
        answered = set()
        for i in range(10):
            answer = client.post("/api/v1/predict", files=as_files(lesions(2, first=i))).json()
            answered |= {case["id"] for case in answer["cases"]}
        with client.stream("POST", "/api/v1/predict", files=as_files(lesions(5))):
            kill(server)
    assert len(answered) == 20
    assert answered <= set(recorded(tmp_path))


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_answered(tmp_path, lesions, as_files):
    def no_file_beyond_400_kb():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    serve = ("serve", "--keep-images", "--data", tmp_path)
    large = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(large, "PNG")
    with process(*serve, preexec_fn=no_file_beyond_400_kb) as (client, _):
        answer = client.post("/api/v1/predict", files=as_files([large.getvalue()]))
        assert answer.status_code == 507
        assert list((tmp_path / "images").iterdir()) == []
        cases = 0
        for _ in range(200):
            answer = client.post("/api/v1/predict", files=as_files(lesions(4)))
            if answer.status_code != 200:
                break
            cases += 4
        assert answer.status_code == 507
        assert "disk is full" in answer.json()["detail"]
        assert client.get("/api/v1/health").json()["cases"] == cases
    assert len(recorded(tmp_path)) == cases
