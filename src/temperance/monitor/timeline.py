"""From records to windows with alarms, in the order of their dates."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from temperance._core.checks import InputError, shown
from temperance.calibrate.constants import POLICY
from temperance.monitor.alarms import SEVERITIES, Limits, ring, unlike_whole
from temperance.monitor.change import Chart, Ranks, Tally
from temperance.monitor.state import Record
from temperance.monitor.window import Estimates, Window, read, with_labels


def moment(at: object) -> str:
    """Return a date, or a date and time, in ISO 8601."""
    try:
        given: Any = at
        text = given.isoformat() if hasattr(given, "isoformat") else str(given)
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        msg = f"at must be a date, or a date and time, such as '2026-11-16'. Got {shown(at)}."
        raise InputError(msg) from None
    only_date = len(text) <= len("2026-W47-1") and parsed.time() == dt.time()
    return parsed.date().isoformat() if only_date else parsed.isoformat(timespec="seconds")


def instant(at: str) -> dt.datetime:
    """Return a moment as a point in time; without a zone it is UTC."""
    parsed = dt.datetime.fromisoformat(at)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


def place_of(record: Record) -> tuple[dt.datetime, str]:
    """Return where a window stands among all."""
    return instant(record["at"]), str(record["id"])


class Timeline:
    """Windows one after the other, with what is remembered from one to the next.

    ``ranks`` are those of the source, and ``home`` is its accuracy.
    """

    def __init__(
        self, ranks: Ranks, home: float, limits: Limits, false_alarms_per: float, names: list[str]
    ) -> None:
        self._ranks, self._limits, self._names = ranks, limits, names
        self._per = false_alarms_per
        self._chart, self._home = Chart(ranks.own, ranks.variance), home
        self._segments: dict[str, tuple[Chart, float | None]] = {}
        self._rang: list[Window] = []  # the last windows, all of which have changed
        self.windows: list[Window] = []
        self.last: tuple[dt.datetime, str] | None = None

    def restart(self, accepted: Record) -> None:
        """Measure change from a window on, whose calibration was accepted."""
        self._chart = Chart(Tally.from_dict(accepted["change"]), self._ranks.variance)
        self._home = float(accepted["estimates"]["proposed"]["accuracy"][0])
        self._segments, self._rang = {}, []

    def step(self, record: Record, labels: list[Record]) -> None:
        """Add the next window."""
        facts, parts = record["calibration"], record["segments"]
        mix = zip(self._names, facts["details"]["predicted_mix"], strict=True)
        held = read(record["estimates"], facts["findings"], facts["details"]["label_next"])
        held["mix"] = {name: share for name, share in mix if share}
        for late in labels:
            held = with_labels(held, late)
        window = Window(
            **held,
            at=record["at"],
            id=record["id"],
            n_labelled=record["n_labelled"] + sum(late["n"] for late in labels),
            segments={
                key: Estimates(**read(part["estimates"], part["findings"], part["label_next"]))
                for key, part in parts.items()
            },
        )
        time = self._per * (2 if parts else 1)  # half of the false alarms are left to segments
        changes = self._chart.step(Tally.from_dict(record["change"]), time, POLICY.least_rows)
        before = self._rang if changes else []
        self._rang = [*before, window] if changes else []
        limits, names = self._limits, self._names
        alarms = [*ring(window, window.at, None, limits, changes, names, self._home, before)]
        for key, part in parts.items():
            estimates = window.segments[key]
            chart, home = self._segments.get(key, (Chart(Tally(), self._ranks.variance), None))
            tally = Tally.from_dict(part["change"])
            changes = chart.step(tally, time * len(parts), POLICY.least_rows)
            alarms += ring(estimates, window.at, key, limits, changes, names, home)
            if home is None and estimates.accuracy is not None:
                home = estimates.accuracy.value
            self._segments[key] = chart, home
        rank = {name: -place for place, name in enumerate(SEVERITIES)}
        loudest = sorted(unlike_whole(alarms), key=lambda a: (rank[a.severity], -(a.loss or 0.0)))
        self.windows.append(replace(window, alarms=tuple(loudest)))
        self.last = place_of(record)
