"""The commands below ``temperance monitor``: a model in use, window by window."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from temperance.cli.examples import EXAMPLES
from temperance.cli.options import Classes, Json, OptionalOut, Out, Probabilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temperance.monitor import Alarm, Monitor, Window

app = App(
    name="monitor",
    sort_key=5,
    help="Watch a model in use: estimates, alarms and proposals for each window of rows.",
    help_epilogue=EXAMPLES["monitor"],
)
SHOWN = 12  # windows that are listed
MARKS = {"low": "cyan", "medium": "yellow", "high": "red", "critical": "bold red"}


@app.command(sort_key=1)
def start(
    state: Path,
    /,
    *,
    source: Path,
    prior: str | None = None,
    min_accuracy: Annotated[float | None, Parameter(name="--min-accuracy")] = None,
    max_ece: Annotated[float | None, Parameter(name="--max-ece")] = None,
    min_recall: Annotated[list[str] | None, Parameter(name="--min-recall")] = None,
    false_alarms_per: Annotated[float, Parameter(name="--false-alarms-per")] = 365,
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
    from temperance import InputError, Limits, Monitor
    from temperance.cli import inputs, output

    if state.exists():
        raise InputError(f"STATE must be a new file. {str(state)!a} is there: name another.")
    recall: dict[str, float] = {}
    for text in min_recall or ():
        name, _, value = text.rpartition("=")
        try:
            recall[name] = float(value)
        except ValueError:
            raise InputError(f"--min-recall must be like melanoma=0.9. Got {text!a}.") from None
    content = "probabilities" if probabilities else "logits"
    rows = inputs.read_labelled(source, classes, None, content=content)
    monitor = Monitor(
        source=inputs.pair_of(rows),
        prior=inputs.read_prior(prior, rows, rows, rows.classes),
        classes=rows.classes,
        limits=Limits(min_accuracy, max_ece, recall),
        false_alarms_per=false_alarms_per,
    )
    monitor.save(state)
    output.show_files({"state": state})
    return 0


@app.command(sort_key=2)
def add(
    state: Path,
    window: Path | None = None,
    /,
    *,
    at: str | None = None,
    segment: list[str] | None = None,
    labelled: Path | None = None,
    dates: str | None = None,
    every: Literal["day", "week", "month"] = "day",
    probabilities: Probabilities = False,
    json: Json = False,
) -> int:
    """Add a window; exit 1 if it rings.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
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
    from temperance import InputError
    from temperance.cli import inputs, output
    from temperance.io import formats

    held = _load(state)
    content = "probabilities" if probabilities else "logits"
    columns = [*(segment or ()), *([dates] if dates else ())]
    few = None
    if labelled is not None:
        few = inputs.read_labelled(labelled, None, None, held.classes, content)
    if columns and (window is None or not formats.is_table(window)):
        raise InputError("--segment and --dates need a window in a .csv or .parquet file.")
    if dates and (at or labelled):
        raise InputError("--dates gives each window its date: leave --at and --labelled out.")
    added: list[Window] = []
    with output.working("estimating"):
        if window is None:
            added.append(held.add(None, at=at, labelled=inputs.pair_of(few)))
        else:
            keep = "columns" if columns else "logits"
            rows = inputs.read_table(window, otherwise=held.classes, keep=keep, content=content)
            inputs.check_same_names(held.classes, rows.classes, state.name)
            values = {name: _column(rows.columns, name) for name in columns}
            parts = {name: values[name] for name in segment or ()}
            for when, chosen in _windows(values[dates], every) if dates else [(at, slice(None))]:
                some = {name: column[chosen] for name, column in parts.items()} or None
                z = rows.logits[chosen]
                added.append(held.add(z, at=when, segments=some, labelled=inputs.pair_of(few)))
    held.save(state)
    if json:
        output.show_json([asdict(one) for one in added] if dates else asdict(added[0]))
    else:
        _show_windows(added)
        for one in added:
            _show_alarms(one.alarms)
    return int(any(one.alarms for one in added))


def _column(columns: dict[str, Any], name: str) -> Any:
    import numpy as np

    from temperance import InputError

    if name not in columns:
        listed = ", ".join(list(columns)[:8]) or "none"
        raise InputError(
            f"the window must have the column {name!a}. Beside logits it has {listed}."
        )
    held = columns[name]
    return np.array(held.to_pylist() if hasattr(held, "to_pylist") else list(held), dtype=object)


def _windows(dates: Any, every: str) -> Iterator[tuple[str, Any]]:
    """Yield the first day of each window with its rows."""
    import datetime as dt

    import numpy as np

    from temperance.monitor.timeline import moment

    days = [dt.date.fromisoformat(moment(day)[:10]) for day in dates]
    first = {
        "day": lambda day: day,
        "week": lambda day: day - dt.timedelta(days=day.weekday()),
        "month": lambda day: day.replace(day=1),
    }[every]
    starts = np.array([first(day).isoformat() for day in days])
    for start_of in np.unique(starts):
        yield str(start_of), np.flatnonzero(starts == start_of)


