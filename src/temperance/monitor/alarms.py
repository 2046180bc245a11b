"""Alarms: a limit that is broken, a change, or a refusal; and the windows in order of date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from temperance._core.checks import InputError, check_number, shown
from temperance._core.stats import Interval
from temperance.calibrate.constants import POLICY
from temperance.monitor.change import Change, Chart, Ranks, Tally
from temperance.monitor.state import Record, place_of
from temperance.monitor.window import Estimates, Window, read, with_labels

SEVERITIES = {"low": 0.0, "medium": 0.05, "high": 0.15, "critical": 0.3}
"""Estimated loss, as a share of the rows, from which an alarm is called so."""
LASTING = 3  # windows in a row that have changed, from which a change is no passing one
MEANS = {
    "confidence": ("Confidence", "surer"),
    "similarity": ("Similarity to the source", "more like its class"),
}


@dataclass(frozen=True)
class Limits:
    """Limits of accuracy, calibration error and recall for a model in use.

    Parameters
    ----------
    accuracy : float, optional
        Smallest share of right predictions.
    ece : float, optional
        Largest calibration error.
    recall : dict of float, optional
        Smallest recall by class.
    """

    accuracy: float | None = None
    ece: float | None = None
    recall: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        for name in ("accuracy", "ece"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), f"limits.{name}", low=0, high=1)
        given: Any = self.recall or {}
        if not isinstance(given, dict):
            msg = "limits.recall must be a dict by class, such as {'melanoma': 0.9}. Got "
            raise InputError(f"{msg}{shown(given)} instead.")
        recall = {str(name): value for name, value in given.items()}
        for name, value in recall.items():
            check_number(value, f"limits.recall[{shown(name)}]", low=0, high=1)
        object.__setattr__(self, "recall", recall)

    def check_classes(self, classes: list[str]) -> None:
        """Raise for a limit on the recall of a class that is not there."""
        for name in self.recall:
            if name not in classes:
                known = ", ".join([*classes[:5], *(["…"] if len(classes) > 5 else [])])
                msg = f"limits.recall must name classes of the model: {known}. Got {shown(name)}."
                raise InputError(msg)

    def of(self, accuracy: Any, ece: Any, recall: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Yield the name, the estimate and the limit of each limit."""
        if self.accuracy is not None:
            yield "accuracy", accuracy, self.accuracy
        if self.ece is not None:
            yield "calibration error", ece, self.ece
        for name, limit in self.recall.items():
            yield f"recall of {name}", recall.get(name), limit


@dataclass(frozen=True)
class Alarm:
    """Something to look at.

    Attributes
    ----------
    at : str
        Date of the window.
    kind : {"limit", "change", "refused"}
    what : str
        The metric, or what changed: "accuracy", "recall of ash", "confidence, class mix" …
    severity : {"low", "medium", "high", "critical"}
    loss : float or None
        Estimated loss: of accuracy against the reference where something changed, else the distance
        from the limit. None where nothing can be estimated.
    segment : str or None
        ``"column=value"``; None for the whole window.
    classes : tuple of str
        Where the change is largest.
    text, advice : str
        A few sentences each.
    label_next : tuple of int
        Rows of the window to label, best first.
    """

    at: str
    kind: str
    what: str
    severity: str
    loss: float | None
    segment: str | None
    classes: tuple[str, ...]
    text: str
    advice: str
    label_next: tuple[int, ...]

    def __str__(self) -> str:
        """Return the severity and the sentence."""
        return f"{self.severity}: {self.text}"


