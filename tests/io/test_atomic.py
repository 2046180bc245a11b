"""Files are written whole or not at all, keep mode and owner, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import temperance as tp
from temperance.io import formats
from temperance.io.atomic import replacing, write_bytes
from temperance.report import to_html


def saved(path):
    """Write a file through each public way, by its ending."""
    if path.suffix == ".html":
        z = np.random.default_rng(0).normal(size=(100, 3))
        to_html(tp.calibrate(z, [0.2, 0.3, 0.5]), path)
    elif path.suffix in formats.FORMATS and path.suffix != ".safetensors":
        formats.write(path, formats.Table(np.array([[2.0, 0.5], [0.1, 1.0]])))
    else:
        tp.save(tp.Temperature(2.0), path)


WAYS = ["map.json", "map.safetensors", "page.html", "t.npz", "t.npy", "t.csv", "t.parquet"]


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_that_is_replaced_lends_its_mode_and_owner(tmp_path, name, mode):
    path = tmp_path / name
    path.write_bytes(b"old")
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    owner = path.stat().st_uid, path.stat().st_gid
    saved(path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path):
    mask = os.umask(0o027)
    try:
        saved(tmp_path / "map.json")
        write_bytes(tmp_path / "secret", b"x", private=True)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "map.json").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_a_file_is_never_more_open_than_the_one_it_replaces(tmp_path):
    path = tmp_path / "secret"
    write_bytes(path, b"old", private=True)
    with replacing(path) as file:
        file.write(b"new")
        modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize("length", [200, 250, 255])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, length):
    path = tmp_path / ("n" * (length - 5) + ".json")
    saved(path)
    assert tp.load(path) == tp.Temperature(2.0)


def test_names_of_any_bytes(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9\n\x1b.json")
    saved(path)
    assert tp.load(path) == tp.Temperature(2.0)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    saved(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert tp.load(tmp_path / "real.json") == tp.Temperature(2.0)


HALF = """
import sys, time
from temperance.io.atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def writing(path):
    """Start a process that holds a file half-written."""
    process = subprocess.Popen([sys.executable, "-c", HALF, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.slow
def test_the_next_write_removes_what_a_killed_process_left(tmp_path):
    path = tmp_path / "out.json"
    for _ in range(3):
        process = writing(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        left = [p.name for p in tmp_path.iterdir()]
        assert len(left) == 1  # of this kill; those of earlier kills are gone
    saved(tmp_path / "other.json")  # a write to another name leaves it alone
    assert len(list(tmp_path.iterdir())) == 2
    saved(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.json", "out.json"]


def test_what_a_live_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "out.json"
    process = writing(path)
    try:
        saved(path)
        assert len(list(tmp_path.iterdir())) == 2
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)  # which ends it in order: nothing is left
        process.wait()
        process.stdout.close()
    assert list(tmp_path.iterdir()) == [path]
    assert tp.load(path) == tp.Temperature(2.0)


def test_many_writers_of_one_name(tmp_path):
    path, failures = tmp_path / "map.json", []
    stop = time.monotonic() + 5

    def work(seed):
        try:
            for i in range(40):
                tp.save(tp.Temperature(1.0 + seed + i / 100), path)
                tp.load(path)
                if time.monotonic() > stop:
                    return
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path):
    code = (
        "import resource, sys, signal, temperance as tp, numpy as np\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    tp.save(tp.MatrixMap(np.ones((40, 40)), np.zeros(40)), sys.argv[1])\n"
        "except OSError as error:\n"
        "    assert error.filename == sys.argv[1], error\n"
        "    print('refused')\n"
    )
    path = tmp_path / "m.json"
    path.write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True
    )
    assert done.stdout == "refused\n"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
