"""The same numbers wherever the library runs: optimised, threaded, forked, spawned, homeless."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = """
import json, multiprocessing, sys, threading
import numpy as np
import temperance as tp

y = np.arange(300) % 3
Z = 2 * (1.2 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(300, 3)))

def answer(_=0):
    cal = tp.calibrate(Z, np.full(3, 1 / 3), (Z, y))
    return json.dumps([cal.to_dict(), tp.fit_temperature(Z, y).temperature, tp.metrics.ece(Z, y)],
                      sort_keys=True)
"""
PLAIN = "if __name__ == '__main__': print(answer())"
THREADS = """
found, barrier = [], threading.Barrier(8)
def work():
    barrier.wait()
    found.append(answer())
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1
print(found[0])
"""
PROCESSES = """
if __name__ == "__main__":
    before = answer() if sys.argv[1] == "fork" else None
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        found = set(pool.map(answer, range(4)))
    assert len(found | ({before} - {None})) == 1
    print(found.pop())
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return output(tmp_path_factory.mktemp("plain"), PLAIN)


def output(folder, code, *arguments, options=(), **environment):
    file = folder / "program.py"
    file.write_text(START + code)
    done = subprocess.run(
        [sys.executable, *options, file, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ODD = """
place = np.zeros(Z.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(Z.shape)
place[:] = Z
print(tp.calibrate(place, source=(place, y)).verdict, tp.Temperature(2.0)(place).shape,
      tp.fit_matrix(place, y, penalty=1.0).n_classes)
"""


def test_numbers_at_odd_places_of_the_memory(tmp_path):
    """As a .npz file holds them; kernels for processors without AVX read whole vectors only."""
    found = {output(tmp_path, ODD, OPENBLAS_CORETYPE=core) for core in ("Prescott", "Haswell")}
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-O", "-OO", "-I"])
def test_options_of_the_interpreter(expected, tmp_path, option):
    if option == "-I":  # which reads no PYTHONPATH
        path = os.environ.get("PYTHONPATH", "")
        code = f"import sys; sys.path[:0] = {path.split(os.pathsep)!r}\n" + START + PLAIN
        (tmp_path / "isolated.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "-I", tmp_path / "isolated.py"], check=True, capture_output=True
        )
        assert done.stdout.decode() == expected
    else:
        assert output(tmp_path, PLAIN, options=[option]) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "7"},
        {"LC_ALL": "C", "TZ": "Asia/Kathmandu"},
        {"PYTHONWARNINGS": "error"},
        {"OMP_NUM_THREADS": "abc"},
        {"HOME": "/nonexistent"},
        {"PYTHONDONTWRITEBYTECODE": "1"},
    ],
    ids=lambda e: next(iter(e)),
)
def test_surroundings_do_not_change_the_answer(expected, tmp_path, environment):
    assert output(tmp_path, PLAIN, **environment) == expected


@pytest.mark.slow
def test_eight_threads_at_a_cold_start(expected, tmp_path):
    assert output(tmp_path, THREADS) == expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes(expected, tmp_path, method):
    assert output(tmp_path, PROCESSES, method) == expected
