"""What newcomers read first: the example of the README, and the notebook.

The example prints what its comments say. The notebook runs from top to bottom, shows what it talks
about, and is kept without output.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


def test_the_readme_example_prints_what_its_comments_say(capsys):
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    promised = re.findall(r"^print\(.*\)  # (.+)$", example, re.MULTILINE)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - our own README
    assert capsys.readouterr().out.splitlines() == promised


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    return notebook


def shown(executed, kind):
    return [
        output["data"][kind]
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


def test_it_is_shipped_without_output():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
    assert NOTEBOOK.stat().st_size < 20_000


@pytest.mark.slow
def test_it_shows_a_verdict_and_two_figures(executed):
    verdict, *figures = shown(executed, "text/html")
    assert "Verdict: improved" in verdict
    assert [figure.startswith("<svg") for figure in figures] == [True, True]


@pytest.mark.slow
def test_what_it_says_is_what_it_shows(executed):
    text = " ".join(shown(executed, "text/plain"))
    assert "agrees: True" in text
    mix = next(f for f in shown(executed, "text/html") if "share of rows" in f)
    assert "predicted" in mix
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not [o for cell in cells for o in cell.outputs if o.output_type in {"error", "stream"}]
