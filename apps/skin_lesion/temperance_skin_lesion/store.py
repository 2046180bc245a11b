"""The record: every case, map and policy in one SQLite file, appended to and never rewritten.

Write-ahead logging lets several processes read while one writes; ``synchronous=FULL`` means that a
case which was answered is on the disk. Writers take the lock when they begin (``BEGIN IMMEDIATE``),
so "look, then write" is one step, also between processes: of two people who accept maps at the same
time, the second is told.

What is active is the newest row of `Activation` and of `PolicyRow`; going back is a new row.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKey,
    Index,
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

__all__ = [
    "Activation",
    "Case",
    "Conflict",
    "MapRow",
    "PolicyRow",
    "Store",
    "StoreFull",
    "Survey",
    "SurveyImage",
]

SCHEMA = 2
"""Since 2 without the names of files."""

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


class MapRow(Row):
    """A calibration map with everything that led to it; judged once, never changed."""

    __tablename__ = "map"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    origin: Mapped[str]  # "shipped", "survey", "cases"
    survey_id: Mapped[int | None] = mapped_column(ForeignKey("survey.id"))
    model: Mapped[str]
    artefact: Mapped[str]  # JSON as temperance writes it
    verdict: Mapped[str]
    summary: Mapped[dict[str, Any]]  # what the pages show: intervals, findings, prior, class mix
    reference: Mapped[dict[str, Any]]  # mix and confidence that drift is measured from
    within_agreement: Mapped[bool]
    report: Mapped[str]  # HTML
    status: Mapped[str] = mapped_column(default="proposed")
    decided: Mapped[str | None]

    __table_args__ = (
        CheckConstraint("status IN ('proposed', 'accepted', 'rejected')", name="map_status"),
    )


class Activation(Row):
    """The moment a map came into use."""

    __tablename__ = "activation"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str] = mapped_column(default=now)
    map_id: Mapped[int] = mapped_column(ForeignKey("map.id"))
    map: Mapped[MapRow] = relationship()


class PolicyRow(Row):
    """When the assistant answered, from ``at`` until the next row."""

    __tablename__ = "policy"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str] = mapped_column(default=now)
    policy: Mapped[dict[str, Any]]


class Case(Row):
    """One picture that was looked at; never its name, which may be a person's."""

    __tablename__ = "case"

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[str] = mapped_column(default=now)
    sha256: Mapped[str]
    width: Mapped[int]
    height: Mapped[int]
    model: Mapped[str]
    map_id: Mapped[int] = mapped_column(ForeignKey("map.id"))
    policy_id: Mapped[int] = mapped_column(ForeignKey("policy.id"))
    logits: Mapped[list[float]]
    probabilities: Mapped[list[float]]
    predicted: Mapped[int]
    decision: Mapped[str]
    rule: Mapped[str]
    why: Mapped[str]
    diagnosis: Mapped[int | None]
    diagnosed: Mapped[str | None]

    __table_args__ = (
        CheckConstraint("decision IN ('answer', 'refer')", name="case_decision"),
        Index("case_created", "created"),
        Index("case_sha256", "sha256"),
    )


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


class Store:
    """The database, opened for one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
        event.listen(self._engine, "connect", _prepare)
        event.listen(self._engine, "begin", _begin)
        with self.writing() as session:
            Row.metadata.create_all(session.connection())
            version = session.connection().exec_driver_sql("PRAGMA user_version").scalar_one()
            if version > SCHEMA:
                msg = f"{path} was written by a newer version (schema {version}, here {SCHEMA})."
                raise RuntimeError(msg)
            if version == 1:
                session.connection().exec_driver_sql('ALTER TABLE "case" DROP COLUMN name')
            session.connection().exec_driver_sql(f"PRAGMA user_version = {SCHEMA}")
        if version == 1:
            self._forget()

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
        """Write the file anew, so that what was dropped is not left in pages thought free."""
        connection = self._engine.raw_connection()  # the only one outside any transaction
        try:
            for command in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                connection.cursor().execute(command)
        finally:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def active_map(session: Session) -> Activation | None:
    """Return the newest activation."""
    return session.scalar(select(Activation).order_by(Activation.id.desc()).limit(1))


def active_policy(session: Session) -> PolicyRow | None:
    """Return the newest policy."""
    return session.scalar(select(PolicyRow).order_by(PolicyRow.id.desc()).limit(1))


def count(session: Session, statement: Any) -> int:
    """Count the rows of a select."""
    return session.scalar(select(func.count()).select_from(statement.subquery())) or 0


def _prepare(connection: Any, _record: Any) -> None:
    """Set what SQLite keeps per connection, and leave transactions to us."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"busy_timeout = {BUSY_SECONDS * 1000}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Any) -> None:
    """Begin by hand: the driver would wait for the first write, and then find a stale view."""
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
