"""Week by week: `temperance.Monitor` over the lesions of the record, and what rings.

A week is a window; each lesion is one row, with the first picture of it, because rows have to be
independent. Change is measured from the pictures that the calibration in use was made from: the
pictures of its survey, or the validation rows for the calibration of a new installation. Diagnoses
enter the estimates in a silent study only: elsewhere, what the assistant said decides who is
diagnosed, and the diagnosed lesions are no fair sample.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import func, select

import temperance as tp
from temperance_skin_lesion import clinic
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import load_map
from temperance_skin_lesion.classes import CODES, NAMES
from temperance_skin_lesion.decision import FOREIGN
from temperance_skin_lesion.store import Case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Active, Assistant
    from temperance_skin_lesion.model import Source

__all__ = ["Ring", "Week", "by_week", "ringing", "watch"]

SHOWN = 12
"""Weeks that are looked at."""

WEEKS_PER_FALSE_ALARM = 260
"""Five years: as long as nothing changes, one alarm in that time is false."""

MOST_NAMES = 10
"""Sites, and cameras, that are watched one by one; the others count together."""

LEAST = 30
"""Lesions from which it is an alarm that nothing can be estimated of a week."""

TO_DIAGNOSE = 5
CHECKED_EVERY = 60.0
"""Seconds for which the worklist repeats what it knows of the alarms."""

Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Ring:
    """An alarm of the library: of the whole week, or of one site or camera."""

    severity: str
    kind: str
    what: str
    segment: str | None
    classes: tuple[str, ...]
    loss: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Week:
    """What is estimated of the lesions of a week, with 90 % intervals, and what rings."""

    week: str
    lesions: int
    labelled: int
    confidence: float | None
    accuracy: Interval | None
    gap: Interval | None
    state: str  # "few", "steady" or "alarm"
    alarms: tuple[Ring, ...]
    diagnose_next: tuple[int, ...]


class Seen(NamedTuple):
    """The first case of a lesion, and its diagnosis where one may count."""

    case: int
    created: str
    logits: list[float]
    site: str
    camera: str
    hidden: bool
    label: int


def by_week(
    assistant: Assistant, agreement: Agreement, *, hidden: bool | None = None
) -> list[Week]:
    """Return the newest weeks, newest first; with ``hidden``, of silent or of other cases only."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        newest = db.newest(session)
    key = ("weeks", hidden, active.activation, agreement.gap, newest, datetime.now(UTC).date())
    return assistant.remember(key, lambda: _by_week(assistant, active, agreement.gap, hidden))


def _by_week(assistant: Assistant, active: Active, gap: float, hidden: bool | None) -> list[Week]:
    with assistant.store.reading() as session:
        seen = _seen(session, active, hidden=hidden)
        survey = active.map_row.survey_id
        reference = None if survey is None else clinic.survey_rows(session, survey).logits
        diagnosed = set(session.scalars(select(Case.id).where(db.is_diagnosed())))
    found = watch(assistant.model.source, active, seen, reference, gap)
    return [
        replace(week, diagnose_next=tuple(n for n in week.diagnose_next if n not in diagnosed))
        for week in reversed(found)
    ]


