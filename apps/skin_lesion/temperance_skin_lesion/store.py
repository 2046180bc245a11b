"""The record: one SQLite file that is added to.

Maps, policies, diagnoses, activations and the chained entries of `temperance_skin_lesion.audit` are
never rewritten: a correction is a new row, and triggers of the database refuse to change or delete
one. Write-ahead logging lets several processes read while one writes; ``synchronous=FULL`` means
that a case which was answered is on the disk. Writers take the lock when they begin (``BEGIN
IMMEDIATE``), so "look, then write" is one step, also between processes: of two people who decide at
the same time, the second is told.

In force are the map and the policy of the newest row of `Activation`; going back is a new row.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    DDL,
    JSON,
    CheckConstraint,
    ForeignKey,
    Index,
    and_,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine

__all__ = [
    "Activation",
    "Attempt",
    "Case",
    "Conflict",
    "DiagnosisRow",
    "Entry",
    "Login",
    "MapRow",
    "Person",
    "PolicyRow",
    "Store",
    "StoreFull",
    "Survey",
    "SurveyImage",
    "private_directory",
]

REVISION = "0003"
"""Newest migration; `temperance_skin_lesion.migrations` has one file for each."""

BUSY_SECONDS = 30


class StoreFull(RuntimeError):
    """Nothing could be written: the disk is full or not writable."""


class Conflict(RuntimeError):
    """Somebody else decided in the meantime."""


def now() -> str:
    """Return the time in UTC, ISO 8601: sorts as text and reads as a date."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Row(DeclarativeBase):
    """What all tables share."""

    type_annotation_map = {dict[str, Any]: JSON, list[float]: JSON, list[Any]: JSON}  # noqa: RUF012


STATUSES = ("proposed", "accepted", "rejected", "refused", "outside", "same")
"""Of maps and policies; the last three are final when they are proposed: nothing to decide."""


def _status_check(table: str) -> CheckConstraint:
    return CheckConstraint(f"status IN {STATUSES}", name=f"{table}_status")


class MapRow(Row):
    """A calibration map with everything that led to it; decided once."""

    __tablename__ = "map"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    origin: Mapped[str]  # "shipped", "survey", "cases"
    survey_id: Mapped[int | None] = mapped_column(ForeignKey("survey.id"))
    model: Mapped[str]
    artefact: Mapped[str]  # JSON as temperance writes it
    verdict: Mapped[str]
    summary: Mapped[dict[str, Any]]  # what the pages show: intervals, findings, prior, class mix
    reference: Mapped[dict[str, Any]]  # number and predicted mix of the rows it was made from
    report: Mapped[str]  # HTML
    status: Mapped[str] = mapped_column(default="proposed")
    decided: Mapped[str | None]
    decided_by: Mapped[str | None]

    __table_args__ = (_status_check("map"),)


class PolicyRow(Row):
    """When the assistant answers: a proposal with its comparison, decided once."""

    __tablename__ = "policy"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    policy: Mapped[dict[str, Any]]
    reason: Mapped[str] = mapped_column(default="")
    objection: Mapped[str] = mapped_column(default="")
    comparison: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(default="proposed")
    decided: Mapped[str | None]
    decided_by: Mapped[str | None]

    __table_args__ = (_status_check("policy"),)


class Activation(Row):
    """The moment a map or a policy came into force, with what was in force beside it."""

    __tablename__ = "activation"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    map_id: Mapped[int] = mapped_column(ForeignKey("map.id"))
    policy_id: Mapped[int] = mapped_column(ForeignKey("policy.id"))
    map: Mapped[MapRow] = relationship()
    policy: Mapped[PolicyRow] = relationship()


