"""What rings: a limit that is broken, a change, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from temperance._core.checks import InputError, check_number
from temperance.monitor.window import LASTING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from temperance._core.stats import Interval
    from temperance.monitor.change import Change
    from temperance.monitor.window import Estimates

SEVERITIES = {"low": 0.0, "medium": 0.05, "high": 0.15, "critical": 0.3}
"""Estimated loss, as a share of the rows, from which an alarm is called so."""
MORE = {"confidence": "surer", "similarity": "more like its class"}


@dataclass(frozen=True)
class Limits:
    """What a model in use has to keep to.

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
        recall = {str(name): value for name, value in (self.recall or {}).items()}
        for name, value in recall.items():
            check_number(value, f"limits.recall[{name!r}]", low=0, high=1)
        object.__setattr__(self, "recall", recall)

    def check_classes(self, classes: list[str]) -> None:
        """Raise for a limit on the recall of a class that is not there."""
        for name in self.recall:
            if name not in classes:
                shown = ", ".join(classes[:5])
                msg = f"limits.recall must name classes of the model: {shown}, … Got {name!r}."
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


@dataclass(frozen=True)
class Place:
    """Where something rings: a window, or a segment of it."""

    at: str
    segment: str | None
    held: Estimates

    def alarm(self, kind: str, what: str, loss: float | None, text: str, **other: Any) -> Alarm:
        """Return an alarm at this place."""
        where = "" if self.segment is None else f" (segment {self.segment})"
        rows = self.held.label_next
        which = f"rows {', '.join(map(str, rows[:5]))}, …" if rows else "random rows"
        return Alarm(
            at=self.at,
            kind=kind,
            what=what,
            severity=_severity(loss, louder=other.get("louder", False)),
            loss=loss,
            segment=self.segment,
            classes=other.get("classes", ()),
            text=f"{self.at}{where}: {text}",
            advice=f"{other['advice']} Label {which} of this window, and add the labels.",
            label_next=rows,
        )


def _severity(loss: float | None, *, louder: bool) -> str:
    names = list(SEVERITIES)
    if loss is None:
        return "high"
    step = sum(loss >= least for least in list(SEVERITIES.values())[1:]) + louder
    return names[min(step, len(names) - 1)]


def limit_alarms(place: Place, limits: Limits, *, changed: bool) -> Iterator[Alarm]:
    """Yield the limits that are broken.

    As long as nothing changed, the whole interval of an estimate has to be beyond the limit. Once a
    change is certain, the estimate is enough.
    """
    held = place.held
    for what, found, limit in limits.of(held.accuracy, held.ece, held.recall):
        if found is None:
            continue
        largest = what == "calibration error"
        value, end = (found.value, found.low) if largest else (-found.value, -found.high)
        bound = limit if largest else -limit
        if end > bound or (changed and value > bound):
            side = "above" if largest else "below"
            sure = "" if end > bound else "probably "
            text = f"{what} is {_percent(found)}, {sure}{side} the limit of {limit:.1%}."
            advice = "Propose a new map." if largest else "Look at the rows."
            classes = (what.removeprefix("recall of "),) if what.startswith("recall") else ()
            loss = abs(found.value - limit)
            yield place.alarm("limit", what, loss, text, classes=classes, advice=advice)


def change_alarms(
    place: Place,
    changes: list[Change],
    names: list[str],
    home: float | None,
    before: Sequence[Estimates] = (),
) -> Iterator[Alarm]:
    """Yield one alarm for all that changed.

    ``home`` is the accuracy of the reference, ``before`` are the windows just before this one that
    have changed too. A change that lasts and grows is one step louder than its loss.
    """
    if not changes:
        return
    here = place.held.accuracy
    loss = None if here is None or home is None else max(home - here.value, 0.0)
    said = [_sentence(change, [names[k] for k in change.classes]) for change in changes]
    if loss is not None:
        said.append(f"Estimated loss of accuracy: {loss:.1%}.")
    growth = _growth(before, here)
    if growth is not None:
        said.append(growth)
    classes = tuple(dict.fromkeys(names[k] for change in changes for k in change.classes))
    yield place.alarm(
        "change",
        ", ".join(change.what for change in changes),
        loss,
        " ".join(said),
        classes=classes,
        advice="Find out what changed in the data before you change the model.",
        louder=growth is not None,
    )


def _growth(before: Sequence[Estimates], here: Interval | None) -> str | None:
    """Return what is said of a change that lasts and grows; None of any other change."""
    first = before[0].accuracy if len(before) + 1 >= LASTING else None
    if first is None or here is None or here.value >= first.value:
        return None
    return (
        f"{len(before) + 1} windows in a row have changed, and the estimated accuracy fell from "
        f"{first.value:.1%} to {here.value:.1%} meanwhile. Estimates follow a growing shift too "
        f"slowly: the true accuracy may be as low as {here.low:.1%}."
    )


def _sentence(change: Change, classes: list[str]) -> str:
    listed = ", ".join(classes)
    if change.what == "class mix":
        most = f", most of all {listed}" if classes else ""
        return f"{change.now:.1%} of the predictions moved to other classes{most}."
    way = "fell" if change.direction < 0 else "rose"
    most = f", most of all where {listed} is predicted" if classes else ""
    return (
        f"{change.what.capitalize()} {way}{most}: on average a row is {MORE[change.what]} than "
        f"{change.now:.0%} of the rows of the source, after {change.before:.0%} before."
    )


def refusals(place: Place) -> Iterator[Alarm]:
    """Yield a window of which nothing can be said; too few rows are no alarm."""
    fatal = [f for f in place.held.findings if f.severity == "refuse" and f.code != "TP301"]
    if place.held.verdict == "refused" and place.held.accuracy is None:
        for finding in fatal[:1]:
            text = f"nothing can be estimated. {finding.title}"
            yield place.alarm("refused", finding.code, None, text, advice=finding.advice)


def unlike_whole(alarms: list[Alarm]) -> list[Alarm]:
    """Return alarms without those of segments that only repeat an alarm of the whole window.

    A segment that loses five points more than the whole window is no repetition.
    """

    def subject(alarm: Alarm) -> tuple[str, str]:
        return alarm.kind, "" if alarm.kind == "change" else alarm.what

    whole = {subject(alarm): alarm.loss or 0.0 for alarm in alarms if alarm.segment is None}
    more = SEVERITIES["medium"]
    return [
        alarm
        for alarm in alarms
        if alarm.segment is None
        or subject(alarm) not in whole
        or (alarm.loss or 0.0) - whole[subject(alarm)] >= more
    ]


def _percent(found: Interval) -> str:
    return f"{found.value:.1%} ({found.low:.1%} to {found.high:.1%})"
