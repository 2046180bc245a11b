"""The page of a monitor: estimates, alarms, class mix and segments along a time axis."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from temperance.io.formats import replacing
from temperance.monitor.timeline import instant
from temperance.report import template
from temperance.report.charts import TOPS, Tick
from temperance.report.context import MAX_NAME_LENGTH
from temperance.report.texts import between, cut, percent

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from temperance._core.stats import Interval
    from temperance.monitor import Monitor, Window

CLASSES = 6  # drawn by name in the class mix, the others together
COLOURS = {"low": "no-evidence", "medium": "no-evidence", "high": "refused", "critical": "refused"}


class Mark(NamedTuple):
    """A point or a sign in a chart, in per cent of both axes from the top left."""

    x: float
    y: float
    look: str
    words: str


class Series(NamedTuple):
    """Estimates along the time axis, in per cent of both axes; a gap where nothing is known."""

    name: str
    last: str
    lines: list[str]
    bands: list[str]
    marks: list[Mark]
    limit: float | None
    y_ticks: list[Tick]


class Slab(NamedTuple):
    """The class mix of a window: left edge, width, and (top, height, class) of each part."""

    x: float
    width: float
    parts: list[tuple[float, float, int]]


def monitor_html(
    monitor: Monitor,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    model: str | None = None,
    date: str | None = None,
) -> str:
    """Return the page as one self-contained file, and write it when a path is given."""
    windows, limits = monitor.windows, monitor.limits
    places = _places(windows)
    segments = sorted({key for window in windows for key in window.segments})
    text = template("monitor.html.jinja").render(
        title=title or "Monitoring report",
        model=model,
        date=date or dt.datetime.now().astimezone().date().isoformat(),
        monitor=monitor,
        windows=windows,
        rang=next((window for window in reversed(windows) if window.alarms), None),
        colours=COLOURS,
        x_ticks=_dates(windows, places),
        charts=[
            _series("Accuracy", windows, places, None, "accuracy", limits.accuracy),
            _series("Calibration error", windows, places, None, "ece", limits.ece),
        ],
        segments=[_series(k, windows, places, k, "accuracy", limits.accuracy) for k in segments],
        mix=_mix(windows, places),
    )
    if path is not None:
        with replacing(path) as file:
            file.write(text.encode())
    return text


def _places(windows: Sequence[Window]) -> list[float]:
    """Return where each window stands on the time axis, in per cent."""
    times = [instant(window.at).timestamp() for window in windows]
    if not times or times[0] == times[-1]:
        return [50.0] * len(times)
    return [100 * (t - times[0]) / (times[-1] - times[0]) for t in times]


def _dates(windows: Sequence[Window], places: Sequence[float]) -> list[Tick]:
    if not windows:
        return []
    wanted = sorted({0, len(windows) - 1})
    middle = min(range(len(windows)), key=lambda i: abs(places[i] - 50))
    if all(abs(places[middle] - places[i]) > 20 for i in wanted):
        wanted = [wanted[0], middle, wanted[1]]
    return [Tick(places[i], windows[i].at[:10]) for i in wanted]


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
            rang.append(Mark(x, 0.0, COLOURS[loudest.severity], words))
    known = [point for run in runs for point in run]
    low, high = _axis([found for _, found, _ in known], what, limit)

    def point(x: float, value: float) -> str:
        return f"{x:.2f},{y(value):.2f}"

    def y(value: float) -> float:
        return 100 * (high - min(max(value, low), high)) / (high - low)

    lines = [" ".join(point(x, one.value) for x, one, _ in run) for run in runs if run]
    bands = [
        " ".join(
            [point(x, one.high) for x, one, _ in run]
            + [point(x, one.low) for x, one, _ in reversed(run)]
        )
        for run in runs
        if run
    ]
    dots = [Mark(x, y(one.value), "dot", f"{at}: {between(one)}") for x, one, at in known]
    ticks = [Tick(at, percent(low + at / 100 * (high - low))) for at in (0, 50, 100)]
    last = between(known[-1][1] if known else None)
    line = None if limit is None else y(limit)
    return Series(cut(name, MAX_NAME_LENGTH), last, lines, bands, dots + rang, line, ticks)


def _axis(known: list[Interval], what: str, limit: float | None) -> tuple[float, float]:
    """Return the ends of an axis that holds the intervals and the limit."""
    asked = [] if limit is None else [limit]
    if what == "ece":
        highest = max([one.high for one in known] + asked, default=1.0)
        return 0.0, next((top for top in TOPS if top >= highest - 1e-9), 1.0)
    return int(10 * min([one.low for one in known] + asked, default=0.0)) / 10, 1.0


def _mix(windows: Sequence[Window], places: Sequence[float]) -> dict[str, Any]:
    """Return the predicted class mix of each window, the most frequent classes by name."""
    total: dict[str, float] = {}
    for window in windows:
        for name, share in window.mix.items():
            total[name] = total.get(name, 0.0) + share
    names = sorted(total, key=lambda name: -total[name])[:CLASSES]
    width = min([b - a for a, b in pairwise(places) if b > a], default=100.0)
    width = max(0.9 * width / (1 + width / 100), 0.2)
    slabs: list[Slab] = []
    for x, window in zip(places, windows, strict=True):
        shares = [window.mix.get(name, 0.0) for name in names]
        shares.append(max(1 - sum(shares), 0.0))
        parts: list[tuple[float, float, int]] = []
        top = 0.0
        for k, share in enumerate(shares):
            parts.append((100 * top, 100 * share, k))
            top += share
        slabs.append(Slab(x * (100 - width) / 100, width, parts))
    named = [cut(name, MAX_NAME_LENGTH) for name in names]
    return {"names": named, "others": len(total) > CLASSES, "slabs": slabs}
