"""Accounts, roles, sessions, and the audit chain that names who decided."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from temperance_skin_lesion import audit, cli, people
from temperance_skin_lesion.store import Entry, Login, Person, Store
from temperance_skin_lesion.web.security import COOKIE

PASSWORD = "correct horse battery"  # noqa: S105


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Hash as always, for the price of a test."""
    from argon2 import PasswordHasher

    quick = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(people, "hasher", lambda: quick)


@pytest.fixture
def staffed(assistant, address):
    """The address of a server with one account of each role."""
    for role in people.ROLES:
        people.add(assistant.store, role, role, PASSWORD, "test")
    return address


@contextmanager
def entered(address, name):
    """A client with the session of an account."""
    with httpx.Client(base_url=address, timeout=60) as client:
        response = client.post("/login", data={"name": name, "password": PASSWORD})
        assert response.status_code == 303
        yield client


def test_passwords_are_hashed_and_sessions_are_secret(assistant, staffed):
    with entered(staffed, "reader") as client:
        secret = client.cookies[COOKIE]
    with assistant.store.reading() as session:
        stored = session.scalars(select(Person.password)).all()
        login = session.scalar(select(Login))
    assert all(text.startswith("$argon2id$") for text in stored)
    assert len(set(stored)) == 3
    assert secret != login.sha256
    for file in assistant.store.path.parent.glob("assistant.sqlite3*"):
        assert secret.encode() not in file.read_bytes()
        assert PASSWORD.encode() not in file.read_bytes()


def test_without_a_session_nothing_but_the_way_in_is_open(staffed):
    with httpx.Client(base_url=staffed) as client:
        assert client.get("/api/v1/health").status_code == 401
        assert client.get("/api/openapi.json").status_code == 401
        assert client.get("/worklist").headers["location"] == "/login?next=%2Fworklist"
        assert client.post("/", files={"files": b"x"}).status_code == 401
        assert client.get("/static/style.css").status_code == 200
        assert client.get("/login").status_code == 200
        for wrong in ("Bearer nonsense", "Basic x", "Bearer", ""):
            answer = client.get("/api/v1/health", headers={"Authorization": wrong})
            assert answer.status_code == 401


def test_a_session_begins_ends_and_cannot_be_used_again(staffed):
    with entered(staffed, "clinician") as client:
        assert client.get("/api/v1/me").json() == {"name": "clinician", "role": "clinician"}
        assert "clinician" in client.get("/worklist").text
        secret = client.cookies[COOKIE]
        assert client.post("/logout").headers["location"] == "/login"
        again = client.get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
        assert again.status_code == 401


def test_programs_log_in_too(staffed):
    with httpx.Client(base_url=staffed) as client:
        body = {"name": "approver", "password": PASSWORD}
        session = client.post("/api/v1/login", json=body).json()
        assert session["role"] == "approver"
        bearer = {"Authorization": f"Bearer {session['token']}"}
        assert client.get("/api/v1/health", headers=bearer).status_code == 200
        assert client.post("/api/v1/login", json=body | {"password": "no"}).status_code == 401


def test_guessing_is_stopped_for_the_name_and_nobody_learns_which_names_exist(staffed):
    with httpx.Client(base_url=staffed) as client:
        said = {
            client.post("/login", data={"name": name, "password": "wrong"}).status_code
            for name in ("reader", "nobody")
        }
        assert said == {401}
        for _ in range(people.ATTEMPTS - 1):
            client.post("/login", data={"name": "reader", "password": "wrong"})
        stopped = client.post("/login", data={"name": "reader", "password": PASSWORD})
        assert stopped.status_code == 429
        assert "15 minutes" in stopped.text
        fine = client.post("/login", data={"name": "approver", "password": PASSWORD})
        assert fine.status_code == 303


def test_guesses_sent_at_once_are_counted_too(staffed, monkeypatch):
    monkeypatch.setattr(people, "_matches", lambda *_: time.sleep(0.3))  # as a slow hash would
    form = {"name": "reader", "password": "wrong"}
    with ThreadPoolExecutor(16) as pool:
        said = pool.map(lambda _: httpx.post(f"{staffed}/login", data=form).status_code, range(16))
    assert Counter(said) == {401: people.ATTEMPTS, 429: 16 - people.ATTEMPTS}