def ringing(assistant: Assistant, agreement: Agreement) -> Week | None:
    """Return the newest week if it rings; looked up at most once in `CHECKED_EVERY` seconds.

    What comes into force is looked up at once.
    """

    def newest() -> Week | None:
        weeks = by_week(assistant, agreement)
        return weeks[0] if weeks and weeks[0].alarms else None

    with assistant.store.reading() as session:
        active = assistant.active(session).activation
    return assistant.remember(("ringing", active, time.monotonic() // CHECKED_EVERY), newest)


def watch(
    source: Source, active: Active, seen: Sequence[Seen], reference: Any, gap: float
) -> list[Week]:
    """Return the weeks of lesions, oldest first.

    ``reference`` are the logits that the calibration in use was made from, or None for the
    validation rows of ``source``.
    """
    weeks: dict[date, list[Seen]] = {}
    for one in seen:
        weeks.setdefault(_monday(one.created), []).append(one)
    monitor = tp.Monitor(
        source=(source.logits, source.labels),
        prior=clinic.stated_mix(active.map_row),
        classes=NAMES,
        limits=tp.Limits(ece=gap),
        false_alarms_per=WEEKS_PER_FALSE_ALARM,
    )
    used = load_map(active.map_row.artefact)
    if reference is not None and weeks:
        before = monitor.add(reference, at=min(weeks) - timedelta(days=1))
        if before.verdict == "refused":
            monitor.accept(used)
        else:  # change is measured from these rows on, and the map is the one on record
            calibration = replace(monitor.propose().calibration, map=used)
            monitor.accept(replace(monitor.propose(), calibration=calibration))
    else:
        monitor.accept(used)
    columns = {name: _names([getattr(one, name) for one in seen]) for name in ("site", "camera")}
    for monday, rows in sorted(weeks.items()):
        segments = {
            name: np.array([known.get(getattr(one, name), "others") for one in rows])
            for name, known in columns.items()
            if len(known) > 1
        }
        known = [one for one in rows if one.label >= 0]
        monitor.add(
            _logits(rows),
            at=monday,
            segments=segments or None,
            labelled=(_logits(known), [one.label for one in known]) if known else None,
        )
    shown = monitor.windows[len(monitor.windows) - len(weeks) :]
    return [_week(window, weeks[date.fromisoformat(window.at)]) for window in shown]


def _week(window: Any, rows: list[Seen]) -> Week:
    year, number, _ = date.fromisoformat(window.at).isocalendar()
    rings = tuple(
        Ring(a.severity, a.kind, a.what, a.segment, a.classes, a.loss, a.text)
        for a in window.alarms
        if a.kind != "refused" or window.rows >= LEAST  # of a few lesions, nothing is estimated
    )
    few = window.accuracy is None and not rings
    # What is worth asking about a hidden case would tell of what was said of it.
    asked = [rows[i] for i in window.label_next if not rows[i].hidden]
    return Week(
        week=f"{year}-W{number:02d}",
        lesions=window.rows,
        labelled=window.n_labelled,
        confidence=window.confidence,
        accuracy=_three(window.accuracy),
        gap=_three(window.ece),
        state="alarm" if rings else "few" if few else "steady",
        alarms=rings,
        diagnose_next=tuple(one.case for one in asked[:TO_DIAGNOSE]),
    )


def _seen(session: Session, active: Active, *, hidden: bool | None) -> list[Seen]:
    """Return the first case of each lesion of the weeks that are shown."""
    since = _monday(db.now()) - timedelta(weeks=SHOWN - 1)
    first = select(func.min(Case.id)).where(
        Case.model == active.map_row.model, Case.rule != FOREIGN
    )
    if hidden is not None:
        first = first.where(Case.hidden == hidden)
    columns = (Case.id, Case.created, Case.logits, Case.site, Case.camera, Case.hidden, Case.lesion)
    rows = session.execute(
        select(*columns)
        .where(Case.id.in_(first.group_by(Case.lesion)), Case.created >= since.isoformat())
        .order_by(Case.created, Case.id)
    )
    known = db.diagnosed_codes(session)
    labels = {name: CODES.index(code) for name, code in known.items() if code in CODES}
    return [
        Seen(*facts, hidden, labels.get(lesion, -1) if hidden else -1)
        for *facts, hidden, lesion in rows
    ]


def _names(values: Sequence[str]) -> dict[str, str]:
    """Return the names that are watched one by one."""
    frequent = [name for name, _ in Counter(values).most_common(MOST_NAMES)]
    return {name: name or "not stated" for name in frequent}


def _logits(rows: Sequence[Seen]) -> Any:
    return np.array([one.logits for one in rows], dtype=np.float64).reshape(-1, len(CODES))


def _monday(at: str) -> date:
    day = datetime.fromisoformat(at).date()
    return day - timedelta(days=day.weekday())


def _three(interval: Any) -> Interval | None:
    return None if interval is None else (interval.value, interval.low, interval.high)
