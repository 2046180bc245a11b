"""Every write of the record, killed at every statement and on a disk that is full after some bytes.

Run by `test_held.py` in a process of its own, which forks: ``python every_write.py DIRECTORY``.
Each write is tried on a copy of one record; a record is also set up and converted from an older
version in this way. A line of JSON for each write says what was found.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

import numpy as np
from argon2 import PasswordHasher
from sqlalchemy import event

from temperance_skin_lesion import audit, changes, clinic, intake, model, people, policies
from temperance_skin_lesion import store as db
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.decision import Policy
from temperance_skin_lesion.drawings import lesion_file
from temperance_skin_lesion.store import MapRow, Store, StoreFull
from temperance_skin_lesion.web import api, schemas

PASSWORD = "correct horse battery"  # noqa: S105
WIDE = Agreement(temperature=(0.01, 100), bias=100, rows=1)
FULL, DONE, WRONG = 3, 0, 1

content = lesion_file(0, side=128)
picture = intake.read(content, "a.jpg")


class Blind(model.Model):
    """A model without its network, which a fork need not copy: what is tested is the writing."""

    __slots__ = ()

    def look(self, images):
        rows = len(images)
        known = np.zeros(rows, dtype=bool)
        return model.Look(self.source.logits[:rows], self.source.views[:rows], known)


def load():
    with np.load(model.SHIPPED / "source.npz") as rows:
        names = ("logits", "views", "labels", "groups")
        source = model.Source(*(rows[name] for name in names))
    facts = json.loads((model.SHIPPED / "model.json").read_text("utf-8"))
    return Blind(None, source, None, facts)


loaded = load()
cheap = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
people.hasher = lambda: cheap


def writes(assistant):
    """Each write as a function without arguments; numbers are those of `prepare`."""
    store = assistant.store
    with store.reading() as session:
        now = assistant.active(session).activation
        rows = clinic.survey_rows(session, 1)
    session_secret = (store.path.parent / "secret").read_text()
    approver = people.User("ada", "approver")
    diagnosis = schemas.Diagnosis(diagnosis="mel", source="histology")
    other = Policy(threshold=0.75)
    proposed = {"origin": "survey", "survey_id": 1, "by": "ada"}
    return {
        "judge": lambda: assistant.judge([picture], [content], by="ada"),
        "diagnose": lambda: api.diagnose(assistant, approver, 1, diagnosis),
        "open survey": lambda: clinic.open_survey(assistant),
        "add pictures": lambda: clinic.add_pictures(assistant, 2, [picture]),
        "propose map": lambda: clinic.propose(assistant, rows, None, WIDE, **proposed),
        "accept map": lambda: changes.accept(assistant, clinic.MAPS, 2, now, WIDE, by="ada"),
        "reject map": lambda: changes.reject(assistant, clinic.MAPS, 2, by="ada"),
        "restore map": lambda: changes.restore(assistant, clinic.MAPS, 3, now, WIDE, by="ada"),
        "propose rules": lambda: policies.propose(assistant, other, WIDE, by="ada"),
        "accept rules": lambda: changes.accept(
            assistant, policies.POLICIES, 2, now, WIDE, by="ada"
        ),
        "reject rules": lambda: changes.reject(assistant, policies.POLICIES, 2, by="ada"),
        "add account": lambda: people.add(store, "bob", "reader", PASSWORD, "ada"),
        "change account": lambda: people.change(store, "ada", "ada", role="reader"),
        "log in": lambda: people.log_in(store, "ada", PASSWORD, "127.0.0.1"),
        "log in from elsewhere": lambda: people.log_in_from(
            store, "https://id.example", "1", "eve", "reader"
        ),
        "log out": lambda: people.log_out(store, session_secret),
    }


def prepare(directory):
    """Make the record that every write is tried on."""
    assistant = opened(directory)
    assistant.judge([picture], [content], by="ada")
    people.add(assistant.store, "ada", "approver", PASSWORD, "console")
    secret = people.log_in(assistant.store, "ada", PASSWORD, "127.0.0.1")
    (directory / "secret").write_text(secret)
    for _ in range(2):
        clinic.open_survey(assistant)
    rng = np.random.default_rng(0)
    with assistant.store.writing() as session:
        for i, z in enumerate(rng.normal(0, 3, (60, 7)).tolist()):
            session.add(clinic.SurveyImage(survey_id=1, sha256=f"{i:064x}", logits=[z] * 9))
        for status in ("proposed", "accepted"):
            facts = {c.name: getattr(session.get(MapRow, 1), c.name) for c in MapRow.__table__.c}
            session.add(MapRow(**facts | {"id": None, "status": status}))
    policies.propose(assistant, Policy(threshold=0.72), WIDE, by="ada")
    assistant.store.close()


def opened(directory):
    return Assistant(loaded, Store(directory / "assistant.sqlite3"), directory / "images")


def content_of(directory, before=None):
    """All rows of all tables, and the names of the pictures; the record must be sound.

    Rows as they were ``before`` have a chain that was verified.
    """
    path = directory / "assistant.sqlite3"
    with sqlite3.connect(path) as connection:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise AssertionError("integrity")
        if connection.execute("PRAGMA foreign_key_check").fetchall():
            raise AssertionError("references")
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        rows = {
            table: connection.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608
            for (table,) in tables
            if table != "attempt"  # a guess is counted before it is looked at, and stays counted
        }
    connection.close()
    if before is None or repr(rows) != before[0]:
        store = Store(path)
        problems = audit.verify_record(store).problems
        store.close()
        if problems:
            raise AssertionError(problems)
    kept = sorted(p.name for p in (directory / "images").iterdir())
    return repr(rows), [name for name in kept if not name.endswith(".partial")]


def tried(base, place, name, before, hinder):
    """Do one write in a child on a copy of the record; return how it ended and what is there."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base, place)
    child = os.fork()
    if not child:
        code = WRONG
        try:
            assistant = opened(place)
            write = writes(assistant)[name]
            hinder(assistant)
            write()
            code = DONE
        except StoreFull as error:
            code = FULL if "Nothing of this request was kept" in str(error) else WRONG
        except OSError as error:  # a picture that cannot be kept; the server says 507
            code = FULL if error.errno == 27 else WRONG
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status, content_of(place, before)


