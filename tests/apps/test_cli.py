"""The command, as a process."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

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
    plain = run("predict", tmp_path / "0.jpg", "--data", tmp_path / "record")
    assert plain.returncode == 0
    assert plain.stdout.startswith("0.jpg\t")
    assert "Research use only" in plain.stderr
    exported = run("export", "--format", "jsonl", "--data", tmp_path / "record")
    assert [json.loads(line)["name"] for line in exported.stdout.splitlines()] == [
        "0.jpg",
        "1.jpg",
        "0.jpg",
    ]


def test_bad_usage_is_exit_2(tmp_path):
    assert run("predict").returncode == 2
    done = run("export", "--weights", tmp_path, "--data", tmp_path)
    assert done.returncode == 2
    assert "No model in" in done.stderr


@pytest.mark.slow
def test_the_demo_starts_with_one_command():
    with process("demo") as (client, _):
        assert client.get("/api/v1/health").json()["cases"] > 50
        assert "Demo: pictures drawn by code" in client.get("/").text
        assert client.get("/api/v1/measured").json()["cases"] >= 30


@pytest.mark.slow
def test_a_killed_server_has_lost_no_answered_case(tmp_path, lesions, as_files):
    answered = set()
    for round_ in range(2):
        with process("serve", "--data", tmp_path, "--workers", 2) as (client, server):
            assert client.get("/api/v1/health").json()["cases"] >= len(answered)
            for i in range(10):
                files = as_files(lesions(2, first=10 * round_ + i))
                answer = client.post("/api/v1/predict", files=files).json()
                answered |= {case["id"] for case in answer["cases"]}
            with client.stream("POST", "/api/v1/predict", files=as_files(lesions(9))):
                kill(server)
    rows = run("export", "--format", "jsonl", "--data", tmp_path).stdout.splitlines()
    assert answered <= {json.loads(row)["id"] for row in rows}


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_answered(tmp_path, lesions, as_files):
    def no_file_beyond_400_kb():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    with process("serve", "--data", tmp_path, preexec_fn=no_file_beyond_400_kb) as (client, _):
        cases = 0
        for _ in range(200):
            answer = client.post("/api/v1/predict", files=as_files(lesions(10)))
            if answer.status_code != 200:
                break
            cases += 10
        assert answer.status_code == 507
        assert "disk is full" in answer.json()["detail"]
        assert client.get("/api/v1/health").json()["cases"] == cases
    rows = run("export", "--format", "jsonl", "--data", tmp_path).stdout.splitlines()
    assert len(rows) == cases