def ring(
    held: Estimates,
    at: str,
    segment: str | None,
    limits: Limits,
    changes: Sequence[Change],
    names: Sequence[str],
    home: float | None,
    before: Sequence[Estimates] = (),
) -> Iterator[Alarm]:
    """Yield the alarms of a window, or of one of its segments.

    ``home`` is the accuracy of the reference, ``before`` are the windows just before this one that
    have changed too. As long as nothing changed, the whole interval of an estimate has to be beyond
    a limit; once a change is certain, the estimate is enough. Too few rows are no alarm.
    """
    rows = held.label_next
    which = f"rows {', '.join(map(str, rows[:5]))}, …" if rows else "random rows"

    def alarm(
        kind: str,
        what: str,
        loss: float | None,
        text: str,
        advice: str,
        classes: Iterable[str] = (),
        louder: bool = False,
    ) -> Alarm:
        where = at if segment is None else f"{at} (segment {segment})"
        advice = f"{advice} Label {which} of this window, and add the labels."
        severity = _severity(loss, louder)
        said = f"{where}: {text}"
        return Alarm(at, kind, what, severity, loss, segment, tuple(classes), said, advice, rows)

    fatal = [f for f in held.findings if f.severity == "refuse" and f.code != "TP301"]
    if fatal and segment is None and held.verdict == "refused" and held.accuracy is None:
        text = f"nothing can be estimated. {fatal[0].title}"
        yield alarm("refused", fatal[0].code, None, text, fatal[0].advice)
    for what, found, limit in limits.of(held.accuracy, held.ece, held.recall):
        if found is None:
            continue
        largest = what == "calibration error"
        sure = found.low > limit if largest else found.high < limit
        beyond = found.value > limit if largest else found.value < limit
        if sure or (changes and beyond):
            side = f"{'' if sure else 'probably '}{'above' if largest else 'below'}"
            here = f"{found.value:.1%} ({found.low:.1%} to {found.high:.1%})"
            text = f"{what} is {here}, {side} the limit of {limit:.1%}."
            advice = "Confirm the estimate before you act."
            advice = "Look at a proposed calibration." if largest else advice
            named = [what.removeprefix("recall of ")] if what.startswith("recall") else []
            yield alarm("limit", what, abs(found.value - limit), text, advice, named)
    if changes:
        here = held.accuracy
        loss = None if here is None or home is None else max(home - here.value, 0.0)
        growth = _growth(before, here)
        said = [growth] if growth else []
        said += [_sentence(change, names) for change in changes]
        if here is not None and home is not None:
            said.insert(0, f"estimated accuracy {here.value:.1%}, {home:.1%} before.")
        classes = dict.fromkeys(names[k] for change in changes for k in change.classes)
        advice = "Find out what changed in the data before you change the model."
        what = ", ".join(change.what for change in changes)
        yield alarm("change", what, loss, " ".join(said), advice, classes, bool(growth))


def _severity(loss: float | None, louder: bool) -> str:
    """Return the name of a loss; a change that lasts and grows is one step louder than its loss."""
    if loss is None:
        return "high"
    step = sum(loss >= least for least in SEVERITIES.values()) - 1 + louder
    return list(SEVERITIES)[min(step, len(SEVERITIES) - 1)]


def _growth(before: Sequence[Estimates], here: Interval | None) -> str | None:
    """Return what is said of a change that lasts and grows; None of any other change."""
    first = before[0].accuracy if len(before) + 1 >= LASTING else None
    if first is None or here is None or here.value >= first.value:
        return None
    return (
        f"{len(before) + 1} windows in a row have changed, and the estimated accuracy fell from "
        f"{first.value:.1%} to {here.value:.1%} meanwhile. Estimates follow a growing shift "
        f"slowly: the true accuracy may be as low as {here.low:.1%}."
    )


def _sentence(change: Change, names: Sequence[str]) -> str:
    listed = ", ".join(names[k] for k in change.classes)
    if change.what == "class mix":
        most = f", most of all {listed}" if listed else ""
        return f"{change.now:.1%} of the predictions moved to other classes{most}."
    name, more = MEANS[change.what]
    way = "fell" if change.direction < 0 else "rose"
    most = f", most of all in rows predicted as {listed}" if listed else ""
    return (
        f"{name} {way}{most}: the average row is {more} than {change.now:.0%} of the source rows, "
        f"{change.before:.0%} before."
    )


def unlike_whole(alarms: list[Alarm]) -> list[Alarm]:
    """Return alarms without those of segments that only repeat an alarm of the whole window.

    A segment that loses five points more than the whole window is no repetition.
    """

    def subject(alarm: Alarm) -> tuple[str, str]:
        return alarm.kind, "" if alarm.kind == "change" else alarm.what

    whole = {subject(alarm): alarm.loss or 0.0 for alarm in alarms if alarm.segment is None}
    more = [(alarm.loss or 0.0) - whole.get(subject(alarm), -1.0) for alarm in alarms]
    least = SEVERITIES["medium"]
    return [a for a, lost in zip(alarms, more, strict=True) if a.segment is None or lost >= least]


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
