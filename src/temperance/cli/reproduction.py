"""What ``temperance reproduce`` shows: the cells of an item as a table of its main metric."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from temperance._checks import check_choice
from temperance.cli import screen
from temperance.reproduce import ITEMS, Bench, run
from temperance.reproduce.claims import check
from temperance.reproduce.figures import draw
from temperance.reproduce.lookup import Lookup

if TYPE_CHECKING:
    from temperance.reproduce import Record


def run_items(
    name: str, data: Path | None, out: Path, cells: str, *, quick: bool
) -> dict[str, list[Record]]:
    """Run an item, or all of them, and write records and figures."""
    items = list(ITEMS) if name == "all" else [check_choice(name, (*ITEMS, "all"), "name")]
    named = data or os.environ.get("TEMPERANCE_DATA")
    # Records of five draws must not pass for those of twenty.
    place = out / "quick" if quick else out
    bench = Bench(place, None if named is None else Path(named), quick=quick)
    records = {}
    for item in items:
        some: list[Record] = []
        for _, measured in run(item, bench, place / "records" / item, cells=cells):
            some += measured
        if find_spec("matplotlib") is not None and any(r.needs is None for r in some):
            draw(item, some, place / f"{item}.png")
        records[item] = some
    return records


MAIN = {"table-1": "nll", "label-noise": "nll", "sample-size": "temperature"}


def show_item(name: str, records: list[Record]) -> None:
    """Print the means over draws of an item, the paper's in brackets, and what is missing."""
    metric = MAIN.get(name, "brier")
    t = Lookup(records)
    methods = [m for m in ITEMS[name].methods if m in t.methods()]
    screen.say(f"{ITEMS[name].title}: {metric}", "bold")
    rows = []
    for group in t.groups():
        for x in t.degrees(group) or [None]:
            cells = [t.get(group, m, metric, x) for m in methods]
            rows.append([group, "" if x is None else f"{x:g}", *map(_cell, cells)])
    if methods:
        screen.table(("", "degree", *methods), rows)
    for group in dict.fromkeys(r.group for r in records if r.needs):
        needs = next(r.needs for r in records if r.group == group)
        screen.say(f"{group} was not run. It needs {needs['file']}. Then: {needs['command']}")  # pyright: ignore[reportOptionalSubscript]


def show_claims(records: dict[str, list[Record]]) -> None:
    """Print which claims hold, of those that the records can tell."""
    rows = [(v.word, v.claim.says, v.claim.rule) for v in check(records) if v.n]
    if rows:
        screen.say()
        screen.table(("verdict", "claim", "rule"), rows)


def _cell(record: Record | None) -> str:
    if record is None or record.reproduced is None:
        return ""
    printed = f" ({record.reported['mean']:.4f})" if record.reported else ""
    return f"{record.reproduced:.4f}{printed}"
