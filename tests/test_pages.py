"""The manual: examples run as they stand, in an empty directory; tables are those of the code."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from temperance.calibrate import constants
from temperance.calibrate.findings import CODES
from temperance.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {"torch.md", "tracking.md", "monitoring.md"}  # test_torch_export, …_tracking, …_guide
SLOW = {"experiments.md"}  # trains a network


def examples(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))


PAGES = [
    page
    for folder in ("", "concepts", "guides", "reference")
    for page in sorted((DOCS / folder).glob("*.md"))
    if examples(page)
]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW else ())
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(examples(page), page.name, "exec"), {})  # noqa: S102 - our own pages
    assert {page.name for page in PAGES} >= ELSEWHERE | SLOW


def commands(page):
    """Return command lines of a page with the exit codes that it promises: 0 if it says none."""
    blocks = re.findall(r"^```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    text = "\n".join(blocks).replace("\\\n", "")  # a line may go on in the next
    lines = re.findall(r"^\$ (.*?)(?:  # exit (\d+))?$", text, re.MULTILINE)
    return [(shlex.split(line), int(code or 0)) for line, code in lines]


CONSOLE = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if ["temperance"] in [c[:1] for c, _ in commands(page)]
]


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in CONSOLE])
def test_the_commands_of_a_page_end_as_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(examples(page), page.name, "exec"), {})  # noqa: S102 - it may make their files
    for (program, *arguments), code in commands(page):
        if program == "cd":
            monkeypatch.chdir(arguments[0])
            continue
        capsys.readouterr()
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
            continue
        assert program == "temperance"
        words = arguments[: arguments.index(">")] if ">" in arguments else arguments
        assert main(words) == code, words
        if words != arguments:
            Path(arguments[-1]).write_text(capsys.readouterr().out, encoding="utf-8")


@pytest.mark.parametrize("name", ["make_demo_figure", "make_report_picture"])
def test_the_numbers_in_a_picture_are_those_of_today(monkeypatch, name):
    """Where it fails, run the script of this name in lab/pages and look at the picture."""
    monkeypatch.syspath_prepend(ROOT / "lab" / "pages")
    script = importlib.import_module(name)
    with Image.open(script.PICTURE) as picture:
        assert picture.text["Description"] == script.shown()


@pytest.fixture
def tables(monkeypatch):
    """Return the extension that writes the tables of the manual."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    yield importlib.import_module("tables")
    del sys.modules["tables"]


def test_the_page_of_codes_has_a_section_for_every_code(tables):
    sections = re.findall(
        r"^\((tp\d+)\)=\n## (TP\d+)\n\n\*\*(\w+)\*\*: .+\n\n.+$", tables.codes(), re.MULTILINE
    )
    assert sections == [(code.lower(), code, kind.severity) for code, kind in CODES.items()]


def test_the_table_of_constants_has_every_constant_with_its_value(tables):
    shown = dict(re.findall(r"`(\w+)` ([-+.e\d]+)(?=<br>| \|)", tables.constants_table()))
    kinds = (constants.FITTED, constants.POLICY, constants.NUMERICAL)
    held = {name: value for kind in kinds for name, value in dataclasses.asdict(kind).items()}
    assert {name: float(value) for name, value in shown.items()} == held


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("[a-z]*/*.md")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_codes_in_the_prose_exist(page):
    assert set(re.findall(r"\bTP[1-9]\d\d\b", page.read_text("utf-8"))) <= set(CODES)
