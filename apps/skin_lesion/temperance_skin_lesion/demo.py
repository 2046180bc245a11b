"""Fill a record so that every page of the demo has something to show.

The worklist holds pictures drawn by code, which show no disease. The study replays half of the
validation lesions of the model, which `for_demo` keeps from it: their scores and their diagnoses
are real, their weeks, sites and cameras are made up, and in the last weeks one site sends no nevi.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp
from temperance_skin_lesion import audit, intake, worklist
from temperance_skin_lesion.assistant import facts_of
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import decide
from temperance_skin_lesion.drawings import lesion_file
from temperance_skin_lesion.model import Source
from temperance_skin_lesion.store import Case

if TYPE_CHECKING:
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.model import Model

__all__ = ["files", "fill", "for_demo"]

DRAWN = 12
WEEKS, PER_WEEK = 10, 60
CHANGED = 2
"""Weeks at the end in which the site south sends no nevi."""

DIAGNOSED = 0.8
NEVUS = CODES.index("nv")


def for_demo(model: Model) -> Model:
    """Return the model with the validation rows that are not replayed, and facts of these rows."""
    kept = _half(model.source, 0)
    temperature, *ends = model.facts["temperature"]
    fitted = tp.fit_temperature(kept.logits, kept.labels).temperature
    # Half of the rows: on the scale of the logarithm, the interval is wider by the root of two.
    ends = [fitted * (end / temperature) ** 2**0.5 for end in ends]
    validation = {
        "rows": len(kept.labels),
        "lesions": len(np.unique(kept.lesions)),
        "accuracy": float(np.mean(kept.logits.argmax(axis=1) == kept.labels)),
    }
    facts = model.facts | {"temperature": [fitted, *ends], "validation": validation}
    return replace(model, source=kept, facts=facts)


def _half(source: Source, which: int) -> Source:
    """Return every other lesion."""
    rows = source.lesions % 2 == which
    return Source(*(getattr(source, f.name)[rows] for f in fields(source)))


def files(seeds: range) -> list[tuple[bytes, str]]:
    """Pictures drawn by code, as files with their names."""
    return [(lesion_file(seed, side=256), f"drawn-{seed:04d}.jpg") for seed in seeds]


def fill(assistant: Assistant, validation: Source) -> None:
    """Replay a silent study of some weeks, and judge a few drawn pictures of today."""
    _replay(assistant, _half(validation, 1))
    pictures = files(range(DRAWN))
    contents = [content for content, _ in pictures]
    assistant.judge([intake.read(*file) for file in pictures], contents, by="demo")


def _replay(assistant: Assistant, lesions: Source) -> None:
    rng = np.random.default_rng(0)
    today = datetime.now(UTC)
    with assistant.store.writing() as session:
        active = assistant.active(session)
        cases, labels = [], []
        for i, row in enumerate(_in_order(lesions, rng)):
            week, place = divmod(i, PER_WEEK)
            monday = today - timedelta(weeks=WEEKS - 1 - week, days=today.weekday())
            case = _case(assistant, active, lesions, row)
            case.lesion = f"study-{i + 1}"
            case.site = "south" if place % 2 else "north"
            case.camera = "camera-b" if place % 3 else "camera-a"
            at = min(monday + timedelta(minutes=7 * place), today)
            case.created = at.isoformat(timespec="milliseconds")
            session.add(case)
            cases.append(case)
            labels.append(int(lesions.labels[row]))
        session.flush()
        covered = audit.digest([audit.case_facts(case) for case in cases])
        about = {"cases": [case.id for case in cases], "digest": covered}
        audit.enter(session, "demo", "judged", about)
        for case, label in zip(cases, labels, strict=True):
            if rng.random() < DIAGNOSED:
                code = CODES[label]
                worklist.diagnose(session, case, by="demo", code=code, source="histology")


def _in_order(lesions: Source, rng: np.random.Generator) -> list[int]:
    """Return a row of each lesion, oldest first; the south sends no nevi in the last weeks."""
    _, first = np.unique(lesions.lesions, return_index=True)
    order = rng.permutation(first).tolist()
    others = [row for row in order if lesions.labels[row] != NEVUS][-CHANGED * PER_WEEK // 2 :]
    rest = iter([row for row in order if row not in set(others)])
    changed = (WEEKS - CHANGED) * PER_WEEK
    found: list[int] = []
    for i in range(WEEKS * PER_WEEK):
        row = others.pop() if i >= changed and i % 2 and others else next(rest, None)
        if row is None:
            break
        found.append(row)
    return found


def _case(assistant: Assistant, active: Any, lesions: Source, row: int) -> Case:
    """Return the case of a validation lesion, judged like any other and hidden."""
    logits, views = lesions.logits[row : row + 1], lesions.views[row : row + 1]
    found = active.judged(logits, views)
    decision = decide(found.p[0], active.policy, agreement=int(found.agreement[0]))
    return Case(
        by="demo",
        sha256=hashlib.sha256(f"validation row {row}".encode()).hexdigest(),
        width=64,
        height=64,
        hidden=True,
        quality={},
        **facts_of(decision, found, 0, logits, views, assistant.model.id, active),
    )