def test_who_is_not_logged_in_is_told_so_and_goes_on_where_they_were(assistant, staffed):
    with entered(staffed, "clinician") as client:
        client.headers["Accept"] = "text/html"
        with assistant.store.writing() as session:
            session.execute(update(Login).values(until="2000-01-01"))
        ended = client.post("/cases/1/diagnoses", data={"diagnosis": "mel", "source": "expert"})
        assert ended.status_code == 401
        assert "the session has ended; nothing of this request was kept" in ended.text
        assert '<a class="button" href="/login">' in ended.text
        for text in ("No accounts", "<nav", "Model <code>"):
            assert text not in ended.text + client.get("/login/nowhere").text
        away = client.get("/worklist?urgency=urgent&q=a%2Fb").headers["location"]
        form = {"name": "clinician", "password": PASSWORD}
        assert (
            client.post(away, data=form).headers["location"] == "/worklist?urgency=urgent&q=a%2Fb"
        )
        for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil"):
            answer = client.post("/login", params={"next": elsewhere}, data=form)
            assert answer.headers["location"] == "/worklist"


def test_a_session_is_new_with_each_login(staffed):
    """Whoever plants a cookie, or keeps one of before, is not let in by it."""
    with httpx.Client(base_url=staffed, cookies={COOKIE: "planted"}) as client:
        form = {"name": "reader", "password": PASSWORD}
        secrets = [client.post("/login", data=form).cookies[COOKIE] for _ in range(2)]
        assert "planted" not in secrets
        assert len(set(secrets)) == 2
        assert all(len(secret) >= 43 for secret in secrets)
    with httpx.Client(base_url=staffed, cookies={COOKIE: "planted"}) as client:
        assert client.get("/api/v1/me").status_code == 401


def test_guessing_many_names_from_one_address_is_stopped(staffed, monkeypatch):
    monkeypatch.setattr(people, "_matches", lambda _, password: password == PASSWORD)
    with httpx.Client(base_url=staffed) as client:
        answers = [
            client.post("/login", data={"name": f"n{i}", "password": "x"}).status_code
            for i in range(22)
        ]
    assert answers[:20] == [401] * 20
    assert set(answers[20:]) == {429}


def test_roles_may_do_what_they_may(staffed, lesions, as_files):
    picture = as_files(lesions(1))
    with entered(staffed, "reader") as reader:
        assert reader.get("/worklist").status_code == 200
        refused = reader.post("/api/v1/predict", files=picture)
        assert refused.status_code == 403
        assert "reader" in refused.json()["detail"]
        assert reader.post("/cases/1/diagnoses", data={"diagnosis": "mel"}).status_code == 403
        assert reader.get("/api/v1/audit/export").status_code == 403
    with entered(staffed, "clinician") as clinician:
        assert clinician.post("/api/v1/predict", files=picture).status_code == 200
        proposal = clinician.post("/api/v1/policies", json={"policy": {"threshold": 0.8}}).json()
        assert proposal["by"] == "clinician"
        seen = {"seen": clinician.get("/api/v1/active").json()["activation"]}
        place = f"/api/v1/policies/{proposal['id']}"
        for verb in ("accept", "restore"):
            assert clinician.post(f"{place}/{verb}", json=seen).status_code == 403
        assert clinician.post(f"{place}/reject").status_code == 403
        assert clinician.post("/api/v1/maps/1/restore", json=seen).status_code == 403
        page = clinician.get(f"/rules/{proposal['id']}", headers={"Accept": "text/html"}).text
        assert "Waiting for somebody with the role approver" in page
    with entered(staffed, "approver") as approver:
        accepted = approver.post(f"{place}/accept", json=seen)
        assert accepted.json()["decided_by"] == "approver"
        assert approver.get("/api/v1/active").json()["by"] == "approver"


def test_every_operation_asks_for_its_role(staffed):
    """Of the application's own list of routes, so that none is forgotten."""
    from temperance_skin_lesion.web import api, login, pages

    routes = [
        (method, route.path.replace("{verb}", "accept"))
        for router in (api.router, login.router, pages.router)
        for route in router.routes
        for method in route.methods
    ]
    routes = [(method, re.sub(r"{\w+}", "1", path)) for method, path in routes]
    way_in = {"/login", "/logout", "/api/v1/login"}
    writes = [path for method, path in routes if method != "GET" and path not in way_in]
    reads = [path for method, path in routes if method == "GET" and path not in way_in]
    decisions = {path for path in writes if path.endswith(("/accept", "/reject", "/restore"))}
    assert len(writes) > 20
    assert len(reads) > 25
    assert len(decisions) == 8
    with httpx.Client(base_url=staffed, timeout=60) as nobody:
        for path in writes:
            assert nobody.post(path).status_code == 401, path
        for path in (path for path in reads if not path.startswith("/static/")):
            assert nobody.get(path).status_code in {303, 401}, path
    with entered(staffed, "reader") as reader:
        assert {path for path in writes if reader.post(path).status_code != 403} == set()
        closed = {path for path in reads if reader.get(path).status_code not in {200, 404}}
        assert closed == {"/api/v1/audit/export"}
    with entered(staffed, "clinician") as clinician:
        assert {path for path in writes if clinician.post(path).status_code == 403} == decisions
    with entered(staffed, "approver") as approver:
        assert {path for path in writes if approver.post(path).status_code == 403} == set()


