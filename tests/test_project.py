"""What the project says about itself is true."""

from __future__ import annotations

import re
from importlib.metadata import version
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType

import pytest

import temperance

ROOT = Path(__file__).parents[1]


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def test_one_version_everywhere():
    cited = re.findall(r"^version: (.+)$", text_of("CITATION.cff"), re.MULTILINE)
    assert cited == [temperance.__version__]
    assert version("temperance") == temperance.__version__
    assert re.search(
        rf"^## .*{re.escape(temperance.__version__)}", text_of("CHANGELOG.md"), re.MULTILINE
    )


def test_the_readme_example_improves_what_it_says(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", text_of("README.md"), re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - our own README
    said, measured = capsys.readouterr().out.splitlines()
    assert said.startswith("improved")
    before, after = (float(n) for n in re.findall(r"\d+\.\d+", measured))
    assert after < before / 2


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"])
def test_no_page_keeps_the_marks_of_a_merge(name):
    assert not re.findall(r"^(?:<{7} |={7}$|>{7} ).*", text_of(name), re.MULTILINE)


def test_make_describes_every_command_that_the_readme_names():
    described = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"^make ([a-z-]+)", text_of("README.md"), re.MULTILINE))
    assert named
    assert named <= described


def public_names():
    """Functions and classes that a user may write after ``temperance.``, public modules opened."""
    names = {}
    for name in temperance.__all__:
        value = getattr(temperance, name)
        if isinstance(value, ModuleType) and hasattr(value, "__all__"):
            inside = {f"{name}.{inner}": getattr(value, inner) for inner in value.__all__}
            names |= {
                inner: found
                for inner, found in inside.items()
                if isroutine(found) or isclass(found)
            }
        else:
            names[name] = value
    # A thing with a short name needs no page under its long one.
    exported = {id(value) for name, value in names.items() if "." not in name}
    return sorted(n for n, value in names.items() if "." not in n or id(value) not in exported)


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_a_page_in_the_manual(name):
    assert name in text_of("docs/api/index.md").split()
