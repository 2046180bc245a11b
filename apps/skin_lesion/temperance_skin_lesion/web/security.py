"""What every request passes before anything else looks at it.

- The ``Host`` header must be a name of this server: a page of another site that rebinds its own
  name to the loopback address is turned away.
- A write that comes from a browser must come from our own pages.
- With a token, everything but the way in asks for it.
- A body has a size limit, whether or not it announces its length.
- Answers forbid the browser everything that the pages do not need.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from temperance_skin_lesion.settings import Settings

__all__ = ["COOKIE", "Guard", "cookie_value", "is_token"]

COOKIE = "temperance-skin-lesion"
MAX_REQUEST = 256 * 2**20
TOO_LARGE = f"A request may have {MAX_REQUEST // 2**20} MB at most; send fewer files."
SAFE = {"GET", "HEAD", "OPTIONS"}
OPEN_PATHS = ("/login", "/static/")

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


def cookie_value(token: str) -> str:
    """What the browser keeps instead of the token itself."""
    return hashlib.sha256(f"cookie:{token}".encode()).hexdigest()


def is_token(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


class Guard:
    """ASGI middleware with the rules above."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        await self.app(scope, limited(receive), guarded)

    def refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not let in."""
        headers = Headers(scope=scope)
        path, write = scope["path"], scope["method"] not in SAFE
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in self.settings.hosts and host not in self.settings.hosts:
            return refuse(400, "This server does not answer under that name (Host header).")
        if write and not same_origin(headers, host):
            return refuse(403, "Changes are accepted from the pages of this server only.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_REQUEST:
            return refuse(413, TOO_LARGE)
        if self.settings.token and not path.startswith(OPEN_PATHS) and not self.knows(headers):
            if scope["method"] == "GET" and not path.startswith("/api/"):
                return RedirectResponse("/login", status_code=303)
            return refuse(401, "This server asks for its token: Authorization: Bearer TOKEN.")
        return None

    def knows(self, headers: Headers) -> bool:
        """Whether the request carries the token, or the cookie of a login."""
        token = self.settings.token or ""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return is_token(given, token)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and is_token(cookie.value, cookie_value(token))


def limited(receive: Receive) -> Receive:
    """Pass a body on up to `MAX_REQUEST`; a longer one ends in an answer that says so."""
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_REQUEST:
            raise HTTPException(413, TOO_LARGE)
        return message

    return counting


def same_origin(headers: Headers, host: str) -> bool:
    """Whether a browser says that the request comes from our pages; programs say nothing."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    return origin is None or urlsplit(origin).netloc == host


def refuse(status: int, detail: str) -> Response:
    """Answer with a sentence."""
    return JSONResponse({"detail": detail}, status_code=status)
