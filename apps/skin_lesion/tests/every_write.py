"""Every write of the record, killed at every statement and on a disk that is full after some bytes.

Run by `test_held.py` in a process of its own, which forks: ``python every_write.py DIRECTORY``.
Each write is tried on a copy of one record. A line of JSON for each write says what was found.
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

from temperance_skin_lesion import audit, clinic, intake, model, people, policies
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.decision import Policy
from temperance_skin_lesion.drawings import lesion_file
from temperance_skin_lesion.store import MapRow, Store, StoreFull
from temperance_skin_lesion.web import api

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
    diagnosis = api.Diagnosis(diagnosis="mel", source="histology")
    other = Policy(threshold=0.75)
    proposed = {"origin": "survey", "survey_id": 1, "by": "ada"}
    return {
        "judge": lambda: assistant.judge([picture], [content], by="ada"),
        "diagnose": lambda: api.diagnose(assistant, approver, 1, diagnosis),
        "open survey": lambda: clinic.open_survey(assistant),
        "add pictures": lambda: clinic.add_pictures(assistant, 2, [picture]),
        "propose map": lambda: clinic.propose(assistant, rows, None, WIDE, **proposed),
        "accept map": lambda: clinic.accept(assistant, 2, now, by="ada"),
        "reject map": lambda: clinic.reject(assistant, 2, by="ada"),
        "restore map": lambda: clinic.restore(assistant, 3, now, by="ada"),
        "propose rules": lambda: policies.propose(assistant, other, WIDE, by="ada"),
        "accept rules": lambda: policies.accept(assistant, 2, now, WIDE, by="ada"),
        "reject rules": lambda: policies.reject(assistant, 2, by="ada"),
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
        rows = {t: connection.execute(f'SELECT * FROM "{t}"').fetchall() for (t,) in tables}  # noqa: S608
    connection.close()
    if before is None or repr(rows) != before[0]:
        store = Store(path)
        problems = audit.verify(audit.lines(store))[2]
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


def killed_at(number):
    """Kill the process before its statement of that number, commits included."""

    def hinder(assistant):
        count = 0

        def one(*_args):
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(assistant.store._engine, "before_cursor_execute", one)
        event.listen(assistant.store._engine, "commit", one)

    return hinder


def full_after(bytes_left):
    """Let every file grow to so many bytes more than the log of the record has now, and no more."""

    def hinder(assistant):
        log = Path(f"{assistant.store.path}-wal")
        limit = (log.stat().st_size if log.exists() else 0) + bytes_left
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return hinder


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