@app.command(sort_key=3)
def show(
    state: Path,
    /,
    *,
    json: Json = False,
    prometheus: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Show the windows, and the alarms of the last one; exit 1 if it rang.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
    prometheus
        Print the last window in the text format of Prometheus, and exit 0.
    """
    from temperance.cli import output

    held = _load(state)
    if prometheus:
        print(held.prometheus(), end="")  # noqa: T201
        return 0
    windows = held.windows
    if json:
        output.show_json({"windows": [asdict(w) for w in windows], "history": held.history})
    else:
        _show_windows(windows[-SHOWN:])
        _show_alarms(windows[-1].alarms if windows else ())
    return int(bool(windows and windows[-1].alarms))


@app.command(sort_key=4)
def report(state: Path, /, *, out: Out, title: str | None = None, model: str | None = None) -> int:
    """Write the page with a time axis as one HTML file.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
    out
        Where to write the page.
    title
        Title of the page.
    model
        Name of the model, as the readers of the page know it.
    """
    from temperance.cli import inputs, output

    inputs.check_outputs([inputs.Output("--out", out, inputs.PAGE)], state)
    _load(state).to_html(out, title=title, model=model)
    output.show_files({"report": out})
    return 0


@app.command(sort_key=5)
def propose(state: Path, /, *, out: OptionalOut = None, json: Json = False) -> int:
    """Propose the calibration of the last window; exit 1 if it is not within the limits.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
    out
        Where to save the proposed calibration (JSON).
    """
    from temperance.cli import inputs, output
    from temperance.report.texts import between

    inputs.check_outputs([inputs.Output("--out", out, inputs.ARTEFACT)], state)
    proposal = _load(state).propose()
    if out is not None:
        proposal.calibration.save(out)
    if json:
        facts = {"at": proposal.at, "within_limits": proposal.within_limits}
        output.show_json(facts | {"compare": proposal.compare})
    else:
        rows = [
            (name, between(pair["in_use"]), between(pair["proposed"]))
            for name, pair in proposal.compare.items()
            if name in {"accuracy", "ece"}
        ]
        output.table((f"window of {proposal.at}", "map in use", "proposed"), rows)
        gain = proposal.compare["gain"]
        output.say(f"Expected fall of the Brier score: {gain:.3g}.")
        output.say(f"Within the limits: {'yes' if proposal.within_limits else 'no'}.")
        output.show_files({"calibration": out})
    return int(not proposal.within_limits)


@app.command(sort_key=6)
def accept(
    state: Path,
    /,
    *,
    outside_limits: Annotated[
        bool, Parameter(name="--outside-limits", negative="", show_default=False)
    ] = False,
) -> int:
    """Take the proposed map into use; exit 1, and change nothing, if it is not within the limits.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
    outside_limits
        Accept the map all the same.
    """
    from temperance.cli import output

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
def rollback(state: Path, /) -> int:
    """Take the map that was in use before into use again.

    Parameters
    ----------
    state
        What 'temperance monitor start' has begun.
    """
    from temperance.cli import output

    held = _load(state)
    held.rollback()
    held.save(state)
    output.say("The map that was in use before is in use again.")
    return 0


@app.command(sort_key=8)
def merge(state: Path, other: Path, /) -> int:
    """Take over the windows of another machine whose state began with the same file.

    Parameters
    ----------
    state
        The state that is added to.
    other
        The state that is read.
    """
    from temperance.cli import output

    held = _load(state)
    before = len(held.windows)
    held.merge(_load(other))
    held.save(state)
    output.say(f"{len(held.windows) - before} windows were taken over.")
    return 0


def _load(path: Path) -> Monitor:
    from temperance import Monitor
    from temperance.cli import output

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        held = Monitor.load(path)
    for one in said:
        output.note(str(one.message))
    return held


def _show_windows(windows: list[Window]) -> None:
    from temperance.cli import output
    from temperance.report.texts import between

    rows = [
        (w.at, f"{w.rows:,}", between(w.accuracy), between(w.ece), w.verdict, _loudest(w))
        for w in windows
    ]
    output.table(("window", "rows", "accuracy", "calibration error", "verdict", "alarm"), rows)


def _loudest(window: Window) -> str:
    return window.alarms[0].severity if window.alarms else ""


def _show_alarms(alarms: tuple[Alarm, ...]) -> None:
    from temperance.cli import output
    from temperance.cli.wording import in_options

    for alarm in alarms:
        output.say()
        output.say(f"{alarm.severity} alarm, {alarm.text}", MARKS[alarm.severity])
        output.say(in_options(alarm.advice), indent=6)
