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
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, select

from temperance_skin_lesion.store import (
    Activation,
    Case,
    DiagnosisRow,
    Entry,
    MapRow,
    PolicyRow,
    now,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.orm import Session

    from temperance_skin_lesion.store import Store

__all__ = [
    "START",
    "Verified",
    "case_facts",
    "diagnosis_facts",
    "digest",
    "enter",
    "lines",
    "verify",
    "verify_record",
]

START = "0" * 64
"""What stands for the hash before the first entry."""

COVERED = ("id", "at", "by", "kind", "about", "previous")
"""What the hash of an entry covers."""

Facts = dict[str, Any]


def canonical(value: Any) -> bytes:
    """Return JSON that is the same for the same content."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def digest(value: Any) -> str:
    """Return the sha256 of content."""
    return hashlib.sha256(canonical(value)).hexdigest()


def enter(session: Session, by: str, kind: str, about: Facts) -> Entry:
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


def entry_facts(entry: Entry) -> Facts:
    """Return what the hash of an entry covers."""
    return {name: getattr(entry, name) for name in COVERED}


def case_facts(case: Case) -> Facts:
    """Return every column of a case; none is ever changed."""
    return {column: getattr(case, column) for column in Case.__table__.columns.keys()}  # noqa: SIM118


def diagnosis_facts(row: DiagnosisRow) -> Facts:
    """Return what an entry says of a diagnosis, and who entered it."""
    about = {"case": row.case_id, "lesion": row.lesion, "diagnosis": row.code}
    return {**about, "other": row.other, "source": row.source, "by": row.by}


def lines(store: Store, page: int = 500) -> Iterator[str]:
    """Export entries and cases as JSON lines that `verify` can check anywhere.

    They are those of the moment at which the export begins, also where it takes long and others go
    on working: rows are never changed, so that their numbers say which they are.
    """
    with store.reading() as session:
        ends = {table: session.scalar(select(func.max(table.id))) or 0 for table in (Entry, Case)}
    for table, end in ends.items():
        after = 0
        while after < end:
            with store.reading() as session:
                wanted = select(table).where(table.id > after, table.id <= end)
                rows = session.scalars(wanted.order_by(table.id).limit(page)).all()
            yield from map(_line, rows)
            after = rows[-1].id


def _line(row: Entry | Case) -> str:
    if isinstance(row, Entry):
        fact = {"type": "entry", **entry_facts(row), "sha256": row.sha256}
    else:
        fact = {"type": "case", **case_facts(row)}
    return json.dumps(fact, ensure_ascii=False) + "\n"


class Verified(NamedTuple):
    """What came of a check: the newest hash, the hashes of all entries, and all that is wrong."""

    newest: str
    hashes: list[str]
    problems: list[str]


def verify(exported: Iterable[str]) -> Verified:
    """Check an export."""
    return _verified(*_read(exported))


def verify_record(store: Store) -> Verified:
    """Check a record: its chain, its cases, and that its other tables say what the chain says."""
    with store.reading() as session:  # one view: others may go on working
        rows = chain(*(session.scalars(select(t).order_by(t.id)) for t in (Entry, Case)))
        entries, cases, problems = _read(map(_line, rows))
        problems += _table_problems(session, entries)
    return _verified(entries, cases, problems)


def _verified(entries: list[Facts], cases: dict[int, Facts], problems: list[str]) -> Verified:
    """Follow the chain, and compare the cases with it."""
    previous, expected = START, 1
    if not entries:
        problems.append("There is no entry.")
    for entry in entries:
        if entry["id"] != expected:
            place = f"entry {entry['id']} stands in its place"
            problems.append(f"Entry {expected} is missing; {place}.")
        expected = entry["id"] + 1
        if entry["previous"] != previous:
            problems.append(f"Entry {entry['id']} does not follow the entry before it.")
        previous = entry["sha256"]
        if digest({name: entry[name] for name in COVERED}) != previous:
            problems.append(f"Entry {entry['id']} was changed: its hash does not fit its content.")
    hashes = [entry["sha256"] for entry in entries]
    return Verified(previous, hashes, problems + _case_problems(entries, cases))


def _read(exported: Iterable[str]) -> tuple[list[Facts], dict[int, Facts], list[str]]:
    """Return the entries and the cases of an export, and what is wrong with its lines."""
    entries, cases, problems = [], {}, []
    for number, line in enumerate(exported, start=1):
        try:
            fact = json.loads(line, object_pairs_hook=_each_once, parse_constant=_no_number)
        except (ValueError, RecursionError):
            fact = None
        kind = fact.pop("type", None) if isinstance(fact, dict) else None
        if kind == "entry" and _is_entry(fact):
            entries.append(fact)
        elif kind == "case" and isinstance(fact.get("id"), int):
            if cases.setdefault(fact["id"], fact) is not fact:
                problems.append(f"Case {fact['id']} stands there twice.")
        else:
            problems.append(f"Line {number} is neither an entry nor a case.")
    return entries, cases, problems


def _is_entry(fact: Facts) -> bool:
    """Whether an object has the names of an entry, and what its readers suppose of them."""
    return (
        set(fact) == {*COVERED, "sha256"}
        and isinstance(fact["id"], int)
        and isinstance(fact["kind"], str)
        and isinstance(fact["about"], dict)
    )


def _each_once(pairs: list[tuple[str, Any]]) -> Facts:
    """Return an object whose names are there once: readers do not agree on which of two counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _case_problems(entries: list[Facts], cases: dict[int, Facts]) -> list[str]:
    """Compare the cases with the digests that were entered when they were judged."""
    problems, covered = [], set()
    for entry in entries:
        if entry["kind"] not in {"judged", "upgraded"}:
            continue
        numbers = entry["about"].get("cases")
        if not isinstance(numbers, list) or not all(isinstance(n, int) for n in numbers):
            problems.append(f"Entry {entry['id']} names no cases.")
            continue
        covered.update(numbers)
        missing = [n for n in numbers if n not in cases]
        if missing:
            problems.append(f"Cases {_some(missing)} of entry {entry['id']} are missing.")
        elif digest([cases[n] for n in numbers]) != entry["about"].get("digest"):
            problems.append(f"The cases of entry {entry['id']} were changed.")
    stray = sorted(set(cases) - covered)
    if stray:
        problems.append(f"Cases {_some(stray)} belong to no entry.")
    return problems


def _table_problems(session: Session, entries: list[Facts]) -> list[str]:
    """Compare diagnoses, what was in force, maps and policies with their entries."""
    problems = []
    upgraded = [entry["about"] for entry in entries if entry["kind"] == "upgraded"]
    entered = [fact for about in upgraded for fact in about.get("diagnoses", [])]
    entered += [{**e["about"], "by": e["by"]} for e in entries if e["kind"] == "diagnosis"]
    rows = session.scalars(select(DiagnosisRow).order_by(DiagnosisRow.id))
    if [diagnosis_facts(row) for row in rows] != entered:
        problems.append("The diagnoses are not those entered.")
    decided = [e for e in entries if e["kind"].endswith(("accepted", "restored", "set up"))]
    used = session.scalars(select(Activation).order_by(Activation.id)).all()
    before = len(used) - len(decided)  # of an older version, which entered nothing
    known = before == 0 or (before > 0 and upgraded)
    if not known or not all(map(_follows, used[before:], decided)):
        problems.append("What was in force is not what was decided.")
    contents = {("map", row.id): digest(row.artefact) for row in session.scalars(select(MapRow))}
    contents |= {("policy", row.id): row.policy for row in session.scalars(select(PolicyRow))}
    for entry in entries:
        about = entry["about"]
        for what, stated in (("map", about.get("artefact")), ("policy", about.get("content"))):
            if stated is not None and contents.get((what, about.get(what))) != stated:
                problems.append(f"{what.capitalize()} {about.get(what)} is not that of its entry.")
    return problems


def _follows(row: Activation, decided: Facts) -> bool:
    """Whether a row brought into force what an entry says, by whom it says."""
    ids = {"map": row.map_id, "policy": row.policy_id}
    told = {name: decided["about"].get(name) for name in ids}
    return row.by == decided["by"] and all(
        told[name] == number for name, number in ids.items() if isinstance(told[name], int)
    )


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {len(numbers) - 10} more" if len(numbers) > 10 else shown
