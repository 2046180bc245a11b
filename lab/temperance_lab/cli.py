"""The command ``temperance-lab``: a table or a figure of the paper, run again."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from temperance import __version__
from temperance.cli import output, run_app
from temperance.cli.options import Json, Out
from temperance_lab.checks import check_choice
from temperance_lab.reproduce import EXPERIMENTS, ExperimentData, run, stored
from temperance_lab.reproduce.claims import check
from temperance_lab.reproduce.comparison import compare as compare_records
from temperance_lab.reproduce.figures import draw
from temperance_lab.reproduce.record_table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance_lab.reproduce import Record


def run_experiments(
    name: str,
    data: Path | None,
    out: Path,
    cells: str,
    *,
    quick: bool = False,
    refresh: bool = False,
) -> dict[str, list[Record]]:
    """Run an experiment, or all of them, and write records and figures."""
    every = (*EXPERIMENTS, "all")
    names = list(EXPERIMENTS) if name == "all" else [check_choice(name, every, "name")]
    named = data or os.environ.get("TEMPERANCE_DATA")
    # Records of five draws must not be taken for those of twenty.
    place = out / "quick" if quick else out
    given = ExperimentData(place, None if named is None else Path(named), quick=quick)
    records = {}
    for experiment in names:
        some: list[Record] = []
        for _, measured in run(experiment, given, place / "records", cells=cells, refresh=refresh):
            some += measured
        if find_spec("matplotlib") is not None and any(r.needs is None for r in some):
            draw(experiment, some, place / f"{experiment}.png")
        records[experiment] = some
    return records


MAIN_METRIC = {
    "table-1": "nll",
    "cost": "seconds",
    "label-noise": "nll",
    "sample-size": "temperature",
}


def show_experiment(name: str, records: list[Record]) -> None:
    """Print the means over draws of an experiment, the paper's in brackets, and what is missing."""
    metric = MAIN_METRIC.get(name, "brier")
    t = RecordTable(records)
    methods = [m for m in EXPERIMENTS[name].methods if m in t.methods()]
    output.say(f"{EXPERIMENTS[name].title}: {metric}", "bold")
    rows = []
    for group in t.groups():
        for x in t.degrees(group) or [None]:
            cells = [t.get(group, m, metric, x) for m in methods]
            rows.append([group, "" if x is None else f"{x:g}", *map(_cell, cells)])
    if methods:
        output.table(("", "degree", *methods), rows)
    for group in dict.fromkeys(r.group for r in records if r.needs):
        needs = next(r.needs for r in records if r.group == group)
        output.say(f"{group} was not run. It needs {needs['file']}. Then: {needs['command']}")  # pyright: ignore[reportOptionalSubscript]


def show_claims(records: dict[str, list[Record]]) -> None:
    """Print which claims hold, of those that the records can tell."""
    rows = [(v.word, v.claim.says, v.claim.rule) for v in check(records) if v.n]
    if rows:
        output.say()
        output.table(("verdict", "claim", "rule"), rows)


def _cell(record: Record | None) -> str:
    if record is None or record.reproduced is None:
        return ""
    printed = f" ({record.reported['mean']:.4f})" if record.reported else ""
    return f"{record.reproduced:.4f}{printed}"


EXAMPLES = """Examples:

  temperance-lab reproduce all --quick
  temperance-lab reproduce table-1 --data DIR
  temperance-lab reproduce figure-shift --data DIR --cells rotation --json

Experiments: table-1, cost, label-noise, sample-size, figure-shift, figure-corruptions,
probabilistic, combination, foreign, all. What was run before is not run again."""

app = App(
    name="temperance-lab",
    help="The experiments behind temperance: the paper's tables and figures.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version=__version__,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, with the exit codes of ``temperance``."""
    return run_app(app, arguments)


@app.command(help_epilogue=EXAMPLES)
def reproduce(
    name: str,
    /,
    *,
    data: Path | None = None,
    out: Out = Path("temperance-reproduce"),
    cells: str = "",
    quick: Annotated[bool, Parameter(negative="")] = False,
    refresh: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Run a table or a figure of the paper again: a record for every number.

    Parameters
    ----------
    name
        The experiment, or 'all'.
    data
        Directory of data sets and logits; the variable TEMPERANCE_DATA when not given.
    out
        Directory for records, figures and networks.
    cells
        Run only the groups of an experiment (rows, panels) whose name contains this.
    quick
        Five thousand digits in place of every data set, and five draws: minutes, no files.
    refresh
        Measure again, too, what another version of the label-free core has measured.
    """
    records = run_experiments(name, data, out, cells, quick=quick, refresh=refresh)
    if json:
        output.show_json([record.to_dict() for some in records.values() for record in some])
    else:
        for experiment, some in records.items():
            show_experiment(experiment, some)
        show_claims(records)
        output.show_files({"records and figures": out})
    return 0


@app.command
def train(row: str, /, *, data: Path) -> int:
    """Train the network of a row whose logits are missing, by its recipe, and write its logits.

    It takes hours of a GPU, which is used where there is one. An interrupted run goes on.

    Parameters
    ----------
    row
        SVHN-DenseNet100 or CIFAR100-WideResNet40-4.
    data
        Directory of the data sets; the logits go into its folder `logits`.
    """
    from temperance_lab.reproduce.training_of_rows import train_row

    output.show_files({"logits": train_row(row, data)})
    return 0


@app.command
def compare(records: Path, earlier: Path, /) -> int:
    """Compare the records of two runs, number by number; exit code 1 where they differ.

    Two means are the same number if they differ by less than a fiftieth of the spread over draws,
    or by one in ten thousand. Seconds are not compared.

    Parameters
    ----------
    records
        Directory of records, e.g. temperance-reproduce/records.
    earlier
        Directory of the records of an earlier run, e.g. lab/experiments/paper.
    """
    rows, found = [], []
    for name in EXPERIMENTS:
        counts, differ = compare_records(stored(name, records), stored(name, earlier))
        found += differ
        rows.append([name, ", ".join(f"{n} {what}" for what, n in counts.items() if n)])
    output.table(("experiment", "numbers"), rows)
    for record in found:
        output.say(f"differs: {record.key} is {record.reproduced:.5g} in {records}")
    return int(bool(found))
