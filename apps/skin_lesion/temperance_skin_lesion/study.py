"""The report of a silent study: what the assistant would have done, measured by diagnoses.

Cases were judged and hidden; diagnoses came later and were not influenced. Each lesion counts once,
with the first thing that was said of it, and a melanoma counts as missed if any of its pictures was
answered as something else. Intervals are exact for shares of lesions (Clopper and Pearson, 1934;
90 %). Beside each measured share stands what the calibrated probabilities of all judged lesions led
to expect before any diagnosis was known. Without a silent study, the report is of all cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import func, select

from temperance_skin_lesion import monitor
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CODES, MALIGNANT, MELANOMA, OTHER
from temperance_skin_lesion.decision import FOREIGN
from temperance_skin_lesion.store import Case
from temperance_skin_lesion.thresholds import share_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.orm import Session

__all__ = ["Group", "Shares", "Study", "report"]

LABELS = (10, 30, 100, 300, 1000)
"""Numbers of diagnosed lesions after which the measured shares are shown."""

Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of lesions, each with its interval; None where there is no lesion to count."""

    sensitivity: Interval | None
    referral: Interval | None
    malignant_referral: Interval | None
    accuracy: Interval | None


@dataclass(frozen=True, slots=True)
class Group:
    """Lesions of one site, of one camera or of all."""

    name: str
    judged: int
    diagnosed: int
    melanomas: int
    expected: dict[str, float | None]
    measured: Shares


@dataclass(frozen=True, slots=True)
class Study:
    """The whole report."""

    silent: bool
    other: int
    everything: Group
    sites: list[Group]
    cameras: list[Group]
    steps: list[tuple[int, Shares]] = field(default_factory=list)
    measured: monitor.Measured | None = None


@dataclass(frozen=True, slots=True)
class Lesion:
    """What was said of a lesion, and its diagnosis; -1 is not known or another disease."""

    first: Case
    cases: Sequence[Case]
    label: int

    @property
    def referred(self) -> bool:
        """Whether any of its pictures went to a specialist."""
        return any(case.decision == "refer" for case in self.cases)

    @property
    def missed(self) -> bool:
        """Whether any of its pictures was answered as something else than melanoma."""
        return any(c.decision == "answer" and c.predicted != MELANOMA for c in self.cases)


def report(session: Session) -> Study | None:
    """Return the report, or None before anything was judged."""
    silent = session.scalar(select(Case.id).where(Case.hidden).limit(1)) is not None
    known = db.newest_diagnoses(session)
    wanted = select(Case).where(Case.rule != FOREIGN, Case.hidden == silent).order_by(Case.id)
    by_lesion: dict[str, list[Case]] = {}
    for case in session.scalars(wanted):
        by_lesion.setdefault(case.lesion, []).append(case)
    if not by_lesion:
        return None
    lesions = [
        Lesion(cases[0], cases, _label(known[name].code) if name in known else -1)
        for name, cases in by_lesion.items()
    ]
    firsts = select(db.DiagnosisRow.lesion, func.min(db.DiagnosisRow.id).label("first"))
    rows = session.execute(firsts.group_by(db.DiagnosisRow.lesion))
    order = {row.lesion: row.first for row in rows}
    diagnosed = sorted(
        (lesion for lesion in lesions if lesion.label >= 0), key=lambda x: order[x.first.lesion]
    )
    return Study(
        silent=silent,
        other=sum(1 for name in by_lesion if name in known and known[name].code == OTHER),
        everything=_group("all", lesions),
        sites=_groups(lesions, lambda lesion: lesion.first.site),
        cameras=_groups(lesions, lambda lesion: lesion.first.camera),
        steps=[(n, _shares(diagnosed[:n])) for n in LABELS if n <= len(diagnosed)],
        measured=monitor.summarise(monitor.evidence(session, hidden=silent)),
    )


def _label(code: str | None) -> int:
    return CODES.index(code) if code in CODES else -1


def _groups(lesions: Sequence[Lesion], key: Callable[[Lesion], str]) -> list[Group]:
    names = sorted({key(lesion) for lesion in lesions} - {""})
    return [_group(name, [x for x in lesions if key(x) == name]) for name in names]


def _group(name: str, lesions: Sequence[Lesion]) -> Group:
    known = [lesion for lesion in lesions if lesion.label >= 0]
    return Group(
        name=name,
        judged=len(lesions),
        diagnosed=len(known),
        melanomas=sum(lesion.label == MELANOMA for lesion in known),
        expected=_expected(lesions),
        measured=_shares(known),
    )


def _shares(known: Sequence[Lesion]) -> Shares:
    """Measure shares on lesions whose diagnosis is known."""

    def share(found: list[bool]) -> Interval | None:
        return share_interval(sum(found), len(found)) if found else None

    return Shares(
        sensitivity=share([not x.missed for x in known if x.label == MELANOMA]),
        referral=share([x.referred for x in known]),
        malignant_referral=share([x.referred for x in known if x.label in MALIGNANT]),
        accuracy=share([x.first.predicted == x.label for x in known]),
    )


def _expected(lesions: Sequence[Lesion]) -> dict[str, float | None]:
    """Return what calibrated probabilities lead to expect, without any diagnosis."""
    p = np.array([lesion.first.probabilities for lesion in lesions])
    melanoma, malignant = p[:, MELANOMA], p[:, MALIGNANT].sum(axis=1)
    kept = np.array([not lesion.missed for lesion in lesions])
    referred = np.array([lesion.referred for lesion in lesions])
    return {
        "sensitivity": float((melanoma * kept).sum() / melanoma.sum()),
        "referral": float(referred.mean()),
        "malignant_referral": float((malignant * referred).sum() / malignant.sum()),
        "accuracy": float(p.max(axis=1).mean()),
    }
