"""The record: nothing lost, nothing half-written, nobody overruled without being told."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from sqlalchemy import select

from temperance_skin_lesion import changes, clinic, intake
from temperance_skin_lesion import store as db
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.store import Activation, Case, Conflict, MapRow, Store, StoreFull


def integrity(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]


def pictures(contents):
    return [intake.read(content, "a.jpg") for content in contents]


def proposed(assistant, **facts):
    """Put a copy of the map in use on record as a proposal."""
    with assistant.store.writing() as session:
        now = assistant.active(session).map_row
        copied = {
            c: getattr(now, c) for c in ("origin", "model", "artefact", "summary", "reference")
        }
        row = MapRow(**copied | {"verdict": "improved", "report": "", "by": "test"} | facts)
        session.add(row)
        session.flush()
        return row.id


def newest_activation(assistant):
    with assistant.store.reading() as session:
        return assistant.active(session).activation


def test_every_case_has_what_the_log_promises(assistant, lesions):
    (content,) = lesions(1)
    (case,) = assistant.judge(pictures([content]))
    with assistant.store.reading() as session:
        row = session.get(Case, case.id)
        assert row.sha256 == pictures([content])[0].sha256
        assert row.model == assistant.model.id
        assert row.map_id == assistant.active(session).map_id
        assert sum(row.probabilities) == pytest.approx(1)
        assert len(row.logits) == 7
        assert row.decision in {"answer", "refer"}
        assert row.why
        assert len(row.views) == 8
        assert row.malignant[1] <= row.malignant[0] <= row.malignant[2]
        assert row.urgency in {"urgent", "soon", "routine", "retake"}
        assert row.policy_id == assistant.active(session).policy_id


def test_the_first_map_is_temperature_scaling_on_the_validation_rows(assistant, model):
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    z, y = model.source.logits.astype(float), model.source.labels
    best = minimize_scalar(
        lambda t: -log_softmax(z / t, axis=1)[range(len(y)), y].mean(), bounds=(0.1, 10)
    )
    with assistant.store.reading() as session:
        summary = assistant.active(session).map_row.summary
    assert summary["temperature"][0] == pytest.approx(best.x, rel=1e-4)


def test_a_full_disk_keeps_the_answer_back_and_the_record_intact(assistant, lesions):
    assistant.judge(pictures(lesions(1)))
    before = assistant.store.path.stat().st_size
    # SQLite's own limit on pages fails exactly as a full disk does.
    with assistant.store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        connection.rollback()
    many = pictures(lesions(6)) * 20
    with pytest.raises(StoreFull, match="disk is full"):
        assistant.judge(many)
    with assistant.store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        connection.rollback()
    with assistant.store.reading() as session:
        assert db.count(session, select(Case.id)) == 1
    assert integrity(assistant.store.path) == "ok"
    assert len(assistant.judge(many)) == len(many)
    assert assistant.store.path.stat().st_size >= before


def test_a_read_only_record_keeps_the_answer_back(assistant, lesions):
    with assistant.store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")
        connection.rollback()
    with pytest.raises(StoreFull, match="not writable"):
        assistant.judge(pictures(lesions(1)))


def test_of_two_people_who_accept_at_once_one_is_told(assistant):
    maps = [proposed(assistant) for _ in range(8)]
    seen = newest_activation(assistant)
    barrier = threading.Barrier(len(maps))

    def accept(map_id):
        barrier.wait()
        try:
            changes.accept(assistant, clinic.MAPS, map_id, seen, Agreement(), by="test")
        except Conflict as conflict:
            return str(conflict)
        return "accepted"

    with ThreadPoolExecutor(len(maps)) as people:
        said = list(people.map(accept, maps))
    assert said.count("accepted") == 1
    winner = maps[said.index("accepted")]
    assert all(f"calibration {winner} with rules 1" in text for text in said if text != "accepted")
    with assistant.store.reading() as session:
        assert assistant.active(session).map_id == winner
        accepted = select(MapRow.id).where(MapRow.status == "accepted", MapRow.id.in_(maps))
        assert session.scalars(accepted).all() == [winner]


def test_the_former_map_is_one_step_away_and_history_stays(assistant):
    first = 1
    second = proposed(assistant)
    changes.accept(
        assistant, clinic.MAPS, second, newest_activation(assistant), Agreement(), by="test"
    )
    with assistant.store.reading() as session:
        assert changes.former(session, clinic.MAPS, assistant.active(session)) == first
    changes.restore(
        assistant, clinic.MAPS, first, newest_activation(assistant), Agreement(), by="test"
    )
    with assistant.store.reading() as session:
        assert assistant.active(session).map_id == first
        assert changes.former(session, clinic.MAPS, assistant.active(session)) == second
        assert session.scalars(select(Activation.map_id).order_by(Activation.id)).all() == [1, 2, 1]


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"status": "refused"}, "refused by the calibration"),
        ({"status": "outside"}, "outside the range"),
        ({"status": "same"}, "the same as what is in force"),
        ({"model": "another"}, "made for the model another"),
    ],
)
def test_a_map_that_must_not_be_used_cannot_be_accepted(assistant, facts, word):
    map_id = proposed(assistant, **facts)
    with pytest.raises(changes.NotAcceptable, match=word):
        changes.accept(
            assistant, clinic.MAPS, map_id, newest_activation(assistant), Agreement(), by="test"
        )


def test_a_decision_is_final(assistant):
    map_id = proposed(assistant)
    changes.reject(assistant, clinic.MAPS, map_id, by="test")
    with pytest.raises(Conflict, match="was rejected already"):
        changes.accept(
            assistant, clinic.MAPS, map_id, newest_activation(assistant), Agreement(), by="test"
        )
    with pytest.raises(changes.NotAcceptable, match="never in force"):
        changes.restore(
            assistant, clinic.MAPS, map_id, newest_activation(assistant), Agreement(), by="test"
        )


def test_cases_written_by_two_processes_at_once_are_all_there(assistant, lesions):
    other = Store(assistant.store.path)
    assistants = [assistant, type(assistant)(assistant.model, other)]
    batch = pictures(lesions(2))
    with ThreadPoolExecutor(8) as pool:
        judged = list(pool.map(lambda i: assistants[i % 2].judge(batch), range(40)))
    other.close()
    ids = [case.id for cases in judged for case in cases]
    assert sorted(ids) == list(range(1, 81))


def test_another_model_starts_with_its_own_map_and_the_rules_in_force(assistant):
    with assistant.store.reading() as session:
        before = assistant.active(session)
    other = dataclasses.replace(assistant.model, facts=assistant.model.facts | {"sha256": "f" * 64})
    with assistant.store.reading() as session:
        after = type(assistant)(other, assistant.store).active(session)
    assert after.map_row.model == other.id != before.map_row.model
    assert after.policy_id == before.policy_id
    another = type(assistant)(other, assistant.store)
    with pytest.raises(changes.NotAcceptable, match="made for the model"):
        changes.restore(
            another, clinic.MAPS, before.map_id, after.activation, Agreement(), by="test"
        )


def test_files_are_their_owners_only(tmp_path, model, lesions):
    old = os.umask(0o022)
    try:
        home = tmp_path / "record"
        db.private_directory(home)
        store = Store(home / "assistant.sqlite3")
        keeper = Assistant(model, store, keep=home / "images")
        contents = lesions(2)
        keeper.judge(pictures(contents), contents)
        modes = {p.name: p.stat().st_mode & 0o777 for p in [home, *home.rglob("*")]}
        store.close()
    finally:
        os.umask(old)
    assert {modes["record"], modes["images"]} == {0o700}
    assert {mode for name, mode in modes.items() if "." in name} == {0o600}
    assert any(name.endswith("-wal") for name in modes)


def test_an_open_record_of_an_older_version_is_closed_to_others(tmp_path):
    home = tmp_path / "record"
    home.mkdir(mode=0o755)
    Store(home / "assistant.sqlite3").close()
    (home / "assistant.sqlite3").chmod(0o644)
    home.chmod(0o755)
    db.private_directory(home)
    Store(home / "assistant.sqlite3").close()
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "assistant.sqlite3").stat().st_mode & 0o777 == 0o600
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    db.private_directory(shared)  # whose it is nobody knows
    assert shared.stat().st_mode & 0o777 == 0o755


def test_pictures_of_cases_that_were_not_recorded_are_not_kept(tmp_path, model, lesions):
    store = Store(tmp_path / "assistant.sqlite3")
    keeper = Assistant(model, store, keep=tmp_path / "images")
    first, *rest = lesions(4)
    keeper.judge(pictures([first]), [first])
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")
        connection.rollback()
    with pytest.raises(StoreFull):
        keeper.judge(pictures([first, *rest]), [first, *rest])
    store.close()
    assert len(list((tmp_path / "images").iterdir())) == 1


def test_a_newer_record_is_not_opened(tmp_path):
    path = tmp_path / "newer.sqlite3"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(RuntimeError, match="newer version"):
        Store(path)


WRITER = """
import os
import sys
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
from temperance_skin_lesion import intake, model
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.store import Store
loaded = model.load()
picture = intake.read(Path(sys.argv[2]).read_bytes(), "a.jpg")
seen = loaded.look(np.stack([picture.pixels] * 5))  # once: what is tested is the writing
type(loaded).look = lambda *_: seen
for _ in range(3):  # one after the other, each until it is killed
    writer = os.fork()
    if writer:
        os.waitpid(writer, 0)
        continue
    print("pid", os.getpid(), flush=True)
    assistant = Assistant(loaded, Store(Path(sys.argv[1])))
    while True:
        for case in assistant.judge([picture] * 5):
            print("case", case.id, flush=True)
"""


@pytest.mark.slow
def test_a_process_killed_in_mid_write_loses_no_answered_case(tmp_path, lesions):
    (tmp_path / "a.jpg").write_bytes(lesions(1)[0])
    path = tmp_path / "record.sqlite3"
    command = [sys.executable, "-c", WRITER, str(path), str(tmp_path / "a.jpg")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    answered, killed = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as writers:
        for line in writers.stdout:
            word, number = line.split()
            if word == "pid":
                assert not killed or integrity(path) == "ok"
                writer = int(number)
                continue
            answered.append(int(number))
            if len(answered) >= 60 * (len(killed) + 1) and writer not in killed:
                os.kill(writer, signal.SIGKILL)
                killed.append(writer)
    assert writers.returncode == 0
    assert len(killed) == 3
    assert integrity(path) == "ok"
    store = Store(path)
    with store.reading() as session:
        recorded = set(session.scalars(select(Case.id)))
    store.close()
    assert len(answered) >= 180
    assert set(answered) <= recorded
