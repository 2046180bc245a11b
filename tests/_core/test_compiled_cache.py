"""A read-only installation compiles once per machine, or uses NumPy and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import temperance as tp

SETPRIV = shutil.which("setpriv")
AS_USER = [SETPRIV, "--bounding-set=-dac_override"] if os.geteuid() == 0 else []

CALL = (
    "import temperance as tp, numpy as np, sys, warnings\n"
    "warnings.simplefilter('always')\n"
    "y = np.arange(90) % 3\n"
    "z = np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3))\n"
    "t = tp.fit_temperature(z, y).temperature, tp.metrics.nll(z, y)\n"
    "from temperance._core import kernels\n"
    "print(kernels.temperature_moments.__module__.rpartition('.')[2], *t)\n"
)


@pytest.fixture
def installed(tmp_path):
    """A copy of the library that nobody can write, and a home like it."""
    if os.geteuid() == 0 and SETPRIV is None:
        pytest.skip("setpriv is needed to take the rights of the superuser away")
    pytest.importorskip("numba")
    site, home = tmp_path / "site", tmp_path / "home"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(tp.__file__).parent, site / "temperance", ignore=ignore)
    home.mkdir()
    for folder in (home, site, *(p for p in site.rglob("*") if p.is_dir())):
        folder.chmod(0o555)
    yield site, home
    for folder in (home, site, *(p for p in site.rglob("*") if p.is_dir())):
        folder.chmod(0o755)


def called(site, home, temporary, **more):
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TEMPERANCE_NUMBA")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment |= {"PYTHONPATH": str(site), "HOME": str(home), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [*AS_USER, sys.executable, "-c", CALL],
        check=False,
        capture_output=True,
        text=True,
        env=environment | more,
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    backend, *numbers = done.stdout.split()
    return backend, [float(number) for number in numbers], done.stderr


@pytest.mark.slow
def test_what_is_compiled_is_kept_where_a_directory_can_be_written(installed, tmp_path):
    site, home = installed
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    backend, first, said = called(site, home, temporary)
    assert backend == "kernels_numba"
    assert said == ""
    (folder,) = temporary.glob("temperance-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb*")}
    assert kept
    backend, second, _ = called(site, home, temporary)
    assert (backend, second) == ("kernels_numba", first)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb*")} == kept


def test_numpy_answers_where_nothing_can_be_kept(installed, tmp_path):
    site, home = installed
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    where = {"TMPDIR": str(closed), "NUMBA_CACHE_DIR": str(closed)}
    backend, numbers, said = called(site, home, closed, **where)
    assert backend == "kernels_numpy"
    assert said.count("NUMBA_CACHE_DIR") == 1
    _, plain, _ = called(site, home, closed, TEMPERANCE_NUMBA="0")
    assert numbers == plain


@pytest.mark.parametrize("trap", ["link", "open to others"])
def test_code_is_not_kept_where_others_can_write(monkeypatch, tmp_path, trap):
    from temperance._core import compiled_cache

    place = tmp_path / f"temperance-{os.getuid()}"
    if trap == "link":
        (tmp_path / "real").mkdir()
        place.symlink_to(tmp_path / "real")
    else:
        place.mkdir()
        place.chmod(0o777)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "file").write_bytes(b"")  # inside of which nothing can be made
    monkeypatch.setattr(compiled_cache, "__file__", str(tmp_path / "file" / "module.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not compiled_cache.find_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ
