"""The paper's tables and figures, run again: one record for every number.

Each item is a set of groups (a row of a table, a panel of a figure), each group a file of records.
What is there already is not run again, unless other methods are asked for.

Examples
--------
>>> from temperance import reproduce
>>> sorted(reproduce.ITEMS)[:3]
['combination', 'figure-corruptions', 'figure-shift']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from temperance._core.checks import check_choice
from temperance_lab.reproduce import noise, probabilistic, shift, size, tables
from temperance_lab.reproduce.bench import Bench
from temperance_lab.reproduce.paper_rows import ROWS
from temperance_lab.reproduce.record import Record, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Groups = dict[str, Callable[[Sequence[str]], list[Record]]]

__all__ = ["ITEMS", "Bench", "Item", "Record", "read", "run", "stored"]


@dataclass(frozen=True, slots=True)
class Item:
    """A table or a figure: what it is of, its methods, and its groups on a bench.

    ``order`` is that of the paper, of all groups that there may be.
    """

    title: str
    methods: tuple[str, ...]
    groups: Callable[[Bench], Groups]
    order: tuple[str, ...]


NETWORKS = tuple(row.group for row in ROWS)
ITEMS = {
    "table-1": Item(
        "Table 1 and appendix C.1: the same domain", tables.METHODS, tables.groups, NETWORKS
    ),
    "label-noise": Item(
        "Figure 4, appendix C.3: noisy labels", noise.METHODS, noise.groups, NETWORKS
    ),
    "sample-size": Item(
        "Appendix C.4: number of rows", size.METHODS, size.groups, (*size.SHIFTED, *NETWORKS)
    ),
    "figure-shift": Item(
        "Figure 2: shifts",
        shift.METHODS,
        partial(shift.groups, "figure-shift"),
        tuple(shift.SHIFTS),
    ),
    "figure-corruptions": Item(
        "Appendix C.2: corruptions",
        shift.METHODS,
        partial(shift.groups, "figure-corruptions"),
        tuple(shift.CORRUPTED),
    ),
    "probabilistic": Item(
        "Figure 3: probabilistic methods",
        (*probabilistic.POSTHOC, *probabilistic.BASELINES),
        partial(probabilistic.groups, "probabilistic"),
        tuple(probabilistic.SETTINGS),
    ),
    "combination": Item(
        "Future work: calibrated ensembles",
        probabilistic.combinations(),
        partial(probabilistic.groups, "combination"),
        tuple(probabilistic.SETTINGS),
    ),
}


def stored(name: str, records: Path) -> list[Record]:
    """Return all records of an item that a directory holds, in the paper's order."""
    rank = {group: i for i, group in enumerate(ITEMS[name].order)}
    paths = sorted(records.glob("*.json"), key=lambda p: (rank.get(p.stem, len(rank)), p.stem))
    return [record for path in paths for record in read(path)]


def run(
    name: str,
    bench: Bench,
    records: Path,
    *,
    cells: str = "",
    methods: Sequence[str] | None = None,
) -> Iterator[tuple[str, list[Record]]]:
    """Yield the groups of an item and their records, from ``records`` where they are there.

    Parameters
    ----------
    name
        One of `ITEMS`.
    bench
        Where the logits come from.
    records
        Directory of the records, a file for each group.
    cells
        Run only groups whose name contains this.
    methods
        Run these, be they there or not, and keep the records of the others; without it, those
        that are not there.
    """
    item = ITEMS[check_choice(name, ITEMS, "name")]
    for group, measure in item.groups(bench).items():
        if cells not in group:
            continue
        path = records / f"{group}.json"
        kept = read(path) if path.exists() else []
        there = {r.method for r in kept if r.needs is None}  # what was missing may have come
        asked = methods or [m for m in item.methods if m not in there]
        if asked:
            kept = [r for r in kept if r.method not in asked] + measure(asked)
            kept.sort(key=lambda r: (r.x or 0, item.methods.index(r.method)))
            write(path, kept)
        yield group, kept
