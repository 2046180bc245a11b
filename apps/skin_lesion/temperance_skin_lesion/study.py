"""The report of a silent study: what the assistant would have done, estimated and measured.

Cases were judged and hidden; diagnoses came later and were not influenced. Each lesion counts once,
with the first thing that was said of it, and a melanoma counts as missed if any of its pictures was
answered as something else.

Measured shares are of diagnosed lesions, with exact intervals (Clopper and Pearson, 1934).
Estimated shares are of all judged lesions and rest on `temperance.calibrate`, first without any
diagnosis and then with the first 10, 30, 100 … of them: each map that may be right says how
probable each diagnosis of each lesion is, so that every share of lesions has an expected value; an
interval holds the differences between these maps and the chance of that many lesions.

A share of melanomas or of malignant lesions hangs on how small probabilities are spread, of which
these maps know little. It stays the same, on the other hand, where only the mix of diagnoses is
another one, and it is measured on the validation lesions. Its estimate is therefore the smaller of
the two, and its interval holds both. All intervals are of 90 %.
Without a silent study, the report is of all cases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import load_only

import temperance as tp
from temperance_skin_lesion import clinic, monitor, weeks
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CODES, MALIGNANT, MELANOMA, NAMES, OTHER
from temperance_skin_lesion.decision import FOREIGN
from temperance_skin_lesion.store import Case, DiagnosisRow
from temperance_skin_lesion.thresholds import over_maps, share_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Active, Assistant
    from temperance_skin_lesion.decision import Examined

__all__ = [
    "Estimate",
    "Group",
    "Knowledge",
    "Lesion",
    "Shares",
    "Step",
    "Study",
    "estimate",
    "expected_shares",
    "home_shares",
    "measured_shares",
    "report",
]

LABELS = (10, 30, 100, 300, 1000)
"""Numbers of diagnosed lesions after which the shares are shown."""

LEAST_GAP = 30
"""Lesions from which the gap between confidence and share right is measured."""

Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of lesions, each with its interval; None where nothing can be said.

    ``gap`` is the calibration error: the mean difference between confidence and share right.
    """

    sensitivity: Interval | None = None
    malignant_referral: Interval | None = None
    referral: Interval | None = None
    accuracy: Interval | None = None
    gap: Interval | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Shares of all judged lesions, estimated with some diagnoses or with none."""

    verdict: str
    shares: Shares
    findings: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """The study after so many diagnosed lesions."""

    labels: int
    estimated: Estimate
    measured: Shares


@dataclass(frozen=True, slots=True)
class Group:
    """Lesions of one site, of one camera or of all."""

    name: str
    judged: int
    diagnosed: int
    melanomas: int
    estimated: Estimate
    measured: Shares


@dataclass(frozen=True, slots=True)
class Study:
    """The whole report."""

    silent: bool
    mix_stated: bool
    other: int
    other_answered: int
    everything: Group
    sites: list[Group]
    cameras: list[Group]
    weeks: list[weeks.Week]
    steps: list[Step]


class Knowledge(NamedTuple):
    """What is known besides the lesions: the class mix, labelled rows, and shares of those."""

    prior: Any
    source: Any
    home: dict[str, Interval]


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


def report(assistant: Assistant, agreement: Agreement) -> Study | None:
    """Return the report, or None before anything was judged."""
    with assistant.store.reading() as session:
        newest = db.newest(session)
        active = assistant.active(session)
    key = ("study", active.activation, agreement.gap, newest, db.now()[:10])
    return assistant.remember(key, lambda: _report(assistant, active, agreement))


def _report(assistant: Assistant, active: Active, agreement: Agreement) -> Study | None:
    with assistant.store.reading() as session:
        silent = session.scalar(select(Case.id).where(Case.hidden).limit(1)) is not None
        known = db.diagnosed_codes(session)
        wanted = select(Case).where(
            Case.rule != FOREIGN, Case.hidden == silent, Case.model == assistant.model.id
        )
        said = (Case.logits, Case.probabilities, Case.predicted, Case.decision)
        wanted = wanted.options(load_only(Case.lesion, Case.site, Case.camera, *said))
        by_lesion: dict[str, list[Case]] = {}
        for case in session.scalars(wanted.order_by(Case.id)):
            by_lesion.setdefault(case.lesion, []).append(case)
        if not by_lesion:
            return None
        firsts = select(DiagnosisRow.lesion, func.min(DiagnosisRow.id).label("first"))
        rows = session.execute(firsts.group_by(DiagnosisRow.lesion))
        order = {row.lesion: row.first for row in rows}
    lesions = [
        Lesion(cases[0], cases, _label(known.get(name))) for name, cases in by_lesion.items()
    ]
    others = [c for name, c in by_lesion.items() if known.get(name) == OTHER]
    # Diagnosed lesions in the order in which their diagnoses came in.
    diagnosed = sorted(
        (lesion for lesion in lesions if lesion.label >= 0), key=lambda x: order[x.first.lesion]
    )
    source = assistant.model.source
    known_rows = active.judged(source.logits, source.views)
    answered = known_rows.examined(active.policy)
    knowledge = Knowledge(
        clinic.stated_mix(active.map_row),
        (source.logits, source.labels),
        home_shares(answered, source.labels, source.lesions),
    )
    everything = _group("all", lesions, knowledge)
    return Study(
        silent=silent,
        mix_stated=knowledge.prior is not None,
        other=len(others),
        other_answered=sum(not all(c.decision == "refer" for c in cases) for cases in others),
        everything=everything,
        sites=_groups(everything, lesions, knowledge, lambda lesion: lesion.first.site),
        cameras=_groups(everything, lesions, knowledge, lambda lesion: lesion.first.camera),
        weeks=weeks.by_week(assistant, agreement, hidden=silent),
        steps=[
            Step(n, estimate(lesions, diagnosed[:n], knowledge), measured_shares(diagnosed[:n]))
            for n in LABELS
            if n <= len(diagnosed)
        ],
    )


def _label(code: str | None) -> int:
    return CODES.index(code) if code in CODES else -1


def _groups(
    everything: Group,
    lesions: Sequence[Lesion],
    knowledge: Knowledge,
    key: Callable[[Lesion], str],
) -> list[Group]:
    """Estimate and measure each group by itself; where there is one only, it is everything."""
    by_name: dict[str, list[Lesion]] = {}
    for lesion in lesions:
        by_name.setdefault(key(lesion), []).append(lesion)
    if len(by_name) == 1:
        return [replace(everything, name=name) for name in by_name if name]
    return [_group(name, mine, knowledge) for name, mine in sorted(by_name.items()) if name]


def _group(name: str, lesions: Sequence[Lesion], knowledge: Knowledge) -> Group:
    known = [lesion for lesion in lesions if lesion.label >= 0]
    return Group(
        name=name,
        judged=len(lesions),
        diagnosed=len(known),
        melanomas=sum(lesion.label == MELANOMA for lesion in known),
        estimated=estimate(lesions, [], knowledge),
        measured=measured_shares(known),
    )


def measured_shares(known: Sequence[Lesion]) -> Shares:
    """Measure shares on lesions whose diagnosis is known."""

    def share(found: list[bool]) -> Interval | None:
        return share_interval(sum(found), len(found)) if found else None

    return Shares(
        sensitivity=share([not x.missed for x in known if x.label == MELANOMA]),
        malignant_referral=share([x.referred for x in known if x.label in MALIGNANT]),
        referral=share([x.referred for x in known]),
        accuracy=share([x.first.predicted == x.label for x in known]),
        gap=_measured_gap(known) if len(known) >= LEAST_GAP else None,
    )


def _measured_gap(known: Sequence[Lesion]) -> Interval:
    logits = tp.from_probabilities(np.array([x.first.probabilities for x in known]))
    labels = np.array([x.label for x in known])
    found = tp.metrics.bootstrap(tp.metrics.ece, logits, labels, level=monitor.LEVEL)
    return found.value, found.low, found.high


def estimate(
    lesions: Sequence[Lesion], diagnosed: Sequence[Lesion], knowledge: Knowledge
) -> Estimate:
    """Estimate the shares of all ``lesions`` with the labels of ``diagnosed`` ones."""
    logits = _logits(lesions)
    labelled = (_logits(diagnosed), [x.label for x in diagnosed]) if diagnosed else None
    prior, source, home = knowledge
    cal = tp.calibrate(logits, prior=prior, source=source, labelled=labelled, classes=NAMES)
    findings = tuple(f.to_dict() for f in cal.findings if f.severity != "note")
    if cal.verdict == "refused":
        return Estimate(cal.verdict, Shares(), findings)
    shares = expected_shares(lesions, *clinic.plausible(cal, logits))
    cautious = {name: _both(getattr(shares, name), found) for name, found in home.items()}
    return Estimate(cal.verdict, replace(shares, **cautious), findings)


def home_shares(
    said: Examined, labels: NDArray[np.int64], lesions: NDArray[np.int64]
) -> dict[str, Interval]:
    """Measure on labelled rows what does not change with the mix of diagnoses, by lesion."""
    missed = said.answered & (said.predicted != MELANOMA)

    def share(wrong: NDArray[np.bool_], of: NDArray[np.bool_]) -> Interval:
        n = len(np.unique(lesions[of]))
        return share_interval(n - len(np.unique(lesions[of & wrong])), n)

    return {
        "sensitivity": share(missed, labels == MELANOMA),
        "malignant_referral": share(said.answered, np.isin(labels, MALIGNANT)),
    }


def _both(here: Interval | None, home: Interval) -> Interval | None:
    return (
        None
        if here is None
        else (min(here[0], home[0]), min(here[1], home[1]), max(here[2], home[2]))
    )


def _logits(lesions: Sequence[Lesion]) -> NDArray[np.float64]:
    return np.array([x.first.logits for x in lesions], dtype=np.float64).reshape(-1, len(CODES))


def expected_shares(
    lesions: Sequence[Lesion], truths: NDArray[np.float64], weights: NDArray[np.float64]
) -> Shares:
    """Return the shares of lesions whose diagnoses have probabilities ``truths`` (maps, n, 7)."""
    kept = np.array([not x.missed for x in lesions])
    referred = np.array([x.referred for x in lesions])
    said = np.array([x.first.predicted for x in lesions])
    claimed = np.array([x.first.probabilities for x in lesions])[np.arange(len(said)), said]
    melanoma, malignant = truths[..., MELANOMA], truths[..., MALIGNANT].sum(axis=2)
    right = truths[:, np.arange(len(said)), said]

    def share(found: NDArray[Any], of: NDArray[Any]) -> Interval | None:
        counts = of.sum(axis=1)
        expected = float(weights @ counts / weights.sum())
        if expected < 1:  # of less than one lesion, no share is known
            return None
        return over_maps(weights, (found * of).sum(axis=1) / counts, expected)

    gaps = np.array([clinic.gap(claimed, one) for one in right])
    return Shares(
        sensitivity=share(kept, melanoma),
        malignant_referral=share(referred, malignant),
        referral=share_interval(int(referred.sum()), len(referred)),
        accuracy=share(right, np.ones_like(right)),
        gap=over_maps(weights, gaps),
    )
