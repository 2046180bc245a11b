"""The worklist: cases by urgency, filtered and searched, and the diagnoses entered there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import case, func, literal, or_, select, tuple_

from temperance_skin_lesion import audit
from temperance_skin_lesion.decision import URGENCIES
from temperance_skin_lesion.store import Case, DiagnosisRow, count, is_diagnosed

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

__all__ = ["Filter", "Worklist", "cases", "counts", "diagnose", "neighbours", "total"]


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
    # Numbers are sorted first: whole cases are long.
    ordered = _chosen(wanted, Case.id).order_by(*_key(wanted))
    page = ordered.limit(limit).offset((wanted.page - 1) * limit)
    found = select(Case).where(Case.id.in_(page.scalar_subquery())).order_by(*_key(wanted))
    return list(session.scalars(found))


def total(session: Session, wanted: Filter) -> int:
    """Count the cases of all pages."""
    return count(session, _chosen(wanted, Case.id))


def counts(session: Session) -> dict[str, int]:
    """Count the open cases of each urgency; those of silent mode count as hidden."""
    rows = session.execute(
        select(Case.urgency, Case.hidden, func.count())
        .where(~is_diagnosed())
        .group_by(Case.urgency, Case.hidden)
    )
    found = dict.fromkeys((*URGENCIES, "hidden"), 0)
    for urgency, hidden, n in rows:
        found["hidden" if hidden else urgency] += n
    return found


def neighbours(session: Session, case_id: int, wanted: Filter) -> tuple[int | None, int | None]:
    """Return the cases before and after one in the list, whether the case itself is in it or not.

    The case before may have a diagnosis by now: whoever pressed a wrong key finds it again.
    """
    here = tuple_(*_key(wanted))
    mine = session.execute(select(*_key(wanted)).where(Case.id == case_id)).one()
    place = tuple_(*(literal(value) for value in mine))
    everything = _chosen(wanted.model_copy(update={"state": ""}), Case.id).where(here < place)
    before = everything.order_by(*(part.desc() for part in _key(wanted)))
    after = _chosen(wanted, Case.id).where(here > place).order_by(*_key(wanted))
    return session.scalar(before.limit(1)), session.scalar(after.limit(1))


def diagnose(
    session: Session, found: Case, *, by: str, code: str | None, other: str = "", source: str
) -> DiagnosisRow:
    """Add a later diagnosis of a case to the record and to the audit chain; None takes one back."""
    row = DiagnosisRow(
        case_id=found.id, lesion=found.lesion, by=by, code=code, other=other.strip(), source=source
    )
    session.add(row)
    about = audit.diagnosis_facts(row)
    audit.enter(session, about.pop("by"), "diagnosis", about)
    return row


def _shown() -> Any:
    """Whether what was said of a case is shown: in silent mode, once it has a diagnosis."""
    return or_(~Case.hidden, is_diagnosed())


def _chosen(wanted: Filter, *columns: Any) -> Any:
    chosen = select(*(columns or (Case,)))
    if wanted.urgency:
        chosen = chosen.where(Case.urgency == wanted.urgency, _shown())
    if wanted.decision:
        chosen = chosen.where(Case.decision == wanted.decision, _shown())
    if wanted.state:
        chosen = chosen.where(is_diagnosed() if wanted.state == "diagnosed" else ~is_diagnosed())
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


def _key(wanted: Filter) -> tuple[Any, ...]:
    """What cases are ordered by, the smallest first; no diagnosis moves a case to another place."""
    if wanted.order == "newest":
        return (-Case.id,)
    rank = case(
        (Case.hidden, len(URGENCIES)),
        *[(Case.urgency == name, i) for i, name in enumerate(URGENCIES)],
    )
    probable = func.coalesce(func.json_extract(Case.malignant, "$[0]"), 0.0)
    return rank, case((Case.hidden, 0.0), else_=-probable), -Case.id
