"""Policies under change control: proposed, compared on logged cases, accepted, undone.

A policy decides who is answered, so it is handled like a map: nothing comes into force by being
typed, the range agreed at set-up binds everybody, and of two people who decide at once the second
is told.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import select

from temperance_skin_lesion import audit, monitor, thresholds
from temperance_skin_lesion import store as db
from temperance_skin_lesion.clinic import NotAcceptable, check_proposed, check_seen, existing
from temperance_skin_lesion.decision import Policy
from temperance_skin_lesion.store import Activation, PolicyRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Active, Assistant

__all__ = ["accept", "compare", "former_policy", "propose", "reject", "restore"]

LEAST = 30
"""Logged cases from which something is expected of the next thousand."""

SHOWN = 12
"""Cases whose decision would change that a comparison names."""


def compare(assistant: Assistant, policy: Policy, agreement: Agreement) -> dict[str, Any]:
    """Return what a policy would do beside the one in force, with the map in use."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        recent = monitor.recent(session, assistant.model.id)
    source = assistant.model.source
    known = active.judged(source.logits, source.views)
    validation = {
        name: thresholds.measured(known, source.labels, which)
        for name, which in (("now", active.policy), ("then", policy))
    }
    found: dict[str, Any] = {
        "map": active.map_id,
        "policy": active.policy_id,
        "validation": {name: asdict(effect) for name, effect in validation.items()},
        "here": None,
        "objection": agreement.objection_to_policy(policy, validation["then"]),
        "warning": agreement.rate_objection(validation["then"]),
        "same": policy == active.policy,
    }
    if len(recent.ids) >= LEAST:
        rows = active.judged(recent.logits, recent.views)
        rows = replace(rows, dark=recent.dark)
        found["here"] = {
            name: asdict(thresholds.expected(rows, which))
            for name, which in (("now", active.policy), ("then", policy))
        }
        now, then = (rows.examined(which) for which in (active.policy, policy))
        answers = then.answered & ~now.answered
        referrals = now.answered & ~then.answered
        order = np.argsort(-rows.malignant[:, 0])
        found["changed"] = {
            "newly_answered": int(answers.sum()),
            "newly_referred": int(referrals.sum()),
            "more_urgent": int((then.urgency < now.urgency).sum()),
            "less_urgent": int((then.urgency > now.urgency).sum()),
            # What was said of a hidden case is not told here either.
            "examples": [int(recent.ids[i]) for i in order if answers[i] and not recent.hidden[i]][
                :SHOWN
            ],
        }
    return found


def propose(
    assistant: Assistant, policy: Policy, agreement: Agreement, *, by: str, reason: str = ""
) -> int:
    """Record a proposal with its comparison; return its number."""
    comparison = compare(assistant, policy, agreement)
    status = "same" if comparison["same"] else "outside" if comparison["objection"] else "proposed"
    row = PolicyRow(
        by=by,
        policy=policy.model_dump(),
        reason=reason[:500],
        objection=comparison["objection"],
        comparison=comparison,
        status=status,
        decided=None if status == "proposed" else db.now(),
    )
    with assistant.store.writing() as session:
        session.add(row)
        session.flush()
        about = {"policy": row.id, "content": row.policy, "status": status, "reason": row.reason}
        audit.enter(session, by, "policy proposed", about)
        return row.id


def accept(
    assistant: Assistant, policy_id: int, seen: int, agreement: Agreement, *, by: str
) -> None:
    """Bring a proposed policy into force, if activation ``seen`` is still the newest one."""
    with assistant.store.reading() as session:
        row = existing(session, PolicyRow, policy_id)
        check_proposed(row, "Policy")
    _still_inside(assistant, row, agreement)
    with assistant.store.writing() as session:
        row = existing(session, PolicyRow, policy_id)
        active = check_seen(session, seen)
        check_proposed(row, "Policy")
        row.status, row.decided, row.decided_by = "accepted", db.now(), by
        session.add(Activation(map_id=active.map_id, policy_id=policy_id, by=by))
        audit.enter(
            session, by, "policy accepted", {"policy": policy_id, "former": active.policy_id}
        )


def reject(assistant: Assistant, policy_id: int, *, by: str) -> None:
    """Put a proposed policy aside."""
    with assistant.store.writing() as session:
        row = existing(session, PolicyRow, policy_id)
        check_proposed(row, "Policy")
        row.status, row.decided, row.decided_by = "rejected", db.now(), by
        audit.enter(session, by, "policy rejected", {"policy": policy_id})


def restore(
    assistant: Assistant, policy_id: int, seen: int, agreement: Agreement, *, by: str
) -> None:
    """Bring a policy back that was in force before."""
    with assistant.store.reading() as session:
        row = existing(session, PolicyRow, policy_id)
        if row.status != "accepted":
            raise NotAcceptable(f"Policy {policy_id} was never in force; it was {row.status}.")
    _still_inside(assistant, row, agreement)
    with assistant.store.writing() as session:
        active = check_seen(session, seen)
        session.add(Activation(map_id=active.map_id, policy_id=policy_id, by=by))
        audit.enter(
            session, by, "policy restored", {"policy": policy_id, "former": active.policy_id}
        )


def former_policy(session: Session, active: Active) -> int | None:
    """Return the policy that was in force before the current one."""
    return session.scalar(
        select(Activation.policy_id)
        .where(Activation.policy_id != active.policy_id)
        .order_by(Activation.id.desc())
        .limit(1)
    )


def _still_inside(assistant: Assistant, row: PolicyRow, agreement: Agreement) -> None:
    """Object to a policy that is outside the range with the map that is in use now."""
    objection = compare(assistant, Policy.model_validate(row.policy), agreement)["objection"]
    if objection:
        raise NotAcceptable(f"Policy {row.id} is outside the agreed range: {objection}")
