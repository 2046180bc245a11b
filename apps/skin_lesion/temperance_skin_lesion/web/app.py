"""The application: the guard around it, the routes in it, and how errors are said."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

import temperance as tp
from temperance.report import plot
from temperance_skin_lesion import demo
from temperance_skin_lesion import model as shipped
from temperance_skin_lesion.assistant import Assistant
from temperance_skin_lesion.changes import NotAcceptable
from temperance_skin_lesion.intake import MAX_FILES, PictureError
from temperance_skin_lesion.people import AccountError, TooManyAttempts
from temperance_skin_lesion.settings import Settings
from temperance_skin_lesion.store import Conflict, Store, StoreFull, private_directory
from temperance_skin_lesion.web import api, login, pages
from temperance_skin_lesion.web.messages import sentences
from temperance_skin_lesion.web.render import error_page, wants_page
from temperance_skin_lesion.web.security import Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from temperance_skin_lesion.model import Model

__all__ = ["create_app", "from_environment"]

STATIC = Path(__file__).parent / "static"


def create_app(settings: Settings, model: Model | None = None) -> FastAPI:
    """Build the application around one record and one model."""
    import torch

    torch.set_num_threads(1)  # one worker, one core
    model = model or shipped.load(settings.weights)
    if settings.demo:
        model = demo.for_demo(model)
    private_directory(settings.data)
    store = Store(settings.record)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        store.close()

    app = FastAPI(
        title="temperance: the skin-lesion assistant",
        description="**Research use only. Not a medical device.** Judges dermatoscopic pictures "
        "with calibrated confidence, and refers what it is not sure of.",
        version=tp.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # the usual page loads its scripts from elsewhere; ours is at /api/docs
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.assistant = Assistant(model, store, settings.images)
    app.state.oidc = None
    if settings.oidc:
        prepare_oidc(app, settings)
    app.include_router(api.router)
    app.include_router(login.router, include_in_schema=False)
    app.include_router(pages.router, include_in_schema=False)
    app.add_route("/static/plot.css", plot_style, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for kind, status in STATUS.items():
        app.add_exception_handler(kind, say(status))
    app.add_exception_handler(OSError, disk_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, not_as_described)
    app.add_middleware(Guard)
    return app


def prepare_oidc(app: FastAPI, settings: Settings) -> None:
    """Let people log in at the identity provider that a file describes."""
    from starlette.middleware.sessions import SessionMiddleware

    from temperance_skin_lesion.web import oidc

    app.state.oidc = oidc.read_provider(cast("Path", settings.oidc))
    app.state.oidc_client = oidc.client(app.state.oidc)
    app.include_router(oidc.router)
    # State and nonce between leaving and coming back; "lax", because the provider leads back.
    app.add_middleware(
        SessionMiddleware,
        secret_key=settings.key,
        session_cookie="temperance-skin-lesion-login",
        path="/login",
        max_age=600,
        same_site="lax",
        https_only=settings.secure,
    )


def plot_style(_: Request) -> Response:
    """Return the style sheet of the charts."""
    return Response(plot.style(), media_type="text/css")


def from_environment() -> FastAPI:
    """Build the application in a worker process."""
    return create_app(Settings.taken_over())


STATUS: dict[type[Exception], int] = {
    StoreFull: 507,
    Conflict: 409,
    LookupError: 404,
    NotAcceptable: 422,
    PictureError: 422,
    AccountError: 401,
    TooManyAttempts: 429,
    tp.InputError: 422,
    tp.NotIdentified: 422,
}


def say(status: int) -> Callable[[Request, Exception], Response]:
    """Return a handler that answers with the sentence of the error."""

    def handler(request: Request, error: Exception) -> Response:
        return answer(request, status, str(error))

    return handler


def disk_error(request: Request, error: OSError) -> Response:
    """Say that the disk is full; the guard answers any other failure of the system."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}:
        return answer(request, 507, "The disk is full. Nothing of this request was kept.")
    raise error


def http_error(request: Request, error: HTTPException) -> Response:
    """Say what the framework found."""
    if error.status_code == 400 and str(error.detail).startswith("Too many files"):
        return answer(request, 413, f"At most {MAX_FILES} files are taken at once; send fewer.")
    return answer(request, error.status_code, str(error.detail), error.headers)


def not_as_described(request: Request, error: RequestValidationError) -> Response:
    """Say what of a request is wrong; what was sent is not repeated, it may not be JSON at all."""
    return answer(request, 422, sentences(error.errors()))


def answer(request: Request, status: int, detail: str, headers: Any = None) -> Response:
    """Answer a person with a page and a program with JSON."""
    if wants_page(request):
        return error_page(request, status, detail)
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)