def test_a_closed_account_is_out_at_once(assistant, staffed):
    with entered(staffed, "clinician") as client:
        people.change(assistant.store, "clinician", "test", close=True)
        assert client.get("/api/v1/health").status_code == 401
    with httpx.Client(base_url=staffed) as client:
        answer = client.post("/login", data={"name": "clinician", "password": PASSWORD})
        assert answer.status_code == 401


def test_the_cookie_is_kept_from_scripts_and_from_plain_http(serve, settings):
    for secure in (False, True):
        chosen = settings.model_copy(update={"secure": secure, "data": settings.data / str(secure)})
        with serve(chosen) as address:
            store = Store(chosen.record)
            people.add(store, "ada", "reader", PASSWORD, "test")
            store.close()
            response = httpx.post(f"{address}/login", data={"name": "ada", "password": PASSWORD})
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert ("; secure" in cookie) is secure


@pytest.mark.parametrize(
    ("name", "role", "password", "word"),
    [
        ("a", "reader", PASSWORD, "name must"),
        ("local", "reader", PASSWORD, "name must"),
        ("<b>", "reader", PASSWORD, "name must"),
        ("ada", "chief", PASSWORD, "role must"),
        ("ada", "reader", "short", "at least 12"),
    ],
)
def test_an_account_that_cannot_be_is_refused(assistant, name, role, password, word):
    with pytest.raises(people.AccountError, match=word):
        people.add(assistant.store, name, role, password, "test")


def test_accounts_are_made_on_the_command_line(tmp_path, monkeypatch, capsys):
    data = ["--data", str(tmp_path / "record")]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    assert cli.main(["users", "ada", "--role", "approver", *data]) == 0
    assert cli.main(["users", "bob", *data]) == 2
    assert "needs --role" in capsys.readouterr().err
    assert cli.main(["users", "ada", "--role", "reader", *data]) == 0
    assert cli.main(["users", *data]) == 0
    assert capsys.readouterr().out == "ada\treader\topen\n"
    assert cli.main(["users", "ada", *data]) == 2
    assert "Say what to change" in capsys.readouterr().err
    assert cli.main(["users", "ada", "--close", *data]) == 0
    assert cli.main(["users", "ada", "--role", "approver", *data]) == 2
    assert "closed for good" in capsys.readouterr().err
    store = Store(tmp_path / "record" / "assistant.sqlite3")
    with pytest.raises(people.AccountError):
        people.log_in(store, "ada", PASSWORD, "here")
    store.close()


def test_beyond_this_machine_a_server_needs_tls_and_accounts(tmp_path, capsys):
    serve = ["serve", "--host", "10.1.2.3", "--data", str(tmp_path / "record")]
    assert cli.main(serve) == 2
    assert "--tls-cert" in capsys.readouterr().err
    assert cli.main([*serve, "--behind-tls"]) == 2
    assert "users NAME --role approver" in capsys.readouterr().err
    assert cli.main(["serve", "--tls-cert", "x.pem"]) == 2
    assert "belong together" in capsys.readouterr().err


# ------------------------------------------------------------------------------- audit


@pytest.fixture
def busy(client, lesions, as_files):
    """A client whose server has judged, diagnosed, proposed and accepted."""
    client.post("/api/v1/predict", files=as_files(lesions(3)))
    client.post("/api/v1/predict", files=as_files(lesions(2, first=3)))
    client.post("/api/v1/cases/2/diagnoses", json={"diagnosis": "mel", "source": "expert"})
    client.post("/api/v1/cases/2/diagnoses", json={"diagnosis": "nv", "source": "histology"})
    number = client.post("/api/v1/policies", json={"policy": {"threshold": 0.8}}).json()["id"]
    seen = client.get("/api/v1/active").json()["activation"]
    client.post(f"/api/v1/policies/{number}/accept", json={"seen": seen})
    return client


