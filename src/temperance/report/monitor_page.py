"""The page of a monitor: estimates, alarms, class mix and segments along a time axis."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from temperance._core.stats import Interval
from temperance.io.atomic import write_bytes
from temperance.monitor import Alarm, Monitor, Window
from temperance.monitor.state import instant
from temperance.report import check_words, plot, template
from temperance.report.context import MAX_NAME_LENGTH, TOPS
from temperance.report.plot import Axis, Mark, shares
from temperance.report.texts import between, cut

if TYPE_CHECKING:
    from markupsafe import Markup

SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z0-9])")
NAMED = 6  # drawn by name in the class mix, the others together
LOOKS = {"low": "no-evidence", "medium": "no-evidence", "high": "refused", "critical": "refused"}


class Series(NamedTuple):
    """Estimates along the time axis; a gap where nothing is known."""

    name: str
    last: str
    plot: Markup


def monitor_html(
    monitor: Monitor,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    model: str | None = None,
    date: str | None = None,
) -> str:
    """Return the page as one self-contained file, and write it when a path is given."""
    check_words(title=title, model=model, date=date)
    windows, limits = monitor.windows, monitor.limits
    places = _places(windows)
    segments = sorted({key for window in windows for key in window.segments})
    whole = [("Accuracy", "accuracy", limits.accuracy), ("Calibration error", "ece", limits.ece)]
    text = template("monitor.html.jinja").render(
        title=title or "Monitoring report",
        model=model,
        date=date or dt.datetime.now().astimezone().date().isoformat(),
        monitor=monitor,
        windows=windows,
        rang=next((window for window in reversed(windows) if window.alarms), None),
        colours=LOOKS,
        sentences=_sentences,
        summary=_summary(windows),
        charts=[_series(n, windows, places, None, w, c) for n, w, c in whole if windows],
        segments=[_series(k, windows, places, k, "accuracy", limits.accuracy) for k in segments],
        mix=_mix(windows, places),
    )
    if path is not None:
        write_bytes(path, text.encode())
    return text


def _sentences(alarm: Alarm) -> list[str]:
    """Return the sentences of an alarm; a broken limit has one sentence."""
    return [alarm.text] if alarm.kind == "limit" else SENTENCE_END.split(alarm.text)


def _summary(windows: Sequence[Window]) -> dict[str, str]:
    """Return what to know first of the alarms of the last window: since when, where, what to do."""
    alarms = windows[-1].alarms if windows else ()
    if not alarms:
        return {}
    last = len(windows) - 1
    first = next((i for i in range(last, -1, -1) if not windows[i].alarms), -1) + 1
    rang = dict.fromkeys(alarm.segment for alarm in alarms if alarm.segment)
    known = {key: one.accuracy for key, one in windows[-1].segments.items() if one.accuracy}
    lowest = min(known, key=lambda key: known[key].value, default=None)
    classes = dict.fromkeys(name for alarm in alarms for name in alarm.classes)
    said = {
        "Since": f"{windows[first].at}, {len(windows) - first} windows"
        if windows[first:-1]
        else "",
        "Segments": ", ".join(rang)
        or (f"lowest accuracy: {lowest}, {between(known[lowest])}" if lowest else ""),
        "Classes": ", ".join(classes),
        "What to do": alarms[0].advice,
    }
    return {name: words for name, words in said.items() if words}


def _places(windows: Sequence[Window]) -> list[float]:
    """Return where each window stands on the time axis, in per cent."""
    times = [instant(window.at).timestamp() for window in windows]
    if not times or times[0] == times[-1]:
        return [50.0] * len(times)
    return [100 * (t - times[0]) / (times[-1] - times[0]) for t in times]


def _dates(windows: Sequence[Window], places: Sequence[float]) -> Axis:
    """Return the time axis, with the first and the last date, and one between if it fits."""
    wanted = sorted({0, len(windows) - 1})
    middle = min(range(len(windows)), key=lambda i: abs(places[i] - 50))
    if all(abs(places[middle] - places[i]) > 20 for i in wanted):
        wanted = [wanted[0], middle, wanted[1]]
    return Axis(0, 100, [(places[i], windows[i].at[:10]) for i in wanted], inside=True)


def _series(
    name: str,
    windows: Sequence[Window],
    places: Sequence[float],
    segment: str | None,
    what: str,
    limit: float | None,
) -> Series:
    """Return one metric of the windows, or of one of their segments."""
    runs: list[list[tuple[float, Interval, str]]] = [[]]  # a new one after each gap
    rang: list[Mark] = []
    for x, window in zip(places, windows, strict=True):
        held = window if segment is None else window.segments.get(segment)
        found: Interval | None = None if held is None else getattr(held, what)
        if found is None:
            runs.append([])
        else:
            runs[-1].append((x, found, window.at))
        loudest = next((alarm for alarm in window.alarms if alarm.segment == segment), None)
        if loudest is not None:
            words = f"{window.at}: {loudest.severity} alarm"
            rang.append(plot.sign(x, LOOKS[loudest.severity], words))
    known = [point for run in runs for point in run]
    low, high = _axis([found for _, found, _ in known], what, limit)
    bands: list[Mark] = []
    lines: list[Mark] = []
    for run in filter(None, runs):
        x = [place for place, _, _ in run]
        value, lower, upper = ([one[i] for _, one, _ in run] for i in range(3))
        bands.append(plot.shaded(x, lower, upper, "risk-band"))
        lines.append(plot.polyline(x, value, "curve"))
    level = [] if limit is None else [plot.straight((0, limit), (100, limit), "limit")]
    dots = [plot.dot((x, one.value), "dot", f"{at}: {between(one)}") for x, one, at in known]
    name = cut(name, MAX_NAME_LENGTH)
    label = f"{name}: {what} of each window, 90% band; the table has the numbers"
    last = between(known[-1][1] if known else None)
    if known and known[-1][2] != windows[-1].at:
        last += f" on {known[-1][2]}"
    up = shares(low=low, high=high, parts=2)
    marks = [*bands, *level, *lines, *dots, *rang]
    return Series(name, last, plot.plot(_dates(windows, places), up, marks, label))


def _axis(known: list[Interval], what: str, limit: float | None) -> tuple[float, float]:
    """Return the ends of an axis that holds the intervals and the limit."""
    asked = [] if limit is None else [limit]
    if what == "ece":
        highest = max([one.high for one in known] + asked, default=1.0)
        return 0.0, next((top for top in TOPS if top >= highest - 1e-9), 1.0)
    return int(5 * min([one.low for one in known] + asked, default=0.0)) / 5, 1.0


def _mix(windows: Sequence[Window], places: Sequence[float]) -> dict[str, Any]:
    """Return the predicted class mix of each window, the most frequent classes by name."""
    total: dict[str, float] = {}
    for window in windows:
        for name, share in window.mix.items():
            total[name] = total.get(name, 0.0) + share
    names = sorted(total, key=lambda name: -total[name])[:NAMED]
    width = min([b - a for a, b in pairwise(places) if b > a], default=100.0)
    width = max(0.9 * width / (1 + width / 100), 0.2)
    if not windows:
        return {"names": [], "others": False, "plot": None}
    boxes: list[Mark] = []
    for x, window in zip(places, windows, strict=True):
        shown = [window.mix.get(name, 0.0) for name in names]
        rest = max(1 - sum(shown), 0.0)
        left, top = x * (100 - width) / 100, 1.0
        for k, share in enumerate([*shown, rest]):
            look = f"k{k if k < len(names) else NAMED}"
            if share > 0:
                boxes.append(plot.rectangle((left, top - share), (left + width, top), look))
            top -= share
    label = "Share of the predictions by class in each window"
    drawn = plot.plot(_dates(windows, places), shares(parts=2), boxes, label)
    named = [cut(name, MAX_NAME_LENGTH) for name in names]
    return {"names": named, "others": len(total) > NAMED, "plot": drawn}
