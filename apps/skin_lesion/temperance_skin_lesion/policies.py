"""Policies: what one would do to validation pictures and logged cases, and proposals of one.

A policy decides who is answered, so it is handled like a map: nothing comes into force by being
typed, and the range agreed at set-up binds everybody (`temperance_skin_lesion.changes`).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance_skin_lesion import audit, clinic, monitor, thresholds
from temperance_skin_lesion import store as db
from temperance_skin_lesion.changes import Kind
from temperance_skin_lesion.decision import Policy
from temperance_skin_lesion.store import PolicyRow

if TYPE_CHECKING:
    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Assistant, Judged
    from temperance_skin_lesion.monitor import Recent

__all__ = ["POLICIES", "compare", "outside", "propose"]

LEAST = 30
"""Logged cases from which something is expected of the next thousand."""

SHOWN = 12
"""Cases whose decision would change that a comparison names."""


def compare(assistant: Assistant, policy: Policy, agreement: Agreement) -> dict[str, Any]:
    """Return what a policy would do beside the one in force, with the map in use."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        recent = monitor.recent(session, assistant.model.id)
    both = (("now", active.policy), ("then", policy))
    source = assistant.model.source
    judged = active.judged(source.logits, source.views)
    known = {
        name: thresholds.measured(judged, source.labels, which, source.lesions)
        for name, which in both
    }
    here, changed = {}, None
    if len(recent.ids) >= LEAST:
        rows = replace(active.judged(recent.logits, recent.views), dark=recent.dark)
        here = {name: thresholds.expected(rows, which) for name, which in both}
        changed = _changed(recent, rows, active.policy, policy)
    then = known["then"], here.get("then")
    return {
        "map": active.map_id,
        "policy": active.policy_id,
        "validation": {name: asdict(effect) for name, effect in known.items()},
        "here": {name: asdict(effect) for name, effect in here.items()} or None,
        "changed": changed,
        "objection": agreement.objection_to_policy(policy, *then),
        "warning": agreement.warning_of_missed(*then),
        "same": policy == active.policy,
    }


def _changed(recent: Recent, rows: Judged, former: Policy, policy: Policy) -> dict[str, Any]:
    """Count logged cases that another policy would treat otherwise, and name some."""
    now, then = rows.examined(former), rows.examined(policy)
    answers = then.answered & ~now.answered
    order = np.argsort(-rows.malignant[:, 0])
    # What was said of a hidden case is not told here either.
    examples = [int(recent.ids[i]) for i in order if answers[i] and not recent.hidden[i]]
    return {
        "newly_answered": int(answers.sum()),
        "newly_referred": int((now.answered & ~then.answered).sum()),
        "more_urgent": int((then.urgency < now.urgency).sum()),
        "less_urgent": int((then.urgency > now.urgency).sum()),
        "examples": examples[:SHOWN],
    }


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


def outside(assistant: Assistant, agreement: Agreement) -> str:
    """Say what of the map or the rules in force is outside the range; empty when nothing is.

    Both come into force inside the range only; the range itself may be another one since the
    server was started anew, and an older version had none.
    """
    with assistant.store.reading() as session:
        active = assistant.active(session)

    def objection() -> str:
        source = assistant.model.source
        judged = active.judged(source.logits, source.views)
        known = thresholds.measured(judged, source.labels, active.policy, source.lesions)
        in_use = clinic.outside(active.map_row, agreement)
        return in_use or agreement.objection_to_policy(active.policy, known)

    return assistant.remember(("outside", active.activation, agreement), objection)


def _objection_now(assistant: Assistant, row: PolicyRow, agreement: Agreement) -> str:
    """Object to a policy that is outside the range with the map that is in use now."""
    return compare(assistant, Policy.model_validate(row.policy), agreement)["objection"]


POLICIES = Kind("policy", PolicyRow, _objection_now)