def exported(client):
    return client.get("/api/v1/audit/export").text.splitlines()


def test_every_decision_is_entered_and_an_export_can_be_verified(busy, assistant):
    lines = exported(busy)
    newest, hashes, problems = audit.verify(lines)
    assert problems == []
    kinds = [json.loads(line)["kind"] for line in lines if '"entry"' in line]
    assert kinds == [
        "set up",
        "judged",
        "judged",
        "diagnosis",
        "diagnosis",
        "policy proposed",
        "policy accepted",
    ]
    assert len(hashes) == len(kinds)
    with assistant.store.reading() as session:
        last = session.scalars(select(Entry).order_by(Entry.id.desc())).first()
    assert newest == last.sha256
    assert newest in busy.get("/audit", headers={"Accept": "text/html"}).text


@pytest.mark.parametrize(
    ("forge", "word"),
    [
        (lambda lines: lines[:3] + lines[4:], "Entry 4 is missing"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "does not follow"),
        (lambda lines: [line.replace('"mel"', '"nv"') for line in lines], "Entry 4 was changed"),
        (lambda lines: [line.replace('"local"', '"eve"') for line in lines], "was changed"),
        (lambda lines: lines[:-1], "Cases 5 of entry 3 are missing"),
        (
            lambda lines: [
                line.replace('"decision": "refer"', '"decision": "answer"') for line in lines
            ],
            "The cases of entry",
        ),
        (
            lambda lines: [*lines, lines[-1].replace('"id": 5', '"id": 6')],
            "Cases 6 belong to no entry",
        ),
        (
            lambda lines: [lines[-1].replace('"refer"', '"answer"'), *lines],
            "Case 5 stands there twi",
        ),
        (
            lambda lines: [lines[0].replace("{", '{"by": "eve", ', 1), *lines[1:]],
            "Line 1 is neither",
        ),
        (lambda lines: [lines[0].replace('"kind"', '"sort"'), *lines[1:]], "Line 1 is neither"),
        (lambda lines: [*lines, '{"type": "note", "id": 1}'], "Line 13 is neither"),
        (lambda lines: [*lines, "[" * 100_000], "Line 13 is neither"),
        (lambda lines: [*lines, '{"type": "case", "id": NaN}'], "Line 13 is neither"),
        (lambda lines: [*lines[:1], "", "\x00", *lines[1:]], "Line 2 is neither"),
        (lambda _: [], "There is no entry"),
    ],
    ids=[
        *("left out", "swapped", "content", "person", "case lost", "case changed", "case added"),
        *("case twice", "name twice", "renamed", "unknown", "deep", "no number", "noise", "empty"),
    ],
)
def test_whatever_is_forged_is_found(busy, forge, word):
    problems = audit.verify(forge(exported(busy))).problems
    assert any(word in problem for problem in problems), problems


def forged_anew(lines, change):
    """An export that was changed and whose hashes were all made anew, as an insider would."""
    previous, out = audit.START, []
    for line in lines:
        fact = json.loads(line.replace(*change))
        if fact.pop("type") == "entry":
            entry = {name: fact[name] for name in audit.COVERED} | {"previous": previous}
            previous = audit.digest(entry)
            fact = entry | {"sha256": previous}
            out.append(json.dumps({"type": "entry", **fact}))
        else:
            out.append(line)
    return out


def test_the_audit_page_finds_decisions_among_many_diagnoses(busy):
    busy.headers["Accept"] = "text/html"

    def kinds(about):
        page = busy.get(f"/audit{about}").text
        return set(re.findall(r'data-label="What">([a-z ]+)<', page))

    everything = kinds("")
    decisions, diagnoses, pictures = (
        kinds(f"?about={about}") for about in ("decisions", "diagnoses", "pictures")
    )
    assert decisions == {"set up", "rules proposed", "rules accepted"}
    assert (diagnoses, pictures) == ({"diagnosis"}, {"judged"})
    assert decisions | diagnoses | pictures == everything
    assert "There is no such entry" in busy.get("/audit?about=accounts").text
    assert busy.get("/audit?about=x").status_code == 422


def test_an_entry_that_is_missing_is_named_and_no_other(busy):
    lines = exported(busy)
    found = audit.verify(lines[:3] + lines[4:]).problems
    assert [text for text in found if "is missing" in text] == [
        "Entry 4 is missing; entry 5 stands in its place."
    ]


