"""Change control, the same for maps and for policies.

Both change what the assistant says. A change is proposed from evidence, compared with the range
agreed beforehand, accepted or rejected by a person, kept for ever and undone with one click. Of two
people who decide at once, the second is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from temperance_skin_lesion import audit
from temperance_skin_lesion import store as db
from temperance_skin_lesion.store import Activation, Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Active, Assistant

__all__ = ["Kind", "NotAcceptable", "accept", "existing", "former", "reject", "restore"]


class NotAcceptable(ValueError):
    """A map or a policy that may not come into force; the message says why."""


class Kind(NamedTuple):
    """What is changed: its name in the record, its table, and what is objected to a row now."""

    name: str  # "map" or "policy"
    table: type[Any]
    objection: Callable[[Assistant, Any, Agreement], str]

    @property
    def column(self) -> str:
        """The column of `Activation` that says which one is in force."""
        return f"{self.name}_id"


WORDS = {"map": "calibration", "policy": "rule set"}
"""What people call a row of a table."""

REASONS = {
    "refused": "was refused by the calibration; its findings say why",
    "outside": "is outside the range agreed for this clinic",
    "same": "says the same as what is in force",
}


def accept(
    assistant: Assistant, kind: Kind, number: int, seen: int, agreement: Agreement, *, by: str
) -> None:
    """Bring a proposal into force, if activation ``seen`` is still the newest one."""
    with assistant.store.reading() as session:
        row = existing(session, kind.table, number)
        _check_proposed(row, kind)
        _check_seen(session, seen)
    _check_inside(assistant, kind, row, agreement)
    with assistant.store.writing() as session:
        row = existing(session, kind.table, number)
        _bring_into_force(session, kind, row, seen, by, "accepted")
        _check_proposed(row, kind)
        row.status, row.decided, row.decided_by = "accepted", db.now(), by


def reject(assistant: Assistant, kind: Kind, number: int, *, by: str) -> None:
    """Put a proposal aside."""
    with assistant.store.writing() as session:
        row = existing(session, kind.table, number)
        _check_proposed(row, kind)
        row.status, row.decided, row.decided_by = "rejected", db.now(), by
        audit.enter(session, by, f"{kind.name} rejected", {kind.name: number})


def restore(
    assistant: Assistant, kind: Kind, number: int, seen: int, agreement: Agreement, *, by: str
) -> None:
    """Bring back what was in force before."""
    with assistant.store.reading() as session:
        row = existing(session, kind.table, number)
        if row.status != "accepted":
            raise NotAcceptable(f"{_named(kind, row)} was never in force; it was {row.status}.")
        _check_seen(session, seen)
    _check_inside(assistant, kind, row, agreement)
    with assistant.store.writing() as session:
        _bring_into_force(session, kind, row, seen, by, "restored")


def former(session: Session, kind: Kind, active: Active) -> int | None:
    """Return the map of the same model, or the policy, that was in force before the current one."""
    column = getattr(Activation, kind.column)
    wanted = select(column).where(column != getattr(active, kind.column))
    if kind.name == "map":
        wanted = wanted.join(kind.table, kind.table.id == column)
        wanted = wanted.where(kind.table.model == active.map_row.model)
    return session.scalar(wanted.order_by(Activation.id.desc()).limit(1))


def existing(session: Session, table: type[Any], key: int) -> Any:
    """Return a row, or say that there is none."""
    row = session.get(table, key)
    if row is None:
        name = table.__tablename__
        raise LookupError(f"There is no {WORDS.get(name, name)} {key}.")
    return row


def _bring_into_force(
    session: Session, kind: Kind, row: Any, seen: int, by: str, verb: str
) -> None:
    """Make a new activation, if what is in force is still what the deciding person saw."""
    newest = _check_seen(session, seen)
    now = {"map_id": newest.map_id, "policy_id": newest.policy_id}
    session.add(Activation(**now | {kind.column: row.id}, by=by))
    about = {kind.name: row.id, "former": now[kind.column]}
    if kind.name == "map":
        about["artefact"] = audit.digest(row.artefact)
    audit.enter(session, by, f"{kind.name} {verb}", about)


def _check_seen(session: Session, seen: int) -> Activation:
    """Return what is in force, if it is what the deciding person saw.

    Checked before a proposal is compared with what is in force and again in the transaction that
    brings it into force: numbers only grow, so the comparison is with what the person saw.
    """
    newest = db.in_force(session)
    if newest is None or newest.id != seen:
        what = f"calibration {newest.map_id} with rules {newest.policy_id}" if newest else "nothing"
        when = f" since {_clock(newest.at)}, by {newest.by}" if newest else ""
        raise Conflict(
            f"Somebody decided in the meantime: {what} is in force{when}. Look at it, then decide "
            f"again."
        )
    return newest


def _check_proposed(row: Any, kind: Kind) -> None:
    """Object to a row about which there is nothing to decide."""
    if row.status in REASONS:
        raise NotAcceptable(
            f"{_named(kind, row)} {REASONS[row.status]}; there is nothing to decide."
        )
    if row.status != "proposed":
        raise Conflict(
            f"{_named(kind, row)} was {row.status} already, by {row.decided_by} at "
            f"{_clock(row.decided)}."
        )


def _check_inside(assistant: Assistant, kind: Kind, row: Any, agreement: Agreement) -> None:
    """Object to a row that is outside the range with what is in force beside it now."""
    objection = kind.objection(assistant, row, agreement)
    if objection:
        raise NotAcceptable(f"{_named(kind, row)} cannot come into force: {objection}")


def _named(kind: Kind, row: Any) -> str:
    return f"{WORDS[kind.name].capitalize()} {row.id}"


def _clock(at: str) -> str:
    return f"{at[:16].replace('T', ' ')} UTC"
