"""The page "The paper, line by line": elements.txt with the states that follow from the records.

lab/tests/reproduce/test_elements.py checks that what a command names is there.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from temperance_lab.reproduce import EXPERIMENTS
from temperance_lab.reproduce.claims import check
from temperance_lab.reproduce.methods import METHODS
from temperance_lab.reproduce.paper_rows import BESIDE
from temperance_lab.reproduce.probabilistic import NEIGHBOURS, PAPER
from temperance_lab.reproduce.record_table import RecordTable
from temperance_lab.reproduce.size import SHIFTED

if TYPE_CHECKING:
    from temperance_lab.reproduce import Record

    Records = dict[str, list[Record]]

STATES = ("done", "different", "partial", "missing")
SECTIONS = {
    "A": "Theory",
    "B": "Methods",
    "C": "Metrics",
    "D": "Data and networks",
    "E": "Tables and figures",
    "F": "Claims of the text",
    "S": "Shifts",
}
ONLY = {"probabilistic": PAPER, "sample-size": SHIFTED}  # groups that are the paper's
NEAR = 3.0  # points between a variational network and the network that it started from
EARLIER = ("earlier revision", "rows drawn at random, not by class")  # caveats of older records
INTRODUCTION = """\
# The paper, line by line

The paper and its supplement, cut into {n} elements. *Done* is what can be run and seen;
*different* is done in another way, for the reason that is given; *partial* and *missing* say what
is lacking, and [the tables and figures](reproduction.md) name file and command for each empty cell.
A claim is *done* when a rule decides it from the records: the verdict may be against the claim.
{counts}. What an earlier run of `temperance-lab` left in its directory `--out` is kept; in an empty
directory all is measured again. [UTS, derived](../concepts/uts.md) has the proofs of section A."""


class Element(NamedTuple):
    """One line of the paper: its state here, in words, and the command that shows it."""

    key: str
    paper: str
    state: str
    here: str
    command: str


def elements(records: Records) -> list[Element]:
    """Return all elements, with the states that follow from the records."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    given = [Element(*line.split(" | ")) for line in text.splitlines() if line[0] != "#"]
    return [_settled(element, records) for element in given]


def _settled(element: Element, records: Records) -> Element:
    """Return an element whose state is one of the four."""
    experiment = (re.findall(r"reproduce (\S+)", element.command) or [""])[0]
    rule, _, what = element.state.partition(" ")
    if rule == "claims":
        verdicts, starts = check(records), element.here.split("; ")
        found = [next(v for v in verdicts if v.claim.says.startswith(s)) for s in starts]
        return element._replace(state="done", here="; ".join(v.word for v in found))
    if rule == "attended":
        run = {r.group for r in records[experiment] if r.method == "ATS" and not r.needs}
        every = {r.group for r in records["table-1"] if r.method == "TS" and not r.needs}
        here = f"{len(run)} of the {len(every)} networks that have logits"
        return element._replace(state="done" if run >= every else "partial", here=here)
    if rule == "methods":
        groups = ONLY.get(experiment, EXPERIMENTS[experiment].order)
        run = {(r.group, r.method) for r in records[experiment] if not r.needs}
        lack = [f"{m} in {g}" for g in groups for m in what.split(", ") if (g, m) not in run]
        told = f"; needs this command for {len(lack)} cells, {lack[0]} first" if lack else ""
        here = f"{element.here}{told}"
        return element._replace(state="partial" if lack else "done", here=here)
    if rule == "svi":
        return _variational(element, records[experiment])
    if rule == "count":
        groups = [g for g in ONLY.get(experiment, EXPERIMENTS[experiment].order) if g not in BESIDE]
        some = [r for r in records[experiment] if r.group in groups and r.method not in NEIGHBOURS]
        needing = {r.group for r in some if r.needs}
        run = {r.group for r in some if not r.needs}
        once = {r.group for r in some if r.weights and r.networks == 1 and r.method in METHODS}
        told = [f"{len(run)} of {len(groups)} {what} have numbers"]
        told += [f"{len(run & needing)} of these lack a method"] if run & needing else []
        told += [element.here] if element.here else []
        told += [f"needs: named with the {what} that have none"] if needing - run else []
        told += [f"{len(once)} of one training run, needs four more"] if once else []
        old = sum(any(words in r.caveat for words in EARLIER) for r in some)
        told += [f"{old} numbers of an earlier revision need this command"] if old else []
        state = "partial" if needing or once or old else "done"
        return element._replace(state=state, here="; ".join(told))
    return element


def _variational(element: Element, records: list[Record]) -> Element:
    """Return the element of SVI, done where its accuracy is near in the mildest setting."""
    t = RecordTable(records)
    told, near = [element.here], True
    for name in ("MNIST", "CIFAR10"):
        cells = [(g, x) for g in t.groups() if g.startswith(name) for x in t.degrees(g)]
        found = [[t.value(g, m, "accuracy", x) for m in ("uncalibrated", "SVI")] for g, x in cells]
        pairs = [pair for pair in found if not np.isnan(pair).any()]
        one, svi = max(pairs)
        apart = [b - a for a, b in pairs]
        told.append(
            f"{name}: {svi:.1f} % right in the mildest setting, where one network has {one:.1f} %, "
            f"and {min(apart):+.1f} to {max(apart):+.1f} points from it over all settings"
        )
        near &= abs(svi - one) <= NEAR
    old = any("earlier recipe" in r.caveat for r in records)
    told += ["records of an earlier recipe need this command"] if old else []
    told += [f"needs a recipe within {NEAR:g} points"] if not near else []
    done = near and not old
    return element._replace(state="done" if done else "partial", here="; ".join(told))


def page(records: Records) -> str:
    """Return the page."""
    every = elements(records)
    found = Counter(e.state for e in every)
    counts = ", ".join(f"{state} {found[state]}" for state in STATES).capitalize()
    parts = [INTRODUCTION.format(n=len(every), counts=counts)]
    for letter, heading in SECTIONS.items():
        head = "| | in the paper | state | here | shown by |"
        lines = [f"## {heading}", "", head, "|---" * 5 + "|"]
        lines += [
            f"| {e.key} | {e.paper} | {e.state} | {e.here} | `{e.command}` |"
            for e in every
            if e.key[0] == letter
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
