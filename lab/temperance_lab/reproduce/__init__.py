"""The paper's tables and figures, run again: one record for every number.

An experiment is a set of groups (a row of a table, a panel of a figure). Records that a file holds
already are not measured again, unless their methods are named.

Examples
--------
>>> from temperance_lab import reproduce
>>> sorted(reproduce.EXPERIMENTS)[:3]
['combination', 'cost', 'figure-corruptions']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.checks import check_choice
from temperance_lab.reproduce import cost, foreign, noise, probabilistic, shift, size, tables
from temperance_lab.reproduce.core import core_of
from temperance_lab.reproduce.experiment_data import ExperimentData
from temperance_lab.reproduce.methods import METHODS
from temperance_lab.reproduce.paper_rows import ROWS
from temperance_lab.reproduce.record import Record, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Groups = dict[str, Callable[[Sequence[str]], list[Record]]]

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentData", "Record", "read", "run", "stored"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or a figure: its title, its methods, and its groups on given data.

    ``order`` names all possible groups in the paper's order.
    """

    title: str
    methods: tuple[str, ...]
    groups: Callable[[ExperimentData], Groups]
    order: tuple[str, ...]


NETWORKS = tuple(row.group for row in ROWS)
EXPERIMENTS = {
    "table-1": Experiment(
        "Table 1 and appendix C.1: the same domain", tables.METHODS, tables.groups, NETWORKS
    ),
    "cost": Experiment(
        "Time and memory of a fit (introduction)", cost.METHODS, cost.groups, NETWORKS
    ),
    "label-noise": Experiment(
        "Figure 4, appendix C.3: noisy labels", noise.METHODS, noise.groups, NETWORKS
    ),
    "sample-size": Experiment(
        "Appendix C.4: number of rows", size.METHODS, size.groups, (*size.SHIFTED, *NETWORKS)
    ),
    "figure-shift": Experiment(
        "Figure 2: shifts",
        shift.METHODS,
        partial(shift.groups, "figure-shift"),
        tuple(shift.SHIFTS),
    ),
    "figure-corruptions": Experiment(
        "Appendix C.2: corruptions",
        shift.METHODS,
        partial(shift.groups, "figure-corruptions"),
        tuple(shift.CORRUPTED),
    ),
    "probabilistic": Experiment(
        "Figure 3: probabilistic methods",
        (*probabilistic.POSTHOC, *probabilistic.BASELINES, *probabilistic.NEIGHBOURS),
        partial(probabilistic.groups, "probabilistic"),
        tuple(probabilistic.SETTINGS),
    ),
    "combination": Experiment(
        "Future work: calibrated ensembles",
        probabilistic.combinations(),
        partial(probabilistic.groups, "combination"),
        tuple(probabilistic.PAPER),
    ),
    "foreign": Experiment(
        "Future work: foreign and attacked pictures",
        foreign.METHODS,
        foreign.groups,
        tuple(foreign.GROUPS),
    ),
}


def stored(name: str, records: Path) -> list[Record]:
    """Return the records of an experiment that a directory holds; none where it holds no file."""
    path = records / f"{name}.json"
    return read(path) if path.exists() else []


def _once(record: Record, data: ExperimentData) -> bool:
    """Whether a record is over fewer training runs than there are today."""
    plain = record.weights is not None and record.method in METHODS  # not an ensemble or SVI
    return plain and record.networks < len(data.runs)


def run(
    name: str,
    data: ExperimentData,
    records: Path,
    *,
    cells: str = "",
    methods: Sequence[str] | None = None,
    refresh: bool = False,
) -> Iterator[tuple[str, list[Record]]]:
    """Yield the groups of an experiment and their records; stored records are kept.

    Parameters
    ----------
    name
        One of `EXPERIMENTS`.
    data
        Where the logits come from.
    records
        Directory of the records, one file for each experiment, written after each group.
    cells
        Run only groups whose name contains this.
    methods
        Measure these again and keep the records of the others; by default, measure the methods
        that have no record, and all of a group with fewer training runs than there are today.
    refresh
        Measure again, too, what another label-free core than the installed one has measured.
    """
    experiment = EXPERIMENTS[check_choice(name, EXPERIMENTS, "name")]
    rank = {group: i for i, group in enumerate(experiment.order)}
    column = {method: i for i, method in enumerate(experiment.methods)}
    for group, measure in experiment.groups(data).items():
        if cells not in group:
            continue
        everything = stored(name, records)
        kept = [r for r in everything if r.group == group and r.method in column]
        if any(_once(r, data) for r in kept) and not methods:
            kept = []  # all methods of a group are to see the same networks
        old = {r.method for r in kept if r.core != core_of(r.method)} if refresh else set()
        there = {r.method for r in kept if r.needs is None} - old  # a missing file may have come
        asked = methods or [m for m in experiment.methods if m not in there]
        if asked:
            kept = [r for r in kept if r.method not in asked] + measure(asked)
            kept.sort(key=lambda r: (r.x or 0, column[r.method]))
            everything = [r for r in everything if r.group != group] + kept
            everything.sort(key=lambda r: (rank.get(r.group, len(rank)), r.group))
            write(records / f"{name}.json", everything)
        yield group, kept
