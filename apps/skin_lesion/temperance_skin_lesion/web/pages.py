"""The pages: each is complete without JavaScript, which only makes them quicker to use."""

from __future__ import annotations

import secrets
from base64 import b64encode
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.templating import Jinja2Templates
from PIL import Image
from pydantic import ValidationError
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response  # noqa: TC002 - read at run time

from temperance_skin_lesion import clinic, demo, monitor, thresholds
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CLASSES, CODES
from temperance_skin_lesion.decision import FOREIGN, Costs, Policy
from temperance_skin_lesion.intake import MAX_BYTES, MAX_FILES, Picture
from temperance_skin_lesion.store import Activation, Case, MapRow
from temperance_skin_lesion.web import api, charts
from temperance_skin_lesion.web.api import JudgedCase, Key, Service, read_files
from temperance_skin_lesion.web.security import COOKIE, cookie_value, is_token

if TYPE_CHECKING:
    from starlette.datastructures import FormData, UploadFile

    from temperance_skin_lesion.assistant import Assistant

__all__ = ["error_page", "router", "wants_page"]

router = APIRouter()
PER_PAGE = 25

templates = Jinja2Templates(directory=Path(__file__).parent / "templates")
templates.env.globals |= {
    "CLASSES": CLASSES,
    "FOREIGN": FOREIGN,
    "NAMES": {c.code: c.name for c in CLASSES},
    "MAX_FILES": MAX_FILES,
    "MAX_MB": MAX_BYTES // 2**20,
}


