"""Logging in at an identity provider: a small one on the loopback address, honest or forging."""

from __future__ import annotations

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from sqlalchemy import select

pytest.importorskip("authlib", reason="the extra 'oidc' is not installed")

from fastapi import FastAPI, Form, Request
from fastapi.responses import RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from temperance_skin_lesion import cli, people
from temperance_skin_lesion.store import Entry, Person, Store

CLIENT, SECRET = "assistant", "between-the-two"


class IdentityProvider:
    """Signs whoever is at the door in; ``claims`` replace what it would say."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signs_with = self.key
        self.user = {"sub": "17", "preferred_username": "ada", "groups": ["derm-clinicians"]}
        self.claims, self.codes, self.address, self.issuer = {}, {}, "", ""
        self.app = FastAPI()
        self.app.get("/.well-known/openid-configuration")(self.metadata)
        self.app.get("/authorize")(self.authorize)
        self.app.post("/token")(self.token)
        self.app.get("/jwks")(lambda: {"keys": [self.key.as_dict(private=False)]})

    def metadata(self):
        return {
            "issuer": self.issuer or self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/jwks",
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def authorize(self, request: Request):
        asked = request.query_params
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = dict(asked)
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", status_code=302)

    def token(
        self,
        request: Request,
        code: str = Form(),
        code_verifier: str = Form(),
        redirect_uri: str = Form(),
    ):
        asked = self.codes.pop(code)
        digest = hashlib.sha256(code_verifier.encode()).digest()
        assert urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        assert redirect_uri == asked["redirect_uri"]
        assert request.headers["authorization"].startswith("Basic ")
        said = {
            "iss": self.issuer or self.address,
            "aud": CLIENT,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "nonce": asked["nonce"],
            **self.user,
            **self.claims,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, said, self.signs_with)
        return {"access_token": "x", "token_type": "Bearer", "id_token": signed}


@pytest.fixture
def provider(listen):
    found = IdentityProvider()
    with listen(found.app) as address:
        found.address = address
        yield found


@pytest.fixture
def configured(provider, settings, serve, tmp_path):
    """The address of a server whose people log in at the provider."""
    path = tmp_path / "oidc.json"
    path.write_text(json.dumps(configuration(provider.address)))
    path.chmod(0o600)
    with serve(settings.model_copy(update={"oidc": path})) as address:
        yield address


def configuration(issuer):
    return {
        "name": "St. Example",
        "issuer": issuer,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "roles": {"derm-clinicians": "clinician", "derm-leads": "approver"},
    }


@contextmanager
def person(address):
    with httpx.Client(base_url=address, timeout=60, headers={"Accept": "text/html"}) as client:
        yield client


def log_in(client):
    """Go to the provider and come back, as a browser does; the answer of the way back."""
    away = client.get("/login/oidc")
    assert away.status_code == 302
    back = httpx.get(away.headers["location"]).headers["location"]
    return client.get(back)


def test_people_of_the_provider_log_in_with_their_role(configured, provider, settings):
    with person(configured) as client:
        assert client.get("/").headers["location"].startswith("/login")  # nobody is "local" here
        assert client.get("/api/v1/cases").status_code == 401
        page = client.get("/login").text
        assert "Log in with St. Example" in page
        assert 'name="password"' not in page
        welcome = log_in(client)
        assert welcome.status_code == 200
        assert 'content="0; url=/worklist"' in welcome.text
        cookie = next(c for c in welcome.headers.get_list("set-cookie") if "lesion=" in c)
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/api/v1/me").json() == {"name": "ada", "role": "clinician"}
        assert client.post("/calibrations/1/reject").status_code == 403
        provider.user["groups"] = ["derm-leads", "derm-clinicians"]
        with person(configured) as elsewhere:
            log_in(elsewhere)
            assert elsewhere.get("/api/v1/me").json()["role"] == "approver"
        assert client.get("/api/v1/me").status_code == 401  # the session with the former role
    store = Store(settings.record)
    with store.reading() as session:
        kinds = [e.kind for e in session.scalars(select(Entry)) if provider.address in e.by]
        (account,) = session.scalars(select(Person))
    assert kinds == ["account added", "account changed"]
    assert account.subject == f"{provider.address} 17"
    store.close()


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "of another login"},
        {"aud": "another-client"},
        {"iss": "https://id.example"},
        {"exp": 1_000_000},
        {"preferred_username": "<script>"},
        {"sub": None},
    ],
    ids=lambda forged: next(iter(forged)),
)
def test_what_does_not_fit_is_refused(configured, provider, forged, settings):
    provider.claims = forged
    with person(configured) as client:
        answer = log_in(client)
        assert answer.status_code in {401, 403}
        assert "<script>" not in answer.text
        assert client.get("/api/v1/me").status_code == 401
    store = Store(settings.record)
    with store.reading() as session:
        assert session.scalars(select(Person)).all() == []
    store.close()


def test_a_token_of_another_key_and_a_login_of_another_browser_are_refused(configured, provider):
    with person(configured) as client, person(configured) as other:
        away = client.get("/login/oidc").headers["location"]
        back = httpx.get(away).headers["location"]
        assert other.get(back).status_code == 401  # without the state of that browser
        query = parse_qs(urlsplit(back).query)
        wrong = urlencode({"code": query["code"][0], "state": "guessed"})
        assert client.get(f"/login/oidc/callback?{wrong}").status_code == 401
        assert client.get("/login/oidc/callback").status_code == 401
        provider.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
        assert log_in(client).status_code == 401
        assert client.get("/api/v1/me").status_code == 401


def test_a_provider_that_calls_itself_otherwise_is_refused(configured, provider):
    provider.issuer = "https://id.example"  # its description and its tokens agree
    with person(configured) as client:
        assert log_in(client).status_code == 401


def test_who_has_no_role_or_another_persons_name_stays_outside(configured, provider, settings):
    store = Store(settings.record)
    people.add(store, "Ada", "approver", "correct horse battery", "test")
    with person(configured) as client:
        answer = log_in(client)
        assert answer.status_code == 403
        assert "There is another account ada on this server" in answer.text
        assert 'name="password"' in answer.text  # the account of this server has one
        provider.user = {"sub": "18", "preferred_username": "bob", "groups": ["cardiology"]}
        assert "bob has no role on this server" in log_in(client).text
        provider.user["groups"] = "derm-clinicians"
        assert log_in(client).status_code == 200
        # An account without a password has none that could be guessed.
        for password in ("", " ", "bob"):
            guessed = client.post("/login", data={"name": "bob", "password": password})
            assert guessed.status_code == 401
        people.change(store, "bob", "test", close=True)
        assert client.get("/api/v1/me").status_code == 401
        assert "The account bob was closed" in log_in(client).text
    store.close()


def test_a_provider_that_is_down_is_said(serve, settings, tmp_path):
    path = tmp_path / "oidc.json"
    path.write_text(json.dumps(configuration("http://127.0.0.1:9/nobody")))
    path.chmod(0o600)
    with serve(settings.model_copy(update={"oidc": path})) as address, person(address) as client:
        answer = client.get("/login/oidc")
    assert answer.status_code == 502
    assert "The identity provider did not answer" in answer.text


@pytest.mark.parametrize(
    ("change", "mode", "word"),
    [
        ({}, 0o644, "readable by its owner only"),
        ({"issuer": "http://id.example"}, 0o600, "issuer"),
        ({"roles": {"all": "king"}}, 0o600, "king"),
        ({"secret": "x"}, 0o600, "secret"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_served(
    tmp_path, capsys, change, mode, word
):
    path = tmp_path / "oidc.json"
    path.write_text(json.dumps(configuration("https://id.example") | change))
    path.chmod(mode)
    assert cli.main(["serve", "--oidc", str(path), "--data", str(tmp_path / "record")]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.browser
def test_a_browser_goes_to_the_provider_and_comes_back(
    chromium, provider, serve, settings, tmp_path
):
    """The provider is another site, so a strict cookie is not sent on the way back."""
    provider.address = provider.address.replace("127.0.0.1", "localhost")
    path = tmp_path / "oidc.json"
    path.write_text(json.dumps(configuration(provider.address)))
    path.chmod(0o600)
    with serve(settings.model_copy(update={"oidc": path})) as address:
        page = chromium.new_page(base_url=address)
        page.goto("/rules")
        page.get_by_role("link", name="Log in with St. Example").click()
        page.wait_for_url("**/rules")  # the page that was asked for
        assert "ada" in page.get_by_role("banner").inner_text()
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")
        page.close()
