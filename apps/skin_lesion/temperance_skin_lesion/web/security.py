"""What every request passes before anything else looks at it.

- The ``Host`` header must be a name of this server: a page of another site that rebinds its own
  name to the loopback address is turned away.
- A write that comes from a browser must come from our own pages.
- Where there are accounts, everything but the way in asks for a session, and readers write nothing.
- A body has a size limit, whether or not it announces its length, and must not stall. Without a
  session the limit is that of a name and a password.
- Answers forbid the browser everything that the pages do not need, also when a request fails.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from http.cookies import CookieError, SimpleCookie
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import anyio
from anyio.to_thread import run_sync
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from temperance_skin_lesion import people
from temperance_skin_lesion.web.render import error_page, wants_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "Guard", "own_address", "secret_of"]

COOKIE = "temperance-skin-lesion"
MAX_UPLOAD = 256 * 2**20
"""Of a form with files, which wait on the disk."""
MAX_PLAIN = 2**20
"""Of any other body, which is held in memory, and of everything from nobody known."""
TOO_LARGE = (
    f"A request with files may have {MAX_UPLOAD // 2**20} MB at most, any other "
    f"{MAX_PLAIN // 2**20} MB; send fewer files."
)
STALLED_SECONDS = 60
"""Without any byte of a body; a slow line sends some."""
BODY_SECONDS = 900
"""For a whole body, however slowly its bytes trickle in."""

SAFE = {"GET", "HEAD", "OPTIONS"}
OWN_ADDRESS = r"(?a)(/[\w.-]+)+(\?[\w.%&=+*~-]*)?"
NO_SESSION = (
    "Nobody is logged in here, or the session has ended; nothing of this request was kept. Log in "
    "and try again."
)
FOR_PROGRAMS = (
    " Programs POST name and password to /api/v1/login, then send Authorization: Bearer TOKEN."
)
OPEN_PATHS = ("/login", "/static/", "/api/v1/login")
OPEN_WRITES = ("/login", "/logout", "/api/v1/login")

logger = logging.getLogger("temperance_skin_lesion")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",  # without one, a browser hides the origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware with the rules above."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refusal = await self.refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, guarded)
                return
            await self.app(scope, limited(receive, largest(scope)), guarded)
        except Exception:
            logger.exception("A request failed.")
            if started:
                raise
            sentence = (
                "The server failed on this request; its log says where. The audit page tells what "
                "was kept."
            )
            await refuse(scope, 500, sentence)(scope, receive, guarded)

    async def refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not let in."""
        settings = scope["app"].state.settings
        headers = Headers(scope=scope)
        path, write = scope["path"], scope["method"] not in SAFE
        host = headers.get("host", "").lower()
        if host.rpartition(":")[0] not in settings.hosts and host not in settings.hosts:
            return refuse(
                scope,
                400,
                "This server does not answer under that name (Host header). If the name is right, "
                "start the server with --name and that name.",
            )
        if write and not same_origin(headers, host):
            return refuse(scope, 403, "Changes are accepted from the pages of this server only.")
        state = scope["app"].state
        known = partial(people.who, required=state.oidc is not None)
        user = await run_sync(known, state.assistant.store, secret_of(headers))
        scope["user"] = user
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > largest(scope):
            return refuse(scope, 413, TOO_LARGE)
        if user is None:
            if path.startswith(OPEN_PATHS):
                return None
            if scope["method"] == "GET" and not path.startswith("/api/"):
                return RedirectResponse(login_address(scope), status_code=303)
            program = "sec-fetch-site" not in headers  # which every browser sends
            return refuse(scope, 401, NO_SESSION + (FOR_PROGRAMS if program else ""))
        if write and path not in OPEN_WRITES and not user.may("clinician"):
            return refuse(scope, 403, f"{user.name} may look and change nothing (reader).")
        return None


def login_address(scope: Scope) -> str:
    """Return where to log in and then go on to the page that was asked for."""
    query = scope["query_string"].decode("latin-1")
    wanted = scope["path"] + (f"?{query}" if query else "")
    return f"/login?{urlencode({'next': wanted})}"


def own_address(text: str, otherwise: str) -> str:
    """Return an address of this server that a form names; nothing else is followed."""
    return text if re.fullmatch(OWN_ADDRESS, text) else otherwise


def secret_of(headers: Headers) -> str | None:
    """Return the secret of the session that a request carries."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie else None


def largest(scope: Scope) -> int:
    """Return how many bytes the body of a request may have."""
    files = Headers(scope=scope).get("content-type", "").lower().startswith("multipart/")
    return MAX_UPLOAD if files and scope["user"] is not None else MAX_PLAIN


def limited(receive: Receive, most: int) -> Receive:
    """Pass a body on up to ``most`` bytes; a longer or a stalled one ends in a sentence."""
    seen, whole, ends = 0, False, anyio.current_time() + BODY_SECONDS

    async def counting() -> Message:
        nonlocal seen, whole
        # What comes after a whole body is the end of the connection, however late.
        patience = inf if whole else min(STALLED_SECONDS, ends - anyio.current_time())
        try:
            with anyio.fail_after(patience):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "The request stopped half-way; send it again.") from None
        whole = not message.get("more_body")
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, TOO_LARGE)
        return message

    return counting


def same_origin(headers: Headers, host: str) -> bool:
    """Whether a browser says that the request comes from our pages; programs say nothing."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    return origin is None or urlsplit(origin).netloc == host


def refuse(scope: Scope, status: int, detail: str) -> Response:
    """Answer a program with JSON and a person with a page."""
    request = Request(scope)
    if wants_page(request):
        return error_page(request, status, detail)
    return JSONResponse({"detail": detail}, status_code=status)