def show(value: Any) -> str:
    """Evidence of a finding as text: numbers short, lists in a row."""
    if isinstance(value, list):
        return ", ".join(map(show, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


templates.env.filters["evidence"] = show
templates.env.filters["when"] = lambda at: at[:16].replace("T", " ")


def wants_page(request: Request) -> bool:
    """Whether a person is waiting, rather than a program."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(
        "/api/"
    )


def page(request: Request, name: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Render a page."""
    facts |= {"settings": request.app.state.settings, "model": request.app.state.assistant.model}
    return templates.TemplateResponse(request, name, facts, status_code=status)


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """Say what went wrong, with a way back."""
    return page(request, "error.html", status, detail=detail)


@router.get("/")
def predict_page(request: Request) -> HTMLResponse:
    """Where pictures are dropped."""
    return page(request, "predict.html", here="predict", results=None)


@router.post("/")
async def predict(request: Request, assistant: Service) -> HTMLResponse:
    """Judge pictures; the script of the page asks for the results alone."""
    async with request.form(max_files=MAX_FILES + 1) as form:
        return await run_in_threadpool(_judge, request, assistant, _files(form))


def _judge(request: Request, assistant: Assistant, files: list[UploadFile]) -> HTMLResponse:
    pictures, contents, problems = read_files(files)
    if not files:
        problems = [api.Problem(detail="No file was chosen.")]
    return _results(request, pictures, assistant.judge(pictures, contents), problems)


def _results(
    request: Request, pictures: list[Picture], cases: list[Case], problems: list[api.Problem]
) -> HTMLResponse:
    results = [
        {"case": JudgedCase.judged(case, picture), "thumbnail": _thumbnail(picture)}
        for case, picture in zip(cases, pictures, strict=True)
    ]
    name = "_results.html" if "x-fragment" in request.headers else "predict.html"
    return page(request, name, here="predict", results=results, problems=problems)


@router.post("/demo/predict")
def demo_predict(request: Request, assistant: Service) -> HTMLResponse:
    """Judge a few pictures drawn by code."""
    pictures = _drawn(request, 6)
    return _results(request, pictures, assistant.judge(pictures), [])


@router.post("/demo/clinic")
async def demo_clinic(request: Request, assistant: Service) -> Response:
    """Calibrate on pictures drawn by code."""
    async with request.form() as form:
        mix = _mix(_texts(form))
    pictures = await run_in_threadpool(_drawn, request, 150)
    map_id = await run_in_threadpool(_calibrate, request, assistant, pictures, mix)
    return RedirectResponse(f"/maps/{map_id}", status_code=303)


def _drawn(request: Request, n: int) -> list[Picture]:
    if not request.app.state.settings.demo:
        raise HTTPException(404, "Pictures are drawn in the demo only.")
    first = secrets.randbelow(10**6)
    return demo.drawn(range(first, first + n))


@router.get("/clinic")
def clinic_page(request: Request, assistant: Service) -> HTMLResponse:
    """Where a clinic's pictures become a map."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        former = clinic.former_map(session)
        rows = session.scalars(select(MapRow).order_by(MapRow.id.desc()).limit(50)).all()
        used = session.scalars(select(Activation).order_by(Activation.id.desc()).limit(20)).all()
        maps = [api.map_out(row, active.map_id) for row in rows]
    return page(
        request,
        "clinic.html",
        here="clinic",
        active=active,
        former=former,
        maps=maps,
        used=used,
    )


@router.post("/clinic")
async def clinic_upload(request: Request, assistant: Service) -> Response:
    """Take mix and pictures in one form, for a browser without JavaScript."""
    async with request.form(max_files=MAX_FILES + 1) as form:
        map_id = await run_in_threadpool(
            _survey, request, assistant, _files(form), _mix(_texts(form))
        )
    return RedirectResponse(f"/maps/{map_id}", status_code=303)


def _survey(request: Request, assistant: Assistant, files: list[UploadFile], mix: api.Mix) -> int:
    pictures, _, _ = read_files(files)
    return _calibrate(request, assistant, pictures, mix)


def _calibrate(
    request: Request, assistant: Assistant, pictures: list[Picture], mix: api.Mix
) -> int:
    survey = clinic.open_survey(assistant)
    clinic.add_pictures(assistant, survey, pictures)
    agreement = request.app.state.settings.agreement
    return clinic.propose_from_survey(assistant, survey, mix.knowledge(), agreement)


@router.get("/maps/{map_id}")
def map_page(request: Request, assistant: Service, map_id: Key) -> HTMLResponse:
    """Show one map with verdict, findings and report, and the buttons to decide."""
    with assistant.store.reading() as session:
        row = api.existing(session.get(MapRow, map_id), "map", map_id)
        active = assistant.active(session)
    shares = zip(CLASSES, row.summary["prior"], row.reference["mix"], strict=True)
    never = [c.name for c, prior, mix in shares if c.malignant and prior > 0 and mix == 0]
    return page(request, "map.html", here="clinic", map=row, active=active, never=never)


@router.get("/maps/{map_id}/report")
def map_report(assistant: Service, map_id: Key) -> HTMLResponse:
    """Return the report as the library wrote it, in a box that can run nothing."""
    with assistant.store.reading() as session:
        row = api.existing(session.get(MapRow, map_id), "map", map_id)
    box = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    return HTMLResponse(
        row.report or "This map has no report.",
        headers={"Content-Security-Policy": f"{box}; frame-ancestors 'self'"},
    )


@router.post("/maps/{map_id}/{verb}")
def decide(
    assistant: Service,
    map_id: Key,
    verb: Literal["accept", "reject", "restore"],
    seen: Annotated[int, Form(ge=0, le=2**62)] = 0,
) -> Response:
    """Accept, reject or restore a map."""
    if verb == "accept":
        clinic.accept(assistant, map_id, seen)
    elif verb == "restore":
        clinic.restore(assistant, map_id, seen)
    else:
        clinic.reject(assistant, map_id)
    return RedirectResponse("/clinic", status_code=303)


@router.get("/threshold")
def threshold_page(request: Request, assistant: Service) -> HTMLResponse:
    """Where it is decided what is answered."""
    with assistant.store.reading() as session:
        policy = assistant.active(session).policy
    return _threshold(request, assistant, policy)


@router.post("/threshold")
async def threshold(request: Request, assistant: Service) -> Response:
    """Show what a policy would do, or put it in force."""
    async with request.form() as form:
        values = _texts(form)
    costs = {name: values[name] for name in Costs.model_fields if name in values}
    rest = {name: values[name] for name in Policy.model_fields if name in values}
    try:
        policy = Policy.model_validate({**rest, "costs": costs})
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise HTTPException(422, said) from None
    if values.get("verb") == "save":
        api.set_policy(assistant, policy)
        return RedirectResponse("/threshold?saved=1", status_code=303)
    return _threshold(request, assistant, policy)


def _threshold(request: Request, assistant: Assistant, policy: Policy) -> HTMLResponse:
    effect = api.preview(assistant, policy)
    with assistant.store.reading() as session:
        active = assistant.active(session)
        recent = monitor.recent_logits(session, assistant.model.id)
    chart = charts.risk_coverage(thresholds.curves(assistant.model.source, active, recent))
    name = "_effect.html" if "x-fragment" in request.headers else "threshold.html"
    return page(
        request,
        name,
        here="threshold",
        policy=policy,
        in_force=active.policy,
        effect=effect,
        chart=chart,
        cost_fields=Costs.model_fields,
        saved="saved" in request.query_params,
    )


@router.get("/log")
def log_page(
    request: Request,
    assistant: Service,
    before: Annotated[int, Query(ge=1, le=2**62)] = 2**62,
    decision: Literal["", "answer", "refer"] = "",
) -> HTMLResponse:
    """Every case, what became of it, and what the weeks look like."""
    cases = api.list_cases(assistant, before, PER_PAGE, decision or None)
    with assistant.store.reading() as session:
        active = assistant.active(session)
        weeks = monitor.weekly_drift(session, active)
        found = monitor.measured(session, assistant.model.id)
        total = db.count(session, select(Case.id))
        diagnosed = db.count(session, select(Case.id).where(Case.diagnosis.is_not(None)))
        recent = len(monitor.recent_logits(session, assistant.model.id))
    return page(
        request,
        "log.html",
        here="log",
        cases=cases,
        total=total,
        diagnosed=diagnosed,
        decision=decision,
        next=cases[-1].id if len(cases) == PER_PAGE else None,
        weeks=weeks,
        active=active,
        measured=asdict(found) if found else None,
        least=monitor.LEAST_DIAGNOSED,
        chart=charts.reliability(found.bins) if found else None,
        recent=recent,
        agreement=request.app.state.settings.agreement,
    )


@router.post("/log/{case_id}/diagnosis")
def diagnose(
    request: Request, assistant: Service, case_id: Key, diagnosis: Annotated[str, Form()] = ""
) -> Response:
    """Add a later diagnosis."""
    if diagnosis and diagnosis not in CODES:
        raise HTTPException(422, f"diagnosis must be one of {', '.join(CODES)}.")
    body = api.Diagnosis.model_validate({"diagnosis": diagnosis or None})
    api.diagnose(assistant, case_id, body)
    before = parse_qs(urlsplit(request.headers.get("referer", "")).query).get("before", [""])[0]
    query = f"?before={before}" if before.isdecimal() else ""
    return RedirectResponse(f"/log{query}#case-{case_id}", status_code=303)


@router.post("/log/proposal")
async def propose_from_cases(request: Request, assistant: Service) -> Response:
    """Calibrate on the recent cases and show the proposal."""
    async with request.form() as form:
        mix = _mix(_texts(form))
    proposed = await run_in_threadpool(api.propose_from_cases, request, assistant, mix)
    return RedirectResponse(f"/maps/{proposed.id}", status_code=303)


@router.get("/about")
def about(request: Request) -> HTMLResponse:
    """What the model is, what it was trained on, and what it must not be used for."""
    return page(request, "about.html", here="about")


@router.get("/api/docs")
def api_docs(request: Request) -> HTMLResponse:
    """Describe the HTTP interface."""
    return page(request, "api.html", here="about", openapi=request.app.openapi())


@router.get("/login")
def login_page(request: Request) -> HTMLResponse:
    """Ask for the token."""
    return page(request, "login.html", here="login", wrong=False)


@router.post("/login")
def login(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """Remember in a cookie that the token was known."""
    expected = request.app.state.settings.token
    if not expected or not is_token(token, expected):
        return page(request, "login.html", 401, here="login", wrong=True)
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(COOKIE, cookie_value(expected), httponly=True, samesite="strict")
    return response


def _files(form: FormData) -> list[UploadFile]:
    """Return the uploaded files; an empty field of a browser sends a nameless one."""
    return [f for f in form.getlist("files") if not isinstance(f, str) and f.filename]


def _texts(form: FormData) -> dict[str, str]:
    """Return the fields of a form that are no files."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _mix(values: dict[str, str]) -> api.Mix:
    """Return the class mix of a form, whose numbers are percent."""
    if "mix" not in values:
        raise HTTPException(422, "The class mix: say first whether it is known here.")
    if values["mix"] == "unknown":
        return api.Mix.model_validate({"prior": None})
    try:
        shares = {code: float(values.get(f"mix-{code}", "")) / 100 for code in CODES}
        return api.Mix.model_validate({"prior": shares, "known": values["mix"]})
    except ValidationError as error:
        raise HTTPException(422, f"The class mix: {error.errors()[0]['msg']}") from None
    except ValueError:
        raise HTTPException(422, "The class mix needs a number for every class.") from None


def _thumbnail(picture: Picture) -> str:
    """The 64 x 64 pixels that the network saw, inside the page: nothing is stored."""
    buffer = BytesIO()
    Image.fromarray(picture.pixels).save(buffer, "PNG")
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"
