"""Records of older versions are opened, converted whole, and look like new ones."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, select

from temperance_skin_lesion import audit, clinic, monitor, policies
from temperance_skin_lesion import store as db
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.store import Activation, Case, DiagnosisRow, MapRow, Row, Store

DUMP = Path(__file__).parent / "data" / "record_schema_2.sql"


@pytest.fixture
def old(tmp_path):
    """A record as the version before Alembic wrote it: 7 cases, 2 diagnoses, 2 policies."""
    path = tmp_path / "assistant.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.executescript(DUMP.read_text("utf-8"))
    connection.close()
    return path


def test_nothing_of_an_older_record_is_lost(old, model):
    with sqlite3.connect(old) as connection:
        cases = connection.execute(
            'SELECT id, sha256, logits, why, map_id, policy_id FROM "case"'
        ).fetchall()
    connection.close()
    store = Store(old)
    with sqlite3.connect(old) as connection:
        after = connection.execute(
            'SELECT id, sha256, logits, why, map_id, policy_id FROM "case"'
        ).fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    assert after == cases
    with store.reading() as session:
        known = session.scalars(select(DiagnosisRow).order_by(DiagnosisRow.id)).all()
        assert [(row.case_id, row.code) for row in known] == [(2, "mel"), (6, "nv")]
        steps = session.execute(select(Activation.map_id, Activation.policy_id)).all()
        assert [tuple(step) for step in steps] == [(1, 1), (1, 2)]
        assert [row.status for row in session.scalars(select(MapRow))] == ["accepted", "refused"]
        assert session.get(Case, 6).repeats == 1
        assert session.get(Case, 7).urgency == "retake"
        codes = db.diagnosed_codes(session)
        assert codes[session.get(Case, 1).lesion] == "nv"  # the same picture as case 6
        assert clinic.last_mix(session) is None  # an older version estimated it
    assert audit.verify_record(store).problems == []
    entry = json.loads(next(iter(audit.lines(store))))
    told = [(d["case"], d["diagnosis"]) for d in entry["about"]["diagnoses"]]
    assert told == [(2, "mel"), (6, "nv")]
    # The new version goes on from there: its own model, the rules that were in force.
    assistant = Assistant(model, store)
    with store.reading() as session:
        active = assistant.active(session)
        assert active.policy_id == 2
        assert active.map_row.model == model.id
        assert len(monitor.evidence(session).cases) >= 2
    store.close()


def test_rules_that_nobody_agreed_on_are_kept_readable_and_objected_to(old, model):
    """The version before had no agreed range: whatever was typed was in force."""
    unsafe = {"threshold": 0, "melanoma_threshold": 0, "melanoma_ceiling": 1}
    with sqlite3.connect(old) as connection:
        (text,) = connection.execute("SELECT policy FROM policy WHERE id = 2").fetchone()
        changed = json.dumps(json.loads(text) | unsafe)
        connection.execute("UPDATE policy SET policy = ? WHERE id = 2", (changed,))
    connection.close()
    store = Store(old)
    assistant = Assistant(model, store)
    with store.reading() as session:
        active = assistant.active(session)
    assert active.policy_id == 2
    assert active.policy.melanoma_ceiling == 1
    assert "at least 0.5 is agreed" in policies.outside(assistant, Agreement())
    store.close()


def test_a_converted_record_looks_like_a_new_one(old, tmp_path):
    Store(old).close()
    Store(tmp_path / "new.sqlite3").close()
    schemas = []
    for path in (old, tmp_path / "new.sqlite3"):
        engine = create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            difference = compare_metadata(MigrationContext.configure(connection), Row.metadata)
            assert [d for d in difference if "alembic_version" not in str(d)] == []
            schemas.append(
                set(
                    connection.exec_driver_sql(
                        "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
                    ).all()
                )
            )
        engine.dispose()
    assert schemas[0] == schemas[1]


def test_names_of_files_in_a_still_older_record_are_forgotten(old):
    with sqlite3.connect(old) as connection:  # as version 1 wrote it
        connection.execute('ALTER TABLE "case" ADD COLUMN name VARCHAR NOT NULL DEFAULT "x"')
        connection.execute("""UPDATE "case" SET name = 'Jane Doe.jpg'""")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert b"Jane Doe" in old.read_bytes()
    Store(old).close()
    assert not [p for p in old.parent.glob(f"{old.name}*") if b"Jane Doe" in p.read_bytes()]


def test_a_record_is_converted_once(old):
    Store(old).close()
    with sqlite3.connect(old) as connection:
        before = connection.execute("SELECT count(*) FROM entry").fetchone()
    Store(old).close()
    with sqlite3.connect(old) as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == before
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            (db.REVISION,)
        ]
    connection.close()
