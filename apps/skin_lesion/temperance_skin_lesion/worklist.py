"""The worklist: cases by urgency, filtered and searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import and_, case, exists, func, or_, select

from temperance_skin_lesion.decision import URGENCIES
from temperance_skin_lesion.store import Case, DiagnosisRow, count

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

__all__ = ["Filter", "Worklist", "cases", "counts", "neighbours", "total"]


class Filter(BaseModel):
    """What of the record is shown, and in which order."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    urgency: Literal["", "urgent", "soon", "routine", "retake"] = ""
    decision: Literal["", "answer", "refer"] = ""
    state: Literal["", "open", "diagnosed"] = ""
    order: Literal["urgency", "newest"] = "urgency"
    q: str = Field("", max_length=80, description="case number, hash, lesion, site or camera")
    page: int = Field(1, ge=1, le=10**6)

    def query(self, **changes: Any) -> str:
        """Return the filter as the query of an address; what is not set is left out."""
        values = {**self.model_dump(), **changes}
        default = type(self)()
        kept = {k: v for k, v in values.items() if v != getattr(default, k)}
        return f"?{urlencode(kept)}" if kept else ""


class Worklist(Filter):
    """What is still to be done: without a diagnosis, unless asked for otherwise."""

    state: Literal["", "open", "diagnosed"] = "open"


def cases(session: Session, wanted: Filter, limit: int) -> list[Case]:
    """Return one page of cases."""
    ordered = _ordered(_chosen(wanted), wanted).limit(limit).offset((wanted.page - 1) * limit)
    return list(session.scalars(ordered))


def total(session: Session, wanted: Filter) -> int:
    """Count the cases of all pages."""
    return count(session, _chosen(wanted, Case.id))


def counts(session: Session) -> dict[str, int]:
    """Count the open cases of each urgency; those of silent mode count as hidden."""
    rows = session.execute(
        select(Case.urgency, Case.hidden, func.count())
        .where(~_diagnosed())
        .group_by(Case.urgency, Case.hidden)
    )
    found = dict.fromkeys((*URGENCIES, "hidden"), 0)
    for urgency, hidden, n in rows:
        found["hidden" if hidden else urgency] += n
    return found


def neighbours(session: Session, case_id: int, wanted: Filter) -> tuple[int | None, int | None]:
    """Return the cases before and after one in the list; the first one after a case not in it.

    The case before may have a diagnosis by now: whoever pressed a wrong key finds it again.
    """

    def listed(which: Filter) -> list[int]:
        return list(session.scalars(_ordered(_chosen(which, Case.id), which).limit(5000)))

    everything = listed(wanted.model_copy(update={"state": ""}))
    left = listed(wanted)
    if case_id not in everything:
        return None, left[0] if left else None
    place, waiting = everything.index(case_id), set(left)
    after = next((n for n in everything[place + 1 :] if n in waiting), None)
    return everything[place - 1] if place else None, after


def _diagnosed() -> Any:
    """Whether the newest diagnosis of a case's lesion holds."""
    newest = (
        select(func.max(DiagnosisRow.id))
        .where(DiagnosisRow.lesion == Case.lesion)
        .correlate(Case)
        .scalar_subquery()
    )
    return exists(
        select(DiagnosisRow.id).where(DiagnosisRow.id == newest, DiagnosisRow.code.is_not(None))
    )


def _chosen(wanted: Filter, *columns: Any) -> Any:
    chosen = select(*(columns or (Case,)))
    if wanted.urgency:
        chosen = chosen.where(Case.urgency == wanted.urgency, ~Case.hidden)
    if wanted.decision:
        chosen = chosen.where(Case.decision == wanted.decision, ~Case.hidden)
    if wanted.state:
        chosen = chosen.where(_diagnosed() if wanted.state == "diagnosed" else ~_diagnosed())
    words = wanted.q.strip()
    if words:
        escaped = words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        found = [
            Case.sha256.like(f"{escaped.lower()}%", escape="\\"),
            Case.lesion.like(f"%{escaped}%", escape="\\"),
            Case.site == words,
            Case.camera == words,
        ]
        if words.isascii() and words.isdecimal() and len(words) < 18:
            found.append(Case.id == int(words))
        chosen = chosen.where(or_(*found))
    return chosen


def _ordered(chosen: Any, wanted: Filter) -> Any:
    if wanted.order == "newest":
        return chosen.order_by(Case.id.desc())
    rank = case(
        (Case.hidden, len(URGENCIES)),
        *[(and_(Case.urgency == name), i) for i, name in enumerate(URGENCIES)],
    )
    malignant = case((Case.hidden, 0.0), else_=func.json_extract(Case.malignant, "$[0]"))
    return chosen.order_by(rank, malignant.desc(), Case.id.desc())
