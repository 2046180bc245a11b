"""What the log tells: calibration measured where diagnoses came in, and drift where they did not.

Drift is judged per ISO week from unlabelled cases, against the rows the map in force was made from:
the distance ``D = ½ Σ|mix_week − mix_reference|`` of the predicted mixes, and the change of mean
confidence. A week counts only with enough cases, and is called drift only beyond what chance gives
once in a thousand weeks; both effect sizes are shown, whatever the verdict. Pictures that do not
look like lesions count nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import func, select

import temperance as tp
from temperance_skin_lesion.assistant import calibrated
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import FOREIGN
from temperance_skin_lesion.store import Case

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.assistant import Active

__all__ = ["Measured", "Week", "measured", "recent_logits", "weekly_drift"]

LEAST_PER_WEEK = 30
LEAST_DIAGNOSED = 30
FALSE_ALARM = 1e-3
DRAWS = 20_000
RECENT = timedelta(weeks=4)


@dataclass(frozen=True, slots=True)
class Week:
    """One week of cases compared with the reference of the map in force."""

    week: str
    cases: int
    distance: float
    limit: float
    confidence: float
    confidence_change: float
    confidence_limit: float
    state: str  # "few", "steady" or "drift"


@dataclass(frozen=True, slots=True)
class Measured:
    """Calibration on diagnosed cases: what was claimed, and what came true."""

    cases: int
    claimed: float
    accuracy: tuple[float, float, float]
    ece: tuple[float, float, float]
    brier: float
    nll: float
    bins: list[dict[str, float]]
    answered: int
    answered_wrong: int
    melanomas: int
    melanomas_referred_or_named: int


def weekly_drift(session: Session, active: Active, weeks: int = 12) -> list[Week]:
    """Compare the newest weeks, newest first; each picture counts once."""
    since = (datetime.now(UTC) - timedelta(weeks=weeks)).isoformat(timespec="milliseconds")
    newest_cases = _newest_of_each_picture(active.map_row.model)
    rows = session.execute(
        select(Case.created, Case.logits)
        .where(Case.id.in_(newest_cases), Case.created >= since)
        .order_by(Case.created.desc())
    ).all()
    by_week: dict[str, list[list[float]]] = {}
    for created, logits in rows:
        year, week, _ = datetime.fromisoformat(created).isocalendar()
        by_week.setdefault(f"{year}-W{week:02d}", []).append(logits)
    newest = sorted(by_week.items(), reverse=True)[:weeks]
    return [_compare(week, np.array(logits), active) for week, logits in newest]


def recent_logits(session: Session, model: str) -> NDArray[np.float64]:
    """Logits of the different pictures that a model looked at in the last four weeks."""
    since = (datetime.now(UTC) - RECENT).isoformat(timespec="milliseconds")
    rows = session.scalars(
        select(Case.logits)
        .where(Case.id.in_(_newest_of_each_picture(model)), Case.created >= since)
        .order_by(Case.sha256)
    )
    return np.array(rows.all(), dtype=np.float64).reshape(-1, len(CODES))


def measured(session: Session, model: str) -> Measured | None:
    """Calibration of what was said, where the diagnosis is known; None with too few of them."""
    rows = session.execute(
        select(Case.probabilities, Case.predicted, Case.decision, Case.diagnosis).where(
            Case.diagnosis.is_not(None), Case.id.in_(_newest_of_each_picture(model))
        )
    ).all()
    if len(rows) < LEAST_DIAGNOSED:
        return None
    p = np.array([row[0] for row in rows])
    labels = np.array([row[3] for row in rows])
    answered = np.array([row[2] == "answer" for row in rows])
    right = p.argmax(axis=1) == labels
    melanoma = labels == CODES.index("mel")
    logits = tp.from_probabilities(p)
    return Measured(
        cases=len(rows),
        claimed=float(p.max(axis=1).mean()),
        accuracy=_interval(tp.metrics.bootstrap(tp.metrics.accuracy, logits, labels)),
        ece=_interval(tp.metrics.bootstrap(tp.metrics.ece, logits, labels)),
        brier=float(tp.metrics.brier(logits, labels)),
        nll=float(tp.metrics.nll(logits, labels)),
        bins=_bins(p.max(axis=1), right),
        answered=int(answered.sum()),
        answered_wrong=int((answered & ~right).sum()),
        melanomas=int(melanoma.sum()),
        melanomas_referred_or_named=int((melanoma & (right | ~answered)).sum()),
    )


def _newest_of_each_picture(model: str) -> Any:
    judged = select(func.max(Case.id)).where(Case.model == model, Case.rule != FOREIGN)
    return judged.group_by(Case.sha256)


def _compare(week: str, logits: NDArray[np.float64], active: Active) -> Week:
    p = calibrated(active.map_row.artefact, logits)
    past, n = active.map_row.reference, len(p)
    mix = np.bincount(p.argmax(axis=1), minlength=len(CODES)) / n
    distance = 0.5 * np.abs(mix - past["mix"]).sum()
    limit = _chance_distance(n, past["rows"], tuple(past["mix"]))
    confidence = p.max(axis=1).mean()
    change = confidence - past["confidence"]
    error = past["deviation"] * np.sqrt(1 / n + 1 / past["rows"])
    confidence_limit = 3.29 * error  # the normal quantile of FALSE_ALARM, both sides
    drift = distance > limit or abs(change) > confidence_limit
    return Week(
        week=week,
        cases=n,
        distance=float(distance),
        limit=limit,
        confidence=float(confidence),
        confidence_change=float(change),
        confidence_limit=float(confidence_limit),
        state="few" if n < LEAST_PER_WEEK else "drift" if drift else "steady",
    )


@lru_cache(maxsize=256)
def _chance_distance(n: int, rows: int, mix: tuple[float, ...]) -> float:
    """Distance between the mixes of n and of ``rows`` cases that chance exceeds seldom enough."""
    rng = np.random.default_rng(n)
    here, there = (rng.multinomial(size, mix, DRAWS) / size for size in (n, rows))
    return float(np.quantile(0.5 * np.abs(here - there).sum(axis=1), 1 - FALSE_ALARM))


def _bins(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Reliability in ten bins, with what is needed to draw it honestly: the counts."""
    place = np.minimum((confidence * 10).astype(int), 9)
    return [
        {
            "low": b / 10,
            "cases": int((place == b).sum()),
            "confidence": float(confidence[place == b].mean()),
            "accuracy": float(right[place == b].mean()),
        }
        for b in range(10)
        if (place == b).any()
    ]


def _interval(interval: Any) -> tuple[float, float, float]:
    return float(interval.value), float(interval.low), float(interval.high)
