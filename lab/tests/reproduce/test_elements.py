"""The page of the paper's elements names only files, tests and experiments that are there."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from temperance_lab.reproduce import EXPERIMENTS, stored

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "lab" / "pages"

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="a source distribution has no pages/")


@pytest.fixture(scope="module")
def records():
    return {name: stored(name, ROOT / "lab" / "experiments" / "paper") for name in EXPERIMENTS}


@pytest.fixture(scope="module")
def elements():
    sys.path.insert(0, str(PAGES))
    try:
        import elements
    finally:
        sys.path.remove(str(PAGES))
    return elements


@pytest.fixture(scope="module")
def every(elements, records):
    return elements.elements(records)


def test_every_element_is_there_once_and_has_a_state(every):
    sizes = {"A": 19, "B": 8, "C": 4, "D": 16, "E": 10, "F": 19, "S": 4}
    wanted = [f"{letter}{i + 1}" for letter, n in sizes.items() for i in range(n)]
    assert [e.key for e in every] == wanted
    assert {e.state for e in every} <= {"done", "different", "partial", "missing"}


def test_what_is_not_done_says_what_it_needs(every):
    for element in every:
        assert element.state in {"done", "different"} or "need" in element.here, element.key


def test_every_command_names_what_is_there(every):
    for command in (c for e in every for c in e.command.split(" and ")):
        program, *words = shlex.split(command)
        if program == "temperance-lab":
            experiment = EXPERIMENTS[words[1]]
            cells = words[words.index("--cells") + 1] if "--cells" in words else ""
            assert any(cells in group for group in experiment.order), command
            continue
        assert (ROOT / words[0]).is_file(), command
        if "-k" in words:
            tests = re.findall(r"^def (test_\w+)", (ROOT / words[0]).read_text(), re.MULTILINE)
            for word in words[words.index("-k") + 1].split(" or "):
                assert any(word in test for test in tests), command


def test_states_that_follow_from_records(every, records):
    by = {e.key: e for e in every}
    assert by["E1"].state == "partial"  # two rows have no logits
    assert by["E1"].here.startswith("10 of 12 rows")
    assert by["E5"].here.startswith("10 of 12 panels")
    old = [r for r in records["probabilistic"] if "earlier recipe" in r.caveat]
    far = "needs a recipe within" in by["B6"].here
    assert (by["B6"].state == "done") == (not old and not far)


def test_a_state_changes_with_its_records(elements, records):
    some = records["probabilistic"]
    worse = [
        replace(r, reproduced=0.8 * r.reproduced)
        if (r.method, r.metric) == ("SVI", "accuracy") and r.reproduced
        else r
        for r in some
    ]
    (b6,) = (e for e in elements.elements(records | {"probabilistic": worse}) if e.key == "B6")
    assert b6.state == "partial"
    assert "within 3 points" in b6.here
    b8 = next(e.here for e in elements.elements(records) if e.key == "B8")
    fewer = [r for r in some if (r.group, r.method) != ("CIFAR10-contrast-5", "ll-Laplace")]
    (now,) = (e for e in elements.elements(records | {"probabilistic": fewer}) if e.key == "B8")
    assert now.state == "partial"
    assert "ll-Laplace in CIFAR10-contrast-5 first" in now.here
    assert "ll-Laplace" not in b8
    shifts = records["figure-shift"]
    old = [replace(shifts[0], caveat="corruptions of an earlier revision"), *shifts[1:]]
    (e2,) = (e for e in elements.elements(records | {"figure-shift": old}) if e.key == "E2")
    assert e2.state == "partial"
    assert "1 numbers of an earlier revision need" in e2.here
