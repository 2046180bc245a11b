"""What the log tells: calibration measured where diagnoses came in, and the recent pictures.

Evidence is counted by lesion. Every different answer about a picture counts once (the same picture
judged again with the same map and policy is the same answer), the newest diagnosis of a lesion
holds for all its pictures, and intervals are drawn by lesion. Pictures that do not look like
lesions count nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import load_only

import temperance as tp
from temperance_skin_lesion import quality
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CODES, OTHER
from temperance_skin_lesion.decision import FOREIGN, ORIENTATIONS
from temperance_skin_lesion.store import Case
from temperance_skin_lesion.thresholds import share_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.assistant import Assistant

__all__ = [
    "Evidence",
    "Measured",
    "Recent",
    "evidence",
    "measured",
    "recent",
]

LEAST_DIAGNOSED = 30
LEVEL = 0.9
"""Of every interval on the pages."""

RECENT = timedelta(weeks=4)


@dataclass(frozen=True, slots=True)
class Measured:
    """Calibration on diagnosed cases: what was claimed, and what came true."""

    cases: int
    lesions: int
    other: int
    other_answered: int
    claimed: float
    accuracy: tuple[float, float, float]
    ece: tuple[float, float, float]
    brier: float
    nll: float
    bins: list[dict[str, float]]
    answered: int
    answered_wrong: int
    melanomas: int
    melanomas_missed: int
    sensitivity: tuple[float, float, float]


class Recent(NamedTuple):
    """Different pictures that the model looked at of late."""

    ids: list[int]
    hashes: list[str]
    logits: NDArray[np.float64]
    views: NDArray[np.float64]
    hidden: list[bool]
    dark: NDArray[np.bool_]


class Evidence(NamedTuple):
    """Answers about lesions whose diagnosis is known; ``labels`` of -1 are other diseases."""

    cases: list[Case]
    labels: NDArray[np.int64]
    lesions: NDArray[np.int64]


def recent(session: Session, model: str) -> Recent:
    """Return the different pictures that a model saw in the last four weeks and were fit.

    A picture that is not fit is taken again; one of dark skin is a case, which is referred.
    """
    since = (datetime.now(UTC) - RECENT).isoformat(timespec="milliseconds")
    rows = session.execute(
        select(Case.id, Case.logits, Case.views, Case.quality, Case.hidden, Case.sha256)
        .where(Case.id.in_(_newest_of_each_picture(model)), Case.created >= since)
        .order_by(Case.sha256)
    ).all()
    rows = [row for row in rows if not (row[3] and quality.faults(quality.Quality(**row[3])))]
    known = [quality.Quality(**row[3]) if row[3] else None for row in rows]  # older cases: None
    views = [row[2] or [row[1]] * ORIENTATIONS for row in rows]  # older cases have none
    return Recent(
        [row[0] for row in rows],
        [row[5] for row in rows],
        np.array([row[1] for row in rows], dtype=np.float64).reshape(-1, len(CODES)),
        np.array(views, dtype=np.float64).reshape(-1, ORIENTATIONS, len(CODES)),
        [row[4] for row in rows],
        np.array([one is not None and quality.is_dark(one) for one in known], dtype=np.bool_),
    )


def evidence(session: Session, *, hidden: bool | None = None) -> Evidence:
    """Return every different answer about a lesion whose diagnosis is known."""
    known = db.diagnosed_codes(session)
    first = select(func.min(Case.id)).where(Case.rule != FOREIGN, db.is_diagnosed())
    if hidden is not None:
        first = first.where(Case.hidden == hidden)
    first = first.group_by(Case.sha256, Case.map_id, Case.policy_id)
    wanted = select(Case).where(Case.id.in_(first)).order_by(Case.id)
    needed = load_only(Case.lesion, Case.probabilities, Case.decision)
    cases = list(session.scalars(wanted.options(needed)))
    codes = [known[case.lesion] for case in cases]
    numbers = {lesion: i for i, lesion in enumerate(dict.fromkeys(c.lesion for c in cases))}
    return Evidence(
        cases,
        np.array([-1 if code == OTHER else CODES.index(code) for code in codes], dtype=np.int64),
        np.array([numbers[case.lesion] for case in cases], dtype=np.int64),
    )


def measured(assistant: Assistant) -> Measured | None:
    """Calibration of what was said, where the diagnosis is known; None with too few lesions."""
    with assistant.store.reading() as session:
        newest = db.newest(session)

    def counted() -> Measured | None:
        with assistant.store.reading() as session:
            return summarise(evidence(session))

    return assistant.remember(("measured", newest), counted)


def summarise(found: Evidence) -> Measured | None:
    """Measure calibration on evidence; None with too few lesions of the model's classes."""
    inside = found.labels >= 0
    lesions = found.lesions[inside]
    if len(np.unique(lesions)) < LEAST_DIAGNOSED:
        return None
    cases = [case for case, known in zip(found.cases, inside, strict=True) if known]
    p = np.array([case.probabilities for case in cases])
    labels = found.labels[inside]
    answered = np.array([case.decision == "answer" for case in cases])
    right = p.argmax(axis=1) == labels
    # Whatever was answered of a disease that the network does not know is wrong.
    others = sum(c.decision == "answer" for c, k in zip(found.cases, inside, strict=True) if not k)
    melanoma = labels == CODES.index("mel")
    missed = np.unique(lesions[melanoma & answered & ~right])
    melanomas = np.unique(lesions[melanoma])
    logits = tp.from_probabilities(p)
    return Measured(
        cases=len(cases),
        lesions=len(np.unique(lesions)),
        other=int((~inside).sum()),
        other_answered=others,
        claimed=float(p.max(axis=1).mean()),
        accuracy=_interval(
            tp.metrics.bootstrap(tp.metrics.accuracy, logits, labels, groups=lesions, level=LEVEL)
        ),
        ece=_interval(
            tp.metrics.bootstrap(tp.metrics.ece, logits, labels, groups=lesions, level=LEVEL)
        ),
        brier=float(tp.metrics.brier(logits, labels)),
        nll=float(tp.metrics.nll(logits, labels)),
        bins=_bins(p.max(axis=1), right, lesions),
        answered=int(answered.sum()) + others,
        answered_wrong=int((answered & ~right).sum()) + others,
        melanomas=len(melanomas),
        melanomas_missed=len(missed),
        sensitivity=share_interval(len(melanomas) - len(missed), len(melanomas)),
    )


def _newest_of_each_picture(model: str) -> Any:
    judged = select(func.max(Case.id)).where(Case.model == model, Case.rule != FOREIGN)
    return judged.group_by(Case.sha256)


def _bins(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], lesions: NDArray[np.int64]
) -> list[dict[str, float]]:
    """Reliability in ten bins, each with its count and the interval of its share, by lesion."""
    place = np.minimum((confidence * 10).astype(int), 9)
    bins = []
    for b in range(10):
        inside = place == b
        if not inside.any():
            continue
        different = len(np.unique(lesions[inside]))
        share, low, high = share_interval(right[inside].sum(), inside.sum(), different)
        bins.append(
            {
                "low": b / 10,
                "cases": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "accuracy": float(share),
                "accuracy_low": low,
                "accuracy_high": high,
            }
        )
    return bins


def _interval(interval: Any) -> tuple[float, float, float]:
    return float(interval.value), float(interval.low), float(interval.high)