def killing(number, events):
    """Return a function that listens to an engine; the process is killed at one of its events."""
    count = 0

    def one(*_args):
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def listen(engine):
        for name in events:
            event.listen(engine, name, one)
        return engine

    return listen


STATEMENTS = ("before_cursor_execute", "commit")


def killed_at(number):
    """Kill the process before its statement of that number, commits included."""
    return lambda assistant: killing(number, STATEMENTS)(assistant.store._engine)


def full_after(bytes_left):
    """Let every file grow to so many bytes more than the log of the record has now, and no more."""

    def hinder(assistant):
        log = Path(f"{assistant.store.path}-wal")
        limit = (log.stat().st_size if log.exists() else 0) + bytes_left
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return hinder


OLD = Path(__file__).parent / "data" / "record_schema_2.sql"
NAME = b"Jane Doe"


def older(directory):
    """Write a record as the first version did, which kept the names of files."""
    with sqlite3.connect(directory / "assistant.sqlite3") as connection:
        connection.executescript(OLD.read_text("utf-8"))
        connection.execute('ALTER TABLE "case" ADD COLUMN name VARCHAR NOT NULL DEFAULT "x"')
        connection.execute('UPDATE "case" SET name = ?', (f"{NAME.decode()}.jpg",))
        connection.execute("PRAGMA user_version = 1")
    connection.close()


