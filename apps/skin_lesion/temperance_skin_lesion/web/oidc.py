"""Logging in at the identity provider of a hospital, by OpenID Connect.

The authorization code flow with PKCE, a state and a nonce, as Authlib implements it. What the
provider says is used once: subject, name and groups become an account with a role, and a session of
this server begins. A role changes with the next login; closing an account here ends it at once.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from fastapi import APIRouter, Request
from httpx2 import HTTPError
from joserfc.errors import JoseError
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from temperance_skin_lesion import people
from temperance_skin_lesion.web.login import keep_secret, login_form
from temperance_skin_lesion.web.render import page
from temperance_skin_lesion.web.security import own_address

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.responses import Response

    from temperance_skin_lesion.settings import Settings

__all__ = ["Provider", "client", "read_provider", "router"]

router = APIRouter(prefix="/login/oidc", include_in_schema=False)

FAILURES = (AuthlibBaseError, JoseError, HTTPError, KeyError, ValueError)
"""What a provider that is down, wrong or forged leads to."""


class Provider(BaseModel):
    """The file that `serve --oidc` names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field("the identity provider", description="shown on the login page")
    issuer: str = Field(pattern=r"^https://|^http://(127\.0\.0\.1|localhost)[:/]")
    client_id: str
    client_secret: str
    scope: str = "openid profile"
    name_claim: str = "preferred_username"
    role_claim: str = "groups"
    roles: dict[str, str] = Field(description="role here by a value of the role claim")

    def role(self, claims: dict[str, Any]) -> str | None:
        """Return the highest role that the claims give, or None."""
        given = claims.get(self.role_claim) or []
        values = [given] if isinstance(given, str) else list(given)
        found = {self.roles[value] for value in values if value in self.roles}
        return max(found, key=people.ROLES.index, default=None)


def read_provider(path: Path) -> Provider:
    """Return the provider that a file describes; the file holds a secret and is its owner's."""
    if path.stat().st_mode & 0o077:
        raise ValueError(f"{path} holds a secret: make it readable by its owner only (chmod 600).")
    provider = Provider.model_validate(json.loads(path.read_text("utf-8")))
    unknown = sorted(set(provider.roles.values()) - set(people.ROLES))
    if unknown:
        raise ValueError(
            f"{path}: roles must be among {', '.join(people.ROLES)}. Got {', '.join(unknown)}."
        )
    return provider


def client(provider: Provider) -> Any:
    """Return what speaks to the provider."""
    oauth = OAuth()
    oauth.register(
        "provider",
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        client_kwargs={
            "scope": provider.scope,
            "code_challenge_method": "S256",
            "timeout": 10,
        },
    )
    return oauth.create_client("provider")


@router.get("")
async def leave(request: Request) -> Response:
    """Send a person to the provider, and remember where to go on afterwards."""
    request.session["next"] = own_address(request.query_params.get("next", ""), "/worklist")
    try:
        return await request.app.state.oidc_client.authorize_redirect(request, _back(request))
    except FAILURES as error:
        return _refused(request, 502, f"The identity provider did not answer ({_kind(error)}).")


@router.get("/callback")
async def come_back(request: Request) -> Response:
    """Begin the session of a person whom the provider sent back."""
    state = request.app.state
    provider: Provider = state.oidc
    try:
        token = await state.oidc_client.authorize_access_token(request)
        claims = dict(token["userinfo"])
        if str(claims["iss"]).rstrip("/") != provider.issuer.rstrip("/"):
            raise ValueError("another issuer")
        name, subject = str(claims[provider.name_claim]), str(claims["sub"])
    except FAILURES as error:
        return _refused(request, 401, f"The login did not succeed ({_kind(error)}). Try again.")
    role = provider.role(claims)
    if role is None:
        await run_in_threadpool(
            people.log_out_everywhere, state.assistant.store, provider.issuer, subject
        )
        sentence = f"{name} has no role on this server; whoever runs it can help."
        return _refused(request, 403, sentence)
    try:
        secret = await run_in_threadpool(
            people.log_in_from, state.assistant.store, provider.issuer, subject, name, role
        )
    except people.AccountError as error:
        return _refused(request, 403, str(error))
    # A page of our own goes on: a strict cookie is not sent where another site led.
    wanted = request.session.pop("next", "/worklist")
    response = page(request, "welcome.html", here="login", wanted=wanted)
    keep_secret(request, response, secret)
    return response


def _back(request: Request) -> str:
    settings: Settings = request.app.state.settings
    host = request.headers["host"]  # one of the names of this server: the guard has checked
    return f"http{'s' if settings.secure else ''}://{host}/login/oidc/callback"


def _kind(error: Exception) -> str:
    """Name an error; the text that another site may have put into the address is not repeated."""
    said = str(getattr(error, "error", ""))
    return said if re.fullmatch("[a-z_]{1,40}", said) else type(error).__name__


def _refused(request: Request, status: int, sentence: str) -> Response:
    return login_form(request, status, sentence)