class Case(Row):
    """One picture that was looked at; never its name, which may be a person's."""

    __tablename__ = "case"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    sha256: Mapped[str]
    lesion: Mapped[str]  # a pseudonym, or the hash of the only picture
    site: Mapped[str] = mapped_column(default="")
    camera: Mapped[str] = mapped_column(default="")
    width: Mapped[int]
    height: Mapped[int]
    kept: Mapped[str | None]  # format of the picture on disk, if it was kept
    repeats: Mapped[int | None]  # the first case with the same picture
    hidden: Mapped[bool] = mapped_column(default=False)  # judged in silent mode
    model: Mapped[str]
    map_id: Mapped[int] = mapped_column(ForeignKey("map.id"))
    policy_id: Mapped[int] = mapped_column(ForeignKey("policy.id"))
    logits: Mapped[list[float]]
    views: Mapped[list[Any]]  # logits of the eight orientations
    probabilities: Mapped[list[float]]
    malignant: Mapped[list[float]]  # probability of any malignant class: value, low, high
    agreement: Mapped[int | None]  # orientations that name the predicted class
    quality: Mapped[dict[str, Any]]
    predicted: Mapped[int]
    decision: Mapped[str]
    urgency: Mapped[str]
    rule: Mapped[str]  # the first that fired
    why: Mapped[str]
    rules: Mapped[list[Any]]  # all that fired, each with its sentence

    __table_args__ = (
        CheckConstraint("decision IN ('answer', 'refer')", name="case_decision"),
        CheckConstraint("urgency IN ('urgent', 'soon', 'routine', 'retake')", name="case_urgency"),
        Index("case_created", "created"),
        Index("case_sha256", "sha256"),
        Index("case_lesion", "lesion"),
        Index("case_urgency_id", "urgency", "id"),
    )


class DiagnosisRow(Row):
    """A later diagnosis of a case; the newest of a lesion holds, none is ever changed."""

    __tablename__ = "diagnosis"

    id: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("case.id"))
    lesion: Mapped[str]
    at: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    code: Mapped[str | None]  # a class, "other", or null: the former one is taken back
    other: Mapped[str] = mapped_column(default="")
    source: Mapped[str]

    __table_args__ = (Index("diagnosis_lesion", "lesion", "id"),)


class Survey(Row):
    """Unlabelled pictures of a clinic, collected for a calibration."""

    __tablename__ = "survey"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    note: Mapped[str] = mapped_column(default="")


class SurveyImage(Row):
    """What is kept of a survey's picture: its hash, once, and its logits."""

    __tablename__ = "survey_image"

    survey_id: Mapped[int] = mapped_column(ForeignKey("survey.id"), primary_key=True)
    sha256: Mapped[str] = mapped_column(primary_key=True)
    logits: Mapped[list[float]]


class Person(Row):
    """An account."""

    __tablename__ = "person"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    password: Mapped[str]  # Argon2id; empty where an identity provider knows the person
    closed: Mapped[str | None]
    subject: Mapped[str | None]  # issuer and subject at the identity provider

    __table_args__ = (
        CheckConstraint("role IN ('reader', 'clinician', 'approver')", name="person_role"),
        Index("person_subject", "subject", unique=True),
    )


class Login(Row):
    """A session; only the hash of its secret is kept."""

    __tablename__ = "login"

    sha256: Mapped[str] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id"))
    at: Mapped[str] = mapped_column(default=now)
    until: Mapped[str]


class Attempt(Row):
    """A failed login."""

    __tablename__ = "attempt"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str] = mapped_column(default=now)
    name: Mapped[str]
    address: Mapped[str]

    __table_args__ = (Index("attempt_at", "at"),)


class Entry(Row):
    """An entry of the audit chain; see `temperance_skin_lesion.audit`."""

    __tablename__ = "entry"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str] = mapped_column(default=now)
    by: Mapped[str]
    kind: Mapped[str]
    about: Mapped[dict[str, Any]]
    previous: Mapped[str]
    sha256: Mapped[str]


ADDED_ONLY = ("activation", "diagnosis", "entry")


def triggers() -> list[str]:
    """Statements after which rows of `ADDED_ONLY` cannot be changed or deleted."""
    return [
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} BEGIN "
        f"SELECT RAISE(ABORT, '{table} is added to and never rewritten'); END"
        for table in ADDED_ONLY
        for verb in ("UPDATE", "DELETE")
    ]


for _statement in triggers():
    event.listen(Row.metadata, "after_create", DDL(_statement))