def schema_of(directory):
    """What the record says of itself, and its number of cases; None before there is any table."""
    path = directory / "assistant.sqlite3"
    if not path.exists():
        return None
    with sqlite3.connect(path) as connection:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise AssertionError("integrity")
        schema = connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        cases = schema and connection.execute('SELECT count(*) FROM "case"').fetchone()
    connection.close()
    return (schema, cases) if schema else None


def opened_anew(base, place, hinder):
    """Open a copy of a record in a child that is hindered, and then without hindrance.

    Returns how the child ended and what is wrong afterwards.
    """
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base, place)
    before = schema_of(place)
    child = os.fork()
    if not child:
        code = WRONG
        try:
            hinder(place)
            opened(place)
            code = DONE
        except StoreFull as error:
            code = FULL if "disk is full" in str(error) else WRONG
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    between = schema_of(place)
    opened(place).store.close()
    after = schema_of(place)
    wrong = [] if between in (before, after) else ["half of the record was converted"]
    if before and before[1] != after[1]:
        wrong.append("cases were lost")
    if any(NAME in path.read_bytes() for path in place.glob("assistant.sqlite3*")):
        wrong.append("a name was kept")
    store = Store(place / "assistant.sqlite3")
    wrong += audit.verify_record(store).problems
    store.close()
    return status, wrong


def kill_while_opening(number):
    """Kill the process at its statement or connection of that number while it opens a record."""

    def hinder(_place):
        listen, engine = killing(number, (*STATEMENTS, "checkout")), db._engine
        db._engine = lambda *given: listen(engine(*given))

    return hinder


def full_while_opening(bytes_left):
    """Let no file grow beyond the record and so many bytes more."""

    def hinder(place):
        path = place / "assistant.sqlite3"
        limit = (path.stat().st_size if path.exists() else 0) + bytes_left
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return hinder


def openings(directory):
    """Set up a new record and convert an old one, hindered everywhere."""
    for name in ("set up", "convert"):
        base = directory / name.replace(" ", "-")
        base.mkdir()
        if name == "convert":
            older(base)
        found = {"write": name, "killed": 0, "full": 0, "wrong": []}
        for number in range(1, 1000):
            status, wrong = opened_anew(base, directory / "try", kill_while_opening(number))
            found["wrong"] += [f"killed at {number}: {one}" for one in wrong]
            if not os.WIFSIGNALED(status):
                found["wrong"] += [f"not killed, and status {status}"] if status != DONE else []
                break
            found["killed"] += 1
        for bytes_left in (0, 8400, 100_000):
            status, wrong = opened_anew(base, directory / "try", full_while_opening(bytes_left))
            found["wrong"] += [f"{bytes_left} bytes left: {one}" for one in wrong]
            found["full"] += os.waitstatus_to_exitcode(status) == FULL
            if os.waitstatus_to_exitcode(status) not in {FULL, DONE}:
                found["wrong"].append(f"{bytes_left} bytes left: status {status}")
        print(json.dumps(found), flush=True)


def main(directory):
    base, place = directory / "base", directory / "try"
    base.mkdir()
    prepare(base)
    before = content_of(base)
    for name in writes(opened(base)):
        found = {"write": name, "killed": 0, "full": 0, "wrong": []}
        for number in range(1, 100):
            status, after = tried(base, place, name, before, killed_at(number))
            if os.WIFSIGNALED(status):
                found["killed"] += 1
                if after[0] != before[0]:
                    found["wrong"].append(f"killed at statement {number}: rows changed")
                continue
            if status != DONE or after == before:
                found["wrong"].append(f"not killed, and status {status}")
            break
        for bytes_left in (0, 8400):
            status, after = tried(base, place, name, before, full_after(bytes_left))
            if os.waitstatus_to_exitcode(status) == FULL:
                found["full"] += 1
                if after != before:
                    found["wrong"].append(f"full after {bytes_left} bytes: something was kept")
            elif status != DONE or after == before:
                found["wrong"].append(f"{bytes_left} bytes left: status {status}")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    openings(Path(sys.argv[1]))
