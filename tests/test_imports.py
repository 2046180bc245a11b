"""Importing the library costs NumPy, SciPy and scikit-learn, and nothing heavier."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import temperance as tp

HEAVY = ("torch", "matplotlib", "pandas", "jinja2", "dask", "numba")


def top_level_modules_after(statement: str) -> set[str]:
    """Names of the packages that a fresh interpreter holds after running `statement`."""
    code = (
        f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded():
    return top_level_modules_after("import temperance")


@pytest.mark.parametrize("package", HEAVY)
def test_import_leaves_heavy_packages_alone(loaded, package):
    assert importlib.util.find_spec(package), f"{package} is not installed: nothing is tested"
    assert package not in loaded


def test_import_loads_what_the_core_is_made_of(loaded):
    assert {"temperance", "numpy"} <= loaded


def test_the_probe_sees_a_heavy_package():
    assert "jinja2" in top_level_modules_after("import temperance, jinja2")


def imported_in(nodes):
    return {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}


def test_an_editor_knows_the_names_that_load_later():
    tree = ast.parse(Path(tp.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))  # if TYPE_CHECKING
    later = (set(dir(tp)) | set(tp.__all__)) - imported_in(tree.body)
    assert imported_in(block.body) - {"ModuleType"} == later


def test_no_import_by_string_evades_the_layers():
    """Only the public face loads by name; import-linter sees every other import."""
    package = Path(tp.__file__).parent
    by_string = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if re.search(r"import_module\(|__import__\(", file.read_text("utf-8"))
    }
    assert by_string == {"__init__.py"}


def test_pages_without_their_extra_name_it():
    """Neither jinja2 nor markupsafe is there: the page says what to install, a notebook goes on."""
    script = """
import sys
sys.modules["jinja2"] = sys.modules["markupsafe"] = None
import numpy as np, temperance as tp
rng = np.random.default_rng(0)
y = rng.integers(3, size=300)
z = 4 * (np.eye(3)[y] + rng.normal(size=(300, 3)))
cal, mon = tp.calibrate(z, source=(z, y)), tp.Monitor(source=(z, y))
mon.add(z, at="2026-11-01")
assert cal._repr_html_() is None
for call in (cal.to_html, mon.to_html):
    try:
        call()
    except tp.InputError as error:
        assert "pip install temperance[report]" in str(error)
    else:
        raise AssertionError(call)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