def test_an_export_is_whole_although_others_go_on_working(busy, assistant, lesions, as_files):
    begun = audit.lines(assistant.store, page=2)
    lines = [next(begun) for _ in range(6)]
    busy.post("/api/v1/predict", files=as_files(lesions(2, first=5)))
    busy.post("/api/v1/cases/1/diagnoses", json={"diagnosis": "nv"})
    found = audit.verify([*lines, *begun])
    assert (found.problems, len(found.hashes)) == ([], 7)
    assert len(audit.verify(exported(busy)).hashes) == 9


def test_a_chain_that_was_made_anew_lacks_the_noted_hash(busy, tmp_path, capsys):
    lines = exported(busy)
    noted = audit.verify(lines).hashes[4]
    file = tmp_path / "audit.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    assert cli.main(["verify", str(file), "--noted", noted]) == 0
    assert "The noted hash is that of entry 5." in capsys.readouterr().out
    file.write_text("\n".join(forged_anew(lines, ('"expert"', '"histology"'))), encoding="utf-8")
    assert cli.main(["verify", str(file)]) == 0
    assert "only a hash noted earlier tells" in capsys.readouterr().out
    assert cli.main(["verify", str(file), "--noted", noted]) == 1
    assert "No entry has the noted hash" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("UPDATE diagnosis SET code = 'nv' WHERE id = 1", "The diagnoses are not those"),
        ("UPDATE diagnosis SET by = 'eve'", "The diagnoses are not those"),
        ("DELETE FROM diagnosis WHERE id = 2", "The diagnoses are not those"),
        ("UPDATE activation SET policy_id = 1 WHERE id = 2", "What was in force is not"),
        ("UPDATE activation SET by = 'eve' WHERE id = 1", "What was in force is not"),
        ("DELETE FROM activation WHERE id = 2", "What was in force is not"),
        (
            "INSERT INTO activation (at, by, map_id, policy_id) VALUES ('', 'eve', 1, 1)",
            "What was in force is not",
        ),
        ("UPDATE policy SET policy = '{}' WHERE id = 2", "Policy 2 is not that of its entry"),
        ("UPDATE map SET artefact = 'x'", "Map 1 is not that of its entry"),
        ("UPDATE \"case\" SET decision = 'answer'", "The cases of entry"),
        ("DELETE FROM entry WHERE id = 7", "What was in force is not"),
    ],
)
@pytest.mark.usefixtures("busy")
def test_tables_that_say_otherwise_than_the_chain_are_found(assistant, statement, word):
    """By somebody who owns the file and takes the triggers away."""
    assert audit.verify_record(assistant.store).problems == []
    with sqlite3.connect(assistant.store.path) as connection:
        for table in ("activation", "diagnosis", "entry"):
            for verb in ("update", "delete"):
                connection.execute(f"DROP TRIGGER {table}_{verb}")
        connection.execute(statement)
    connection.close()
    problems = audit.verify_record(assistant.store).problems
    assert any(word in problem for problem in problems), problems


def test_whoever_noted_the_newest_hash_sees_a_chain_that_was_cut(busy):
    lines = exported(busy)
    cut = [line for line in lines if '"policy accepted"' not in line]
    assert audit.verify(cut).problems == []
    assert audit.verify(cut).newest != audit.verify(lines).newest


@pytest.mark.usefixtures("busy")
def test_the_record_itself_refuses_to_be_rewritten(assistant):
    path = assistant.store.path
    with sqlite3.connect(path) as connection:
        for table in ("entry", "diagnosis", "activation"):
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET id = id + 100"):  # noqa: S608
                with pytest.raises(sqlite3.IntegrityError, match="never rewritten"):
                    connection.execute(statement)
    connection.close()
    with pytest.raises(IntegrityError), assistant.store.writing() as session:
        session.get(Entry, 1).by = "eve"


@pytest.mark.usefixtures("busy")
def test_the_command_verifies_records_and_exports(settings, tmp_path, capsys):
    data = ["--data", str(settings.data)]
    assert cli.main(["verify", *data]) == 0
    assert "7 entries follow one another" in capsys.readouterr().out
    assert cli.main(["export", "--format", "audit", *data]) == 0
    file = tmp_path / "audit.jsonl"
    file.write_text(capsys.readouterr().out.replace('"nv"', '"mel"'), encoding="utf-8")
    assert cli.main(["verify", str(file)]) == 1
    assert "was changed" in capsys.readouterr().out
