"""The commands below ``temperance monitor``: a model in use, window by window."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import App, Parameter

from temperance._core.arrays import is_numpy
from temperance._core.checks import InputError
from temperance.cli import inputs, output
from temperance.cli.options import EXAMPLES, FLAG, Classes, Json, Model, Out, Probabilities, Title
from temperance.cli.wording import in_options
from temperance.data.parquet import values_of
from temperance.io import formats
from temperance.monitor import Limits, Monitor, Window
from temperance.monitor.state import moment
from temperance.monitor.window import NEW_CALIBRATION
from temperance.report.texts import between

app = App(
    name="monitor",
    sort_key=5,
    help="Watch a model in use: estimates, alarms and proposals for each window of rows.",
    help_epilogue=EXAMPLES["monitor"],
)
WINDOWS_LISTED = 12  # windows and alarms that are listed
ALARM_STYLES = {"low": "cyan", "medium": "yellow", "high": "red", "critical": "bold red"}
State = Annotated[Path, Parameter(help="What 'temperance monitor start' has begun.")]


@app.command(sort_key=1)
def start(
    state: Path,
    /,
    *,
    source: Path,
    prior: str | None = None,
    min_accuracy: float | None = None,
    max_ece: float | None = None,
    min_recall: Annotated[list[str] | None, Parameter(negative="")] = None,
    false_alarms_per: float = 365,
    probabilities: Probabilities = False,
    classes: Classes = None,
) -> int:
    """Begin the state of a monitor: a new file, to which windows are added.

    Parameters
    ----------
    state
        The new file.
    source
        Labelled rows from before any shift; they are kept in the state.
    prior
        Class mix of the windows: a JSON file, numbers with commas, 'uniform' or 'source'.
    min_accuracy
        Limit: an estimate that is below for certain is an alarm.
    max_ece
        Limit of the calibration error.
    min_recall
        Limit of a class, as NAME=0.9; may be repeated.
    false_alarms_per
        Windows in which one false alarm is accepted, as long as nothing changes.
    """
    if state.exists():
        raise InputError(f"STATE must be a new file. {str(state)!a} is there: name another.")
    recall: dict[str, float] = {}
    for text in min_recall or ():
        name, _, value = text.rpartition("=")
        try:
            recall[name] = float(value)
        except ValueError:
            raise InputError(f"--min-recall must be like melanoma=0.9. Got {text!a}.") from None
    rows = inputs.read_labelled(source, classes, None, probabilities=probabilities)
    mix = inputs.read_prior(prior, rows, rows)
    limits = Limits(min_accuracy, max_ece, recall)
    pair = inputs.pair_of(rows)
    Monitor(pair, mix, rows.classes, limits, false_alarms_per).save(state)
    output.show_files({"state": state})
    return 0


@app.command(sort_key=2)
def add(
    state: State,
    window: Path | None = None,
    /,
    *,
    at: str | None = None,
    segment: Annotated[list[str] | None, Parameter(negative="")] = None,
    labelled: Path | None = None,
    dates: str | None = None,
    every: Literal["day", "week", "month"] = "day",
    probabilities: Probabilities = False,
    json: Json = False,
) -> int:
    """Add a window; exit 1 if it raises an alarm.

    Parameters
    ----------
    window
        Logits of the rows of the window. Without it, labelled rows of an earlier window are added.
    at
        Date of the window, such as 2026-11-16; now without it.
    segment
        Column of a .csv or .parquet file whose values get their own estimates; may be repeated.
    labelled
        Labelled rows of the window.
    dates
        Column of dates of a .csv or .parquet file, which is cut into windows by it.
    every
        Length of these windows.
    """
    held = _load(state)
    columns = [*(segment or ()), *([dates] if dates else ())]
    if columns and (window is None or not formats.is_table(window)):
        raise InputError("--segment and --dates need a window in a .csv or .parquet file.")
    if dates and (at or labelled):
        raise InputError("--dates gives each window its date: leave --at and --labelled out.")
    few = None
    if labelled is not None:
        few = inputs.pair_of(
            inputs.read_labelled(labelled, None, None, held.classes, probabilities=probabilities)
        )
    with output.working("estimating"):
        if window is None:
            added = [held.add(None, at=at, labelled=few)]
        else:
            keep = "columns" if columns else "logits"
            content = "probabilities" if probabilities else "logits"
            rows = inputs.read_table(window, otherwise=held.classes, keep=keep, content=content)
            inputs.check_same_names(held.classes, rows.classes, state.name)
            values = {name: _column(rows.columns, name) for name in columns}
            added: list[Window] = []
            for when, chosen in _windows(values[dates], every) if dates else [(at, slice(None))]:
                parts = {name: values[name][chosen] for name in segment or ()} or None
                added.append(held.add(rows.logits[chosen], when, parts, few))
    held.save(state)
    if json:
        output.show_json([asdict(one) for one in added] if dates else asdict(added[0]))
    else:
        _show(added, added)
    return int(any(one.alarms for one in added))


def _column(columns: dict[str, Any], name: str) -> Any:
    if name not in columns:
        listed = ", ".join(list(columns)[:8]) or "none"
        raise InputError(f"the window must have the column {name!a}. Others it has: {listed}.")
    held = columns[name]
    return np.array(held if is_numpy(held) else values_of(held, name), dtype=object)


def _windows(dates: Any, every: str) -> Iterator[tuple[str, Any]]:
    """Yield the first day of each window with its rows."""

    def first(day: dt.date) -> dt.date:
        back = {"day": 0, "week": day.weekday(), "month": day.day - 1}[every]
        return day - dt.timedelta(days=back)

    starts = np.array([str(first(_day(value, row))) for row, value in enumerate(dates)])
    for start_of in np.unique(starts):
        yield str(start_of), np.flatnonzero(starts == start_of)


def _day(value: object, row: int) -> dt.date:
    try:
        return dt.date.fromisoformat(moment(value)[:10])
    except InputError:
        msg = f"--dates must name a column of dates, such as 2026-11-16. Row {row} holds {value!a}."
        raise InputError(msg) from None


@app.command(sort_key=3)
def show(state: State, /, *, json: Json = False, prometheus: Annotated[bool, FLAG] = False) -> int:
    """Show the windows, and the alarms of the last one; exit 1 if it has any.

    Parameters
    ----------
    prometheus
        Print the last window in the text format of Prometheus, and exit 0.
    """
    held = _load(state)
    windows = held.windows
    if prometheus:
        print(held.prometheus(), end="")  # noqa: T201
        return 0
    if json:
        output.show_json({"windows": [asdict(w) for w in windows], "history": held.history})
    else:
        _show(windows[-WINDOWS_LISTED:], windows[-1:])
    return int(any(one.alarms for one in windows[-1:]))


@app.command(sort_key=4)
def report(state: State, /, *, out: Out, title: Title = None, model: Model = None) -> int:
    """Write the page with a time axis as one HTML file.

    Parameters
    ----------
    out
        Where to write the page.
    """
    inputs.check_outputs([("--out", out, inputs.PAGE)], state)
    _load(state).to_html(out, title=title, model=model)
    output.show_files({"report": out})
    return 0


@app.command(sort_key=5)
def propose(state: State, /, *, out: Path | None = None, json: Json = False) -> int:
    """Propose the calibration of the last window; exit 1 if it is not within the limits.

    Parameters
    ----------
    out
        Where to save the proposed calibration (JSON).
    """
    inputs.check_outputs([("--out", out, inputs.ARTEFACT)], state)
    proposal = _load(state).propose()
    if out is not None:
        proposal.calibration.save(out)
    if json:
        facts = {"at": proposal.at, "within_limits": proposal.within_limits}
        output.show_json(facts | {"compare": proposal.compare})
    else:
        pairs = ((name, proposal.compare[name]) for name in ("accuracy", "ece"))
        rows = [(name, between(pair["in_use"]), between(pair["proposed"])) for name, pair in pairs]
        output.table((f"window of {proposal.at}", "in use", "proposed"), rows)
        output.say(f"Expected fall of the Brier score: {proposal.compare['gain']:.3g}.")
        output.say(f"Within the limits: {'yes' if proposal.within_limits else 'no'}.")
        output.show_files({"calibration": out})
    return int(not proposal.within_limits)


@app.command(sort_key=6)
def accept(state: State, /, *, outside_limits: Annotated[bool, FLAG] = False) -> int:
    """Take the proposed map into use; exit 1, and change nothing, if it is not within the limits.

    Parameters
    ----------
    outside_limits
        Accept the map all the same.
    """
    held = _load(state)
    proposal = held.propose()
    if not (proposal.within_limits or outside_limits):
        output.note("the proposed map is not within the limits; nothing was changed.")
        return 1
    held.accept(proposal)
    held.save(state)
    output.say(f"The map proposed for {proposal.at} is in use.")
    return 0


@app.command(sort_key=7)
def rollback(state: State, /) -> int:
    """Take the map that was in use before into use again."""
    held = _load(state)
    held.rollback()
    held.save(state)
    output.say("The map that was in use before is in use again.")
    return 0


@app.command(sort_key=8)
def merge(state: State, other: Path, /) -> int:
    """Take over the windows of another machine whose state began with the same file.

    Parameters
    ----------
    other
        The state that is read.
    """
    held = _load(state)
    before = len(held.windows)
    held.merge(_load(other))
    held.save(state)
    output.say(f"{len(held.windows) - before} windows were taken over.")
    return 0


def _load(path: Path) -> Monitor:

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        held = Monitor.load(path)
    for one in said:
        output.note(str(one.message))
    return held


def _show(windows: list[Window], ringing: list[Window]) -> None:
    """Print windows as a table, and the alarms of some of them."""
    header = ("window", "rows", "accuracy", "calibration error", "new calibration", "alarm")
    rows = [
        (
            w.at,
            f"{w.rows:,}",
            between(w.accuracy),
            between(w.ece),
            NEW_CALIBRATION[w.verdict],
            w.severity or "",
        )
        for w in windows
    ]
    output.table(header, rows)
    alarms = [alarm for window in ringing for alarm in window.alarms]
    for alarm in alarms[:WINDOWS_LISTED]:
        output.say()
        output.say(f"{alarm.severity} alarm, {alarm.text}", ALARM_STYLES[alarm.severity])
        output.say(in_options(alarm.advice), indent=6)
    if len(alarms) > WINDOWS_LISTED:
        output.say(f"{len(alarms) - WINDOWS_LISTED} more alarms: see --json, or the report.")
