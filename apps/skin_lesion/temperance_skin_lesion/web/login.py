"""Logging in and out on the pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response  # noqa: TC002 - read at run time

from temperance_skin_lesion import people
from temperance_skin_lesion.web.api import Service  # noqa: TC001 - read at run time
from temperance_skin_lesion.web.render import page
from temperance_skin_lesion.web.security import COOKIE, own_address, secret_of

__all__ = ["keep_secret", "login_form", "router"]

router = APIRouter()


@router.get("/login")
def login_page(request: Request, assistant: Service) -> Response:
    """Ask for name and password, or send people to the identity provider."""
    required = request.app.state.oidc is not None
    if people.who(assistant.store, None, required=required) is not None:  # no accounts
        return RedirectResponse("/", status_code=303)
    return login_form(request, 200, "")


def login_form(request: Request, status: int, problem: str, name: str = "") -> HTMLResponse:
    """Return the login page with what went wrong."""
    provider = request.app.state.oidc
    return page(
        request,
        "login.html",
        status,
        here="login",
        problem=problem,
        typed=name,
        provider=provider.name if provider else None,
        passwords=provider is None or people.has_passwords(request.app.state.assistant.store),
        wanted=own_address(request.query_params.get("next", ""), ""),
    )


@router.post("/login")
def login(
    request: Request,
    assistant: Service,
    name: Annotated[str, Form(max_length=64)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Begin a session and keep its secret in a cookie."""
    address = request.client.host if request.client else ""
    try:
        secret = people.log_in(assistant.store, name, password, address)
    except people.AccountError as error:
        return login_form(request, 401, str(error), name)
    except people.TooManyAttempts as error:
        return login_form(request, 429, str(error), name)
    wanted = own_address(request.query_params.get("next", ""), "/worklist")
    response = RedirectResponse(wanted, status_code=303)
    keep_secret(request, response, secret)
    return response


def keep_secret(request: Request, response: Response, secret: str) -> None:
    """Keep the secret of a session in a cookie."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=people.HOURS * 3600,
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.secure,
    )


@router.post("/logout")
def logout(request: Request, assistant: Service) -> Response:
    """End the session here and on the server."""
    secret = secret_of(request.headers)
    if secret:
        people.log_out(assistant.store, secret)
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE)
    return response
