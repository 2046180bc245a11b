"""The audit chain: who decided what, in an order that cannot be changed unnoticed.

Each entry holds the hash of the one before it, and its own hash covers number, time, person, kind,
content and that former hash. Whoever keeps a copy of the newest hash can tell later whether
anything before it was changed, left out or put in. A batch of cases enters with the digest of its
rows, so the cases are covered too; maps enter with the hash of their artefact, policies and
diagnoses in full.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from temperance_skin_lesion.store import Case, Entry, now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.orm import Session

    from temperance_skin_lesion.store import Store

__all__ = ["START", "case_facts", "digest", "enter", "lines", "verify"]

START = "0" * 64
"""What stands for the hash before the first entry."""


def canonical(value: Any) -> bytes:
    """Return JSON that is the same for the same content."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def digest(value: Any) -> str:
    """Return the sha256 of content."""
    return hashlib.sha256(canonical(value)).hexdigest()


def enter(session: Session, by: str, kind: str, about: dict[str, Any]) -> Entry:
    """Add an entry in the transaction of the change that it tells of."""
    last = session.scalar(select(Entry).order_by(Entry.id.desc()).limit(1))
    entry = Entry(
        id=(last.id if last else 0) + 1,
        at=now(),
        by=by,
        kind=kind,
        about=about,
        previous=last.sha256 if last else START,
    )
    entry.sha256 = digest(entry_facts(entry))
    session.add(entry)
    session.flush()
    return entry


def entry_facts(entry: Entry) -> dict[str, Any]:
    """Return what the hash of an entry covers."""
    return {name: getattr(entry, name) for name in ("id", "at", "by", "kind", "about", "previous")}


def case_facts(case: Case) -> dict[str, Any]:
    """Return every column of a case; none is ever changed."""
    return {column: getattr(case, column) for column in Case.__table__.columns.keys()}  # noqa: SIM118


def lines(store: Store, page: int = 500) -> Iterator[str]:
    """Export entries and cases as JSON lines that `verify` can check anywhere."""
    for table, kind in ((Entry, "entry"), (Case, "case")):
        after = 0
        while True:
            with store.reading() as session:
                wanted = select(table).where(table.id > after).order_by(table.id).limit(page)
                rows = session.scalars(wanted).all()
                facts = [
                    {**entry_facts(row), "sha256": row.sha256}
                    if isinstance(row, Entry)
                    else case_facts(row)
                    for row in rows
                ]
            for fact in facts:
                yield json.dumps({"type": kind, **fact}, ensure_ascii=False) + "\n"
            if len(rows) < page:
                break
            after = rows[-1].id


def verify(exported: Iterable[str]) -> tuple[str, int, list[str]]:
    """Check an export.

    Returns the newest hash, the number of entries, and a sentence for everything that is wrong.
    """
    entries, cases = [], {}
    for line in exported:
        fact = json.loads(line)
        kind = fact.pop("type")
        if kind == "entry":
            entries.append(fact)
        else:
            cases[fact["id"]] = fact
    problems, previous = [], START
    for number, entry in enumerate(entries, start=1):
        stated = entry.pop("sha256")
        if entry["id"] != number:
            problems.append(f"Entry {number} is missing; entry {entry['id']} stands in its place.")
        if entry["previous"] != previous:
            problems.append(f"Entry {entry['id']} does not follow the entry before it.")
        if digest(entry) != stated:
            problems.append(f"Entry {entry['id']} was changed: its hash does not fit its content.")
        previous = stated
    return previous, len(entries), problems + _case_problems(entries, cases)


def _case_problems(entries: list[dict[str, Any]], cases: dict[int, Any]) -> list[str]:
    """Compare the cases with the digests that were entered when they were judged."""
    problems, covered = [], set()
    for entry in entries:
        if entry["kind"] not in {"judged", "upgraded"}:
            continue
        numbers = entry["about"]["cases"]
        covered.update(numbers)
        missing = [n for n in numbers if n not in cases]
        if missing:
            problems.append(f"Cases {_some(missing)} of entry {entry['id']} are missing.")
        elif digest([cases[n] for n in numbers]) != entry["about"]["digest"]:
            problems.append(f"The cases of entry {entry['id']} were changed.")
    stray = sorted(set(cases) - covered)
    if stray:
        problems.append(f"Cases {_some(stray)} belong to no entry.")
    return problems


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {len(numbers) - 10} more" if len(numbers) > 10 else shown
