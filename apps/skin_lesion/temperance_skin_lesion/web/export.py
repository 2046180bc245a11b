"""The log as text: CSV for spreadsheets, JSON lines for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.store import Case, newest_diagnoses
from temperance_skin_lesion.web.schemas import CaseOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from temperance_skin_lesion.store import Store

__all__ = ["csv_lines", "json_lines"]


def csv_lines(store: Store) -> Iterator[str]:
    """The log as CSV; text that people typed cannot start a formula."""
    fixed = ("id", "created", "by", "sha256", "lesion", "site", "camera", "repeats", "model", "map")
    said = ("policy", "urgency", "decision", "predicted", "agreement", "rule", "why")
    ends = ("p_malignant", "p_malignant_low", "p_malignant_high")
    later = ("diagnosis", "diagnosis_other", "diagnosis_source", "diagnosed", "diagnosed_by")
    columns = [f"p_{code}" for code in CODES] + [f"raw_{code}" for code in CODES]
    yield _csv([*fixed, *said, *ends, "rules", *later, *columns])
    for case in all_cases(store):
        facts = case.model_dump()
        values = [facts[name] for name in (*fixed, *said)]
        values += list(case.malignant or ("", "", ""))
        values.append("; ".join(rule.rule for rule in case.rules or []))
        known = case.diagnosis
        values += [known.code, known.other, known.source, known.at, known.by] if known else [""] * 5
        for shares in (case.probabilities, case.raw):
            values += list(shares.values()) if shares else [""] * len(CODES)
        yield _csv(values)


def json_lines(store: Store) -> Iterator[str]:
    """The log as a JSON object per line."""
    for case in all_cases(store):
        yield json.dumps(case.model_dump()) + "\n"


def all_cases(store: Store, page: int = 500) -> Iterator[CaseOut]:
    """Every case, oldest first, read in pages so that nobody is kept waiting."""
    after = 0
    while True:
        with store.reading() as session:
            wanted = select(Case).where(Case.id > after).order_by(Case.id).limit(page)
            rows = session.scalars(wanted).all()
            known = newest_diagnoses(session, [case.lesion for case in rows])
            cases = [CaseOut.of(case, known.get(case.lesion)) for case in rows]
        yield from cases
        if len(cases) < page:
            return
        after = cases[-1].id


def _csv(values: list[Any]) -> str:
    buffer = io.StringIO()
    safe = [f"'{v}" if isinstance(v, str) and v[:1] in set("=+-@\t\r") else v for v in values]
    csv.writer(buffer).writerow(safe)
    return buffer.getvalue()