class Store:
    """The database, opened for one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _private_file(path)
        # Tables are rebuilt by an upgrade: references are checked at its end instead.
        self._engine = _engine(path, "OFF")
        with self.writing() as session:
            unclean = self._prepare_schema(session)
        if unclean:
            self._forget()
        self._engine.dispose()
        self._engine = _engine(path, "ON")

    def _prepare_schema(self, session: Session) -> bool:
        """Create the tables, or bring those of an older version up to date.

        Returns whether dropped content of an older version may still be in the file. Such a version
        counted its schema in ``user_version``, which is 0 in a record that was cleaned.
        """
        connection = session.connection()
        version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        tables = set(
            connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
            .scalars()
            .all()
        )
        if "alembic_version" in tables:
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
            if found == REVISION:
                return bool(version)
        elif "case" not in tables:
            if version:
                raise RuntimeError(f"{self.path} was written by a newer version ({version}).")
            Row.metadata.create_all(connection)
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (REVISION,))
            return False
        from temperance_skin_lesion.migrations import upgrade

        upgrade(connection, self.path)
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        if broken:
            raise RuntimeError(f"{self.path} could not be upgraded: references are broken.")
        from temperance_skin_lesion import audit

        cases = session.scalars(select(Case).order_by(Case.id)).all()
        covered = audit.digest([audit.case_facts(case) for case in cases])
        about = {"to": REVISION, "cases": [case.id for case in cases], "digest": covered}
        if session.scalar(select(Entry.id).limit(1)) is None:  # diagnoses of before the chain
            rows = session.scalars(select(DiagnosisRow).order_by(DiagnosisRow.id))
            about["diagnoses"] = [audit.diagnosis_facts(row) for row in rows]
        audit.enter(session, "upgrade", "upgraded", about)
        return True

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a consistent view that blocks nobody."""
        with self._session(write=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a transaction that holds the write lock from its beginning."""
        with self._session(write=True) as session:
            yield session

    @contextmanager
    def _session(self, *, write: bool) -> Iterator[Session]:
        engine = self._engine.execution_options(write=write)
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except OperationalError as error:
            if any(word in str(error.orig) for word in ("full", "readonly", "disk I/O")):
                raise StoreFull(
                    "The record could not be written: the disk is full or not writable. Nothing "
                    "of this request was kept; free some space and send it again."
                ) from error
            raise

    def _forget(self) -> None:
        """Write the file anew, so that what was dropped is not left in pages thought free.

        The mark is taken away last: whoever was stopped on the way does it when opened again.
        """
        connection = self._engine.raw_connection()  # the only one outside any transaction
        steps = ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA user_version = 0")
        try:
            for command in steps:
                connection.cursor().execute(command)
        except sqlite3.OperationalError as error:
            raise StoreFull(
                "The record was converted, but what an older version left in its file could not be "
                "removed: the disk is full or not writable. Free some space and start again."
            ) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter; one that holds a record is made so."""
    if not path.exists():
        path.mkdir(parents=True, mode=0o700)
    elif next(path.glob("assistant.sqlite3"), None) is not None and path.stat().st_mode & 0o077:
        path.chmod(0o700)


def _private_file(path: Path) -> None:
    """Make the file of the record before SQLite does, readable by its owner only."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if path.stat().st_mode & 0o077:
        for file in path.parent.glob(f"{path.name}*"):
            file.chmod(0o600)


def in_force(session: Session) -> Activation | None:
    """Return the newest activation."""
    return session.scalar(select(Activation).order_by(Activation.id.desc()).limit(1))


def newest_diagnoses(session: Session, lesions: list[str]) -> dict[str, DiagnosisRow]:
    """Return the diagnosis that holds for each lesion; one taken back is none."""
    holding = select(DiagnosisRow).where(_holds(), DiagnosisRow.lesion.in_(lesions))
    return {row.lesion: row for row in session.scalars(holding)}


def diagnosed_codes(session: Session) -> dict[str, str]:
    """Return the code of the diagnosis that holds for each lesion that has one."""
    rows = session.execute(select(DiagnosisRow.lesion, DiagnosisRow.code).where(_holds()))
    return {lesion: str(code) for lesion, code in rows}


def newest(session: Session) -> tuple[int | None, int | None]:
    """Return the numbers of the newest case and of the newest diagnosis: what evidence is there."""
    return session.scalar(select(func.max(Case.id))), session.scalar(
        select(func.max(DiagnosisRow.id))
    )


def is_diagnosed() -> Any:
    """Whether the lesion of a case has a diagnosis, as a condition on `Case`."""
    return Case.lesion.in_(select(DiagnosisRow.lesion).where(_holds()))


def _holds() -> Any:
    """Whether a diagnosis is the newest of its lesion and was not taken back."""
    newest = select(func.max(DiagnosisRow.id)).group_by(DiagnosisRow.lesion)
    return and_(DiagnosisRow.id.in_(newest), DiagnosisRow.code.is_not(None))


def count(session: Session, statement: Any) -> int:
    """Count the rows of a select."""
    return session.scalar(select(func.count()).select_from(statement.subquery())) or 0


def _engine(path: Path, foreign_keys: str) -> Engine:
    """Return an engine whose connections are set up as the record needs them."""

    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun by hand
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            f"foreign_keys = {foreign_keys}",
            f"busy_timeout = {BUSY_SECONDS * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Any) -> None:
    """Begin by hand: the driver would wait for the first write, and then find a stale view."""
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
