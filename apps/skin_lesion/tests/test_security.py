"""Who gets in, and what a browser is allowed to do with the answers."""

from __future__ import annotations

import re
import socket
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import cli, people
from temperance_skin_lesion.web import protocol, security

PAGES = [
    "/",
    "/clinic",
    "/calibrations/1",
    "/rules",
    "/rules/1",
    "/worklist",
    "/results",
    "/study",
    "/audit",
    "/about",
    "/api/docs",
    "/nowhere",
]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_research_use_only_and_loads_nothing_from_elsewhere(client, path):
    response = client.get(path, headers={"Accept": "text/html"})
    assert "Research use only." in response.text
    assert "Not a medical device" in response.text
    assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', response.text)
    assert not re.findall(r"<script(?![^>]*src=)|\son\w+=|\sstyle=", response.text)


@pytest.mark.parametrize("path", ["/", "/api/v1/health", "/static/script.js", "/nowhere"])
def test_answers_forbid_what_the_pages_do_not_need(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "SELF"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "SELF"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "SELF"}, 403),
        ({"Host": "evil.example"}, 400),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 400),
        ({"Host": ""}, 400),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/policies/preview", "/rules"])
def test_a_write_must_come_from_our_own_pages(client, headers, status, path):
    own = f"http://{urlsplit(str(client.base_url)).netloc}"
    headers = {name: value.replace("SELF", own) for name, value in headers.items()}
    form = {"threshold": "0.5", "melanoma_threshold": "0.6", "melanoma_ceiling": "0.1"}
    kind = {"json": {}} if path.startswith("/api") else {"data": form}
    assert client.post(path, headers=headers, **kind).status_code == status


def test_every_route_that_writes_is_behind_the_guard(client):
    openapi = client.get("/api/openapi.json").json()
    writes = [
        (method, path)
        for path, methods in openapi["paths"].items()
        for method in methods
        if method != "get"
    ]
    assert len(writes) >= 8
    for method, path in writes:
        place = re.sub(r"{\w+}", "1", path)
        response = client.request(method, place, headers={"Origin": "http://evil.example"})
        assert response.status_code == 403, place


def test_the_names_of_the_server_are_of_any_case_and_a_wrong_one_says_what_to_do(client):
    port = urlsplit(str(client.base_url)).port
    assert client.get("/", headers={"Host": f"LOCALHOST:{port}"}).status_code == 200
    wrong = client.get("/", headers={"Host": "10.0.0.7"})
    assert wrong.status_code == 400
    assert "--name" in wrong.json()["detail"]


@pytest.mark.parametrize("path", ["/cases/abc", "/worklist?page=1;drop", "/rules/x", "/nowhere"])
def test_a_person_gets_a_page_where_an_address_is_wrong(client, path):
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.status_code in {404, 422}
    assert "That did not work" in response.text
    assert "{" not in response.text.split("<main")[1].split("</main")[0]


def test_the_server_binds_to_loopback_unless_told_otherwise():
    for command in (["serve"], ["demo"]):
        assert cli.parser().parse_args(command).host == "127.0.0.1"


def test_a_body_beyond_the_limit_is_refused_by_its_announced_length(client):
    for kind, limit in (
        ("application/json", security.MAX_PLAIN),
        ("application/x-www-form-urlencoded", security.MAX_PLAIN),
        ("multipart/form-data; boundary=b", security.MAX_UPLOAD),
    ):
        headers = {"Content-Type": kind, "Content-Length": str(limit + 1)}
        assert raw(client, "POST / HTTP/1.1", headers).startswith(b"HTTP/1.1 413"), kind
    assert raw(client, "POST / HTTP/1.1", {"Content-Length": "-5"}).startswith(b"HTTP/1.1 4")


def test_a_body_beyond_the_limit_is_refused_without_a_length(client, monkeypatch):
    monkeypatch.setattr(security, "MAX_UPLOAD", 100_000)

    def endless():
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        for _ in range(30):
            yield bytes(10_000)
        yield b"\r\n--b--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    for path in ("/api/v1/predict", "/", "/clinic"):
        response = client.post(path, content=endless(), headers=headers)
        assert response.status_code == 413, path
        assert client.get("/api/v1/health").json()["cases"] == 0


def test_who_is_not_known_sends_no_more_than_a_name_and_a_password(client, assistant):
    """Bodies that are no files are held in memory, and the way in is open to everybody."""
    people.add(assistant.store, "ada", "clinician", "correct horse battery", "test")

    def endless(start):
        yield start
        for _ in range(20):
            yield b"a" * 100_000

    for path, kind, start in (
        ("/api/v1/login", "application/json", b'{"password": "x", "name": "'),
        ("/login", "application/x-www-form-urlencoded", b"name="),
        ("/login", "multipart/form-data; boundary=b", b"--b\r\n"),
        ("/api/v1/predict", "multipart/form-data; boundary=b", b"--b\r\n"),
    ):
        headers = {"Content-Type": kind}
        response = client.post(path, content=endless(start), headers=headers)
        assert response.status_code in {400, 401, 413}, path  # whichever limit is met first
        whole = b"".join(endless(start))
        assert client.post(path, content=whole, headers=headers).status_code == 413, path


def raw(client, request, headers):
    """Send a request that no client library would."""
    place = urlsplit(str(client.base_url))
    lines = [request, f"Host: {place.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return connection.recv(1000)


@pytest.mark.parametrize(("path", "n"), [("/", 300), ("/clinic", 300), ("/api/v1/predict", 1100)])
def test_too_many_files_are_told_the_number_that_is_documented(client, path, n):
    files = [("files", (f"{i}.jpg", b"x", "image/jpeg")) for i in range(n)]
    answer = client.post(path, files=files, headers={"Accept": "text/html"})
    assert answer.status_code == 413
    assert "At most 200 files are taken at once" in answer.text


HALF = b"GET / HTTP/1.1\r\nHost: local"
WHOLE = b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "sent", [[b""], [HALF], [bytes([b]) for b in HALF * 40], [WHOLE, HALF]], ids=len
)
def test_a_header_that_does_not_end_is_let_go(client, monkeypatch, sent):
    """Silent, half-sent, trickling for ever, or the second on its connection."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)
    with socket.create_connection(place(client), timeout=60) as line:
        try:
            for part in sent:
                line.sendall(part)
                if part is WHOLE:
                    line.recv(10_000)  # its answer, and the connection stays
                time.sleep(0.05)
            while line.recv(10_000):
                pass  # what is left of an answer; then the end
        except ConnectionError:
            return  # closed while bytes were still coming


def test_a_request_that_takes_longer_than_its_header_may_is_answered(client, monkeypatch):
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 2)  # for a header sent at once, at any load
    body = b'{"name": "nobody", "password": "x"}'
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(place(client), timeout=60) as line:
        line.sendall(head)
        time.sleep(3)
        line.sendall(body)
        assert line.recv(100).startswith(b"HTTP/1.1 401")


def place(client):
    return client.base_url.host, client.base_url.port


@pytest.mark.parametrize("limit", ["STALLED_SECONDS", "BODY_SECONDS"])
def test_a_request_that_stops_half_way_is_let_go(client, monkeypatch, limit):
    monkeypatch.setattr(security, limit, 0.2)
    with socket.create_connection(place(client), timeout=60) as line:
        head = f"POST /api/v1/login HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
        line.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode()
        )
        assert line.recv(100).startswith(b"HTTP/1.1 408")
