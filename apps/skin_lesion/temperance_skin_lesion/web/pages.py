"""The pages: each is complete without JavaScript, which only makes them quicker to use."""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.templating import Jinja2Templates
from markupsafe import Markup
from pydantic import ValidationError
from sqlalchemy import func, or_, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response  # noqa: TC002 - read at run time

from temperance_skin_lesion import (
    changes,
    clinic,
    demo,
    intake,
    monitor,
    people,
    policies,
    quality,
    study,
    thresholds,
    weeks,
    worklist,
)
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import Origin, calibrated
from temperance_skin_lesion.classes import CLASSES, CODES, OTHER, SOURCES
from temperance_skin_lesion.decision import (
    DARK,
    FOREIGN,
    ORIENTATIONS,
    RULES,
    URGENCIES,
    Costs,
    Policy,
    urgency_reasons,
)
from temperance_skin_lesion.intake import MAX_BYTES, MAX_FILES, Picture
from temperance_skin_lesion.people import LOCAL
from temperance_skin_lesion.similar import similar
from temperance_skin_lesion.store import Activation, Case, Entry, MapRow, PolicyRow
from temperance_skin_lesion.web import api, charts
from temperance_skin_lesion.web.api import (
    Agreed,
    Approver,
    Clinician,
    JudgedCase,
    Key,
    Service,
    read_files,
)
from temperance_skin_lesion.web.messages import sentences
from temperance_skin_lesion.web.plain import plain_alarm, plain_finding, plain_gain
from temperance_skin_lesion.web.security import COOKIE, own_address, secret_of
from temperance_skin_lesion.worklist import Worklist  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from starlette.datastructures import FormData, UploadFile

    from temperance_skin_lesion.assistant import Assistant

__all__ = ["error_page", "keep_secret", "login_form", "page", "router", "wants_page"]

router = APIRouter()
PER_PAGE = 25
DEMO_PICTURES = 110

RULE_NAMES = {
    "melanoma-suspected": "melanoma suspected",
    "melanoma-not-excluded": "melanoma not excluded",
    "orientations-disagree": "depends on how the picture is turned",
    "threshold": "not probable enough",
    "cost": "an error would weigh too much",
    DARK: "skin tone not validated",
    "quality": "picture not fit",
    FOREIGN: "not a dermatoscopic picture",
    "melanoma-threshold": "melanoma suspected",
}

AUDITED = {
    "decisions": ("set up", "map %", "policy %"),
    "diagnoses": ("diagnosis",),
    "pictures": ("judged", "upgraded"),
    "accounts": ("account %",),
}
"""Kinds of entries of the audit chain, by what they are about."""

POLICY_FIELDS = {
    "threshold": ("An answer needs", "least probability of any answer"),
    "melanoma_threshold": ("The answer melanoma needs", "never below the first one"),
    "melanoma_ceiling": (
        "Melanoma is excluded up to",
        "no other answer while melanoma is more probable",
    ),
    "agreement": ("Orientations that agree", "of eight; fewer is a reason to refer"),
    "urgent_melanoma": ("Urgent from melanoma", "probability of melanoma"),
    "urgent_malignant": ("Urgent from malignant", "probability of any malignant lesion"),
    "soon_malignant": ("Soon from malignant", "probability of any malignant lesion"),
}
"""What people call the numbers of a policy, and what each is."""

templates = Jinja2Templates(directory=Path(__file__).parent / "templates")
templates.env.globals |= {
    "BROWN": quality.BROWN,
    "CLASSES": CLASSES,
    "DEMO_PICTURES": DEMO_PICTURES,
    "CODES": CODES,
    "FOREIGN": FOREIGN,
    "LIMITS": quality.LIMITS,
    "MALIGNANT": {c.code for c in CLASSES if c.malignant},
    "MAX_FILES": MAX_FILES,
    "MAX_MB": MAX_BYTES // 2**20,
    "NAMES": {c.code: c.name for c in CLASSES} | {OTHER: "Other"},
    "ORIENTATIONS": ORIENTATIONS,
    "POLICY_FIELDS": POLICY_FIELDS,
    "DARK": DARK,
    "RULES": RULES,
    "RULE_NAMES": RULE_NAMES,
    "SOURCES": SOURCES,
    "URGENCIES": URGENCIES,
}


def show(value: Any) -> str:
    """Evidence of a finding as text: numbers short, lists in a row."""
    if isinstance(value, list):
        return ", ".join(map(show, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    """A probability for people: whole percents, and one decimal where that would be none."""
    shown = 100 * value
    if 0 < shown < 0.1:
        return "<0.1 %"
    if 99.9 < shown < 100:
        return ">99.9 %"
    return f"{shown:.1f} %" if shown < 10 or shown > 90 else f"{shown:.0f} %"


def number(value: float) -> str:
    """A number of cases in a thousand for people: whole, and one decimal where that says more."""
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def ends(effect: dict[str, Any], key: str) -> tuple[float, float]:
    """Ends of the 90 % interval of a number of cases in a thousand."""
    rows = effect["rows"]
    _, low, high = thresholds.share_interval(min(effect[key] * rows / 1000, rows), rows)
    return 1000 * low, 1000 * high


def because(case: JudgedCase, policy: Policy) -> str:
    """Say why a case has its urgency; empty for a picture that is to be taken again."""
    if not case.probabilities or case.urgency in {None, "retake"}:
        return ""
    p = np.array([case.probabilities[code] for code in CODES])
    dark = any(rule.rule == DARK for rule in case.rules or [])
    said = urgency_reasons(p, policy, str(case.urgency), dark=dark)
    return f"{str(case.urgency).capitalize()}: {'; '.join(said)}."


def when(at: str | None) -> Markup | str:
    """A time of the record for people: in UTC, and by the script in the time of the browser."""
    if not at:
        return "–"
    shown = at[:16].replace("T", " ")
    return Markup('<time datetime="{}">{} UTC</time>').format(at, shown)


templates.env.filters |= {
    "ends": ends,
    "because": because,
    "evidence": show,
    "gain": plain_gain,
    "number": number,
    "percent": percent,
    "plain": plain_finding,
    "rings": plain_alarm,
    "when": when,
}


def wants_page(request: Request) -> bool:
    """Whether a person is waiting, rather than a program."""
    return (
        "text/html" in request.headers.get("accept", "")
        and "x-fragment" not in request.headers
        and not request.url.path.startswith("/api/")
    )


def page(request: Request, name: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Render a page."""
    user = request.scope.get("user")  # None before the way in
    facts |= {
        "settings": request.app.state.settings,
        "model": request.app.state.assistant.model,
        "user": user,
        "accounts": user is not LOCAL,
    }
    return templates.TemplateResponse(request, name, facts, status_code=status)


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """Say what went wrong, with a way back."""
    if status == 404 and detail == "Not Found":
        detail = "There is no such page."
    came_from = re.match(r"/(rules|calibrations|cases)/\d+(?=/)", request.url.path)
    back = came_from.group() if came_from else None
    return page(request, "error.html", status, detail=detail, here="", failed=status, back=back)


@router.get("/")
def predict_page(request: Request, assistant: Service, agreement: Agreed) -> HTMLResponse:
    """Where pictures are dropped."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
    return page(
        request,
        "predict.html",
        here="predict",
        results=None,
        active=active,
        origin=Origin(),
        outside=policies.outside(assistant, agreement),
    )


@router.post("/")
async def predict(request: Request, assistant: Service, user: Clinician) -> HTMLResponse:
    """Judge pictures; the script of the page asks for the results alone."""
    async with request.form(max_files=MAX_FILES + 1) as form:
        return await run_in_threadpool(_judge, request, assistant, form, user.name)


def _judge(request: Request, assistant: Assistant, form: FormData, by: str) -> HTMLResponse:
    files, origin = _files(form), _origin(_texts(form))
    pictures, contents, problems = read_files(files)
    if not files:
        problems = [api.Problem(detail="No file was chosen.")]
    hidden = request.app.state.settings.silent
    cases = assistant.judge(pictures, contents, by=by, origin=origin, hidden=hidden)
    return _results(request, assistant, pictures, cases, problems, origin)


def _results(
    request: Request,
    assistant: Assistant,
    pictures: list[Picture],
    cases: list[Case],
    problems: list[api.Problem],
    origin: Origin,
) -> HTMLResponse:
    known = api.diagnoses_of(assistant, cases)
    with assistant.store.reading() as session:
        active = assistant.active(session)
        policies_used = {
            number: Policy.model_validate(session.get_one(PolicyRow, number).policy)
            for number in {case.policy_id for case in cases}
        }
    results = [
        {
            "case": JudgedCase.judged(case, picture, known.get(case.lesion)),
            "policy": policies_used[case.policy_id],
            "preview": _preview(picture),
        }
        for case, picture in zip(cases, pictures, strict=True)
    ]
    fragment = "x-fragment" in request.headers
    if not fragment:  # by hand the most urgent comes first; the script sorts by itself
        order = (*URGENCIES, None)
        results.sort(
            key=lambda r: (order.index(r["case"].urgency), -(r["case"].malignant or [0])[0])
        )
    return page(
        request,
        "_results.html" if fragment else "predict.html",
        here="predict",
        results=results,
        problems=problems,
        active=active,
        origin=origin,
    )


@router.post("/demo/predict")
def demo_predict(request: Request, assistant: Service, user: Clinician) -> HTMLResponse:
    """Judge a few pictures drawn by code."""
    files = _drawn(request, 6)
    pictures = [intake.read(*file) for file in files]
    cases = assistant.judge(pictures, [content for content, _ in files], by=user.name)
    return _results(request, assistant, pictures, cases, [], Origin())


@router.post("/demo/clinic")
async def demo_clinic(
    request: Request, assistant: Service, user: Clinician, agreement: Agreed
) -> Response:
    """Calibrate on pictures drawn by code."""
    async with request.form() as form:
        mix = _mix(_texts(form))
    files = await run_in_threadpool(_drawn, request, DEMO_PICTURES)
    pictures = await run_in_threadpool(lambda: [intake.read(*file) for file in files])
    map_id = await run_in_threadpool(_calibrate, assistant, pictures, mix, agreement, user.name)
    return RedirectResponse(f"/calibrations/{map_id}", status_code=303)


def _drawn(request: Request, n: int) -> list[tuple[bytes, str]]:
    if not request.app.state.settings.demo:
        raise HTTPException(404, "Pictures are drawn in the demo only.")
    first = secrets.randbelow(10**6)
    return demo.files(range(first, first + n))


@router.get("/worklist")
def worklist_page(
    request: Request,
    assistant: Service,
    agreement: Agreed,
    wanted: Annotated[Worklist, Query()],
) -> HTMLResponse:
    """Cases by urgency."""
    with assistant.store.reading() as session:
        rows = worklist.cases(session, wanted, PER_PAGE)
        known = db.newest_diagnoses(session, [case.lesion for case in rows])
        found = worklist.total(session, wanted)
        counts = worklist.counts(session)
        elsewhere = 0
        if not found and wanted.q and wanted.state:  # perhaps it has a diagnosis already
            elsewhere = worklist.total(session, wanted.model_copy(update={"state": ""}))
    pages = max(1, -(-found // PER_PAGE))
    return page(
        request,
        "worklist.html",
        here="worklist",
        cases=[api.CaseOut.of(case, known.get(case.lesion)) for case in rows],
        wanted=wanted,
        total=found,
        counts=counts,
        pages=pages,
        elsewhere=elsewhere,
        ringing=weeks.ringing(assistant, agreement),
        outside=policies.outside(assistant, agreement),
    )


@router.get("/cases/{case_id}")
def case_page(
    request: Request, assistant: Service, case_id: Key, wanted: Annotated[Worklist, Query()]
) -> HTMLResponse:
    """One case with everything that is known of it."""
    case = api.get_case(assistant, case_id)
    with assistant.store.reading() as session:
        former, following = worklist.neighbours(session, case_id, wanted)
        same = session.scalars(
            select(Case).where(Case.lesion == case.lesion, Case.id != case_id).order_by(Case.id)
        ).all()
        policy = session.get(PolicyRow, case.policy)
        views = [] if case.hidden else _views(session, case_id)
        logits = session.get_one(Case, case_id).logits
    return page(
        request,
        "case.html",
        here="worklist",
        case=case,
        wanted=wanted,
        former=former,
        following=following,
        same=[(row.id, row.created, row.sha256 == case.sha256) for row in same],
        policy=Policy.model_validate(policy.policy) if policy else Policy(),
        history=api.list_diagnoses(assistant, case_id),
        views=views,
        alike=similar(assistant.model.source, logits) if case.probabilities else None,
        faults=quality.faults(quality.Quality(**case.quality)) if case.quality else [],
    )


def _views(session: Any, case_id: int) -> list[dict[str, Any]]:
    """What each orientation says: the most probable diagnosis and P(melanoma)."""
    row = session.get(Case, case_id)
    if not row.views or row.rule == FOREIGN:
        return []
    p = calibrated(session.get(MapRow, row.map_id).artefact, row.views)
    return [
        {"code": CODES[int(q.argmax())], "p": float(q.max()), "melanoma": float(q[0])} for q in p
    ]


@router.post("/cases/{case_id}/diagnoses")
def diagnose(
    assistant: Service,
    user: Clinician,
    case_id: Key,
    diagnosis: Annotated[str, Form()] = "",
    other: Annotated[str, Form(max_length=80)] = "",
    source: Annotated[str, Form()] = "unknown",
    back: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Add a later diagnosis and go on where the person was."""
    try:
        body = api.Diagnosis.model_validate(
            {
                "diagnosis": None if diagnosis == "none" else diagnosis,
                "other": other if diagnosis == OTHER else "",
                "source": source,
            }
        )
    except ValidationError as error:
        raise HTTPException(422, sentences(error.errors())) from None
    api.diagnose(assistant, user, case_id, body)
    return RedirectResponse(own_address(back, f"/cases/{case_id}"), status_code=303)


@router.get("/clinic")
def clinic_page(request: Request, assistant: Service) -> HTMLResponse:
    """Where a clinic's pictures become a calibration."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        former = changes.former(session, clinic.MAPS, active)
        rows = session.scalars(select(MapRow).order_by(MapRow.id.desc()).limit(50)).all()
        used = session.scalars(select(Activation).order_by(Activation.id.desc()).limit(20)).all()
        maps = [api.MapOut.of(row, active.map_id) for row in rows]
        stated = clinic.last_mix(session)
    return page(
        request,
        "clinic.html",
        here="clinic",
        active=active,
        former=former,
        maps=[(made, row) for made, row in zip(maps, rows, strict=True)],
        used=used,
        last_mix=stated,
    )


@router.post("/clinic")
async def clinic_upload(
    request: Request, assistant: Service, user: Clinician, agreement: Agreed
) -> Response:
    """Take mix and pictures in one form, for a browser without JavaScript."""
    async with request.form(max_files=MAX_FILES + 1) as form:
        mix = _mix(_texts(form))
        pictures, _, _ = await run_in_threadpool(read_files, _files(form))
        map_id = await run_in_threadpool(_calibrate, assistant, pictures, mix, agreement, user.name)
    return RedirectResponse(f"/calibrations/{map_id}", status_code=303)


def _calibrate(
    assistant: Assistant, pictures: list[Picture], mix: api.Mix, agreement: Any, by: str
) -> int:
    survey = clinic.open_survey(assistant)
    clinic.add_pictures(assistant, survey, pictures)
    return clinic.propose_from_survey(assistant, survey, mix.knowledge(), agreement, by=by)


@router.get("/calibrations/{map_id}")
def map_page(request: Request, assistant: Service, map_id: Key) -> HTMLResponse:
    """Show one calibration with what it rests on, and the buttons to decide."""
    with assistant.store.reading() as session:
        row = changes.existing(session, MapRow, map_id)
        active = assistant.active(session)
    shares = zip(
        CLASSES, row.summary["prior"] or row.reference["mix"], row.reference["mix"], strict=True
    )
    never = [c.name for c, prior, mix in shares if c.malignant and prior > 0 and mix == 0]
    return page(request, "map.html", here="clinic", map=row, active=active, never=never)


@router.get("/calibrations/{map_id}/report")
def map_report(assistant: Service, map_id: Key) -> HTMLResponse:
    """Return the report as the library wrote it, in a box that can run nothing."""
    with assistant.store.reading() as session:
        row = changes.existing(session, MapRow, map_id)
    box = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    return HTMLResponse(
        row.report or "This calibration has no report.",
        headers={"Content-Security-Policy": f"{box}; frame-ancestors 'self'"},
    )


@router.get("/rules")
def rules_page(request: Request, assistant: Service, agreement: Agreed) -> HTMLResponse:
    """Where it is proposed what is answered."""
    with assistant.store.reading() as session:
        policy = assistant.active(session).policy
    return _rules(request, assistant, agreement, policy)


@router.post("/rules")
async def rules(
    request: Request, assistant: Service, user: Clinician, agreement: Agreed
) -> Response:
    """Show what rules would do, or propose them."""
    async with request.form() as form:
        values = _texts(form)
    policy = _policy(values)
    if values.get("verb") != "propose":
        return await run_in_threadpool(_rules, request, assistant, agreement, policy)
    policy_id = await run_in_threadpool(
        lambda: policies.propose(
            assistant, policy, agreement, by=user.name, reason=values.get("reason", "")
        )
    )
    return RedirectResponse(f"/rules/{policy_id}", status_code=303)


def _policy(values: dict[str, str]) -> Policy:
    """Return the policy of a form, whose numbers are text."""

    def numbers(fields: Any) -> dict[str, Any]:
        return {
            name: _number(values[name], int if field.annotation is int else float)
            for name, field in fields.items()
            if name in values
        }

    try:
        return Policy.model_validate(
            {**numbers(Policy.model_fields), "costs": numbers(Costs.model_fields)}
        )
    except ValidationError as error:
        said = sentences(error.errors())
        for name, (words, _) in sorted(POLICY_FIELDS.items(), key=lambda x: -len(x[0])):
            said = re.sub(rf"\b{name}\b", f"“{words}”", said)
        raise HTTPException(422, said) from None


def _number(text: str, kind: type) -> Any:
    """Return the number that a field holds; other text is left for the check to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text


def _rules(request: Request, assistant: Assistant, agreement: Any, policy: Policy) -> HTMLResponse:
    effect = policies.compare(assistant, policy, agreement)
    with assistant.store.reading() as session:
        active = assistant.active(session)
        recent = monitor.recent(session, assistant.model.id)
        former = changes.former(session, policies.POLICIES, active)
        rows = session.scalars(select(PolicyRow).order_by(PolicyRow.id.desc()).limit(50)).all()
        used = session.scalars(select(Activation).order_by(Activation.id.desc()).limit(20)).all()
    points = {
        "validation": effect["validation"]["then"],
        "here": effect["here"]["then"] if effect["here"] else None,
    }
    shown = recent if effect["here"] else None
    curves = thresholds.curves(assistant.model.source, active, shown)
    return page(
        request,
        "_effect.html" if "x-fragment" in request.headers else "rules.html",
        here="rules",
        policy=policy,
        in_force=active.policy,
        active=active,
        former=former,
        effect=effect,
        chart=charts.risk_coverage(curves, points),
        cost_fields=Costs.model_fields,
        rows=[api.PolicyOut.of(row, active.policy_id) for row in rows],
        used=used,
        agreement=agreement,
    )


@router.get("/rules/{policy_id}")
def policy_page(
    request: Request, assistant: Service, policy_id: Key, agreement: Agreed
) -> HTMLResponse:
    """Show proposed rules beside those in force, and the buttons to decide."""
    with assistant.store.reading() as session:
        row = changes.existing(session, PolicyRow, policy_id)
        active = assistant.active(session)
        effect = row.comparison
    if row.status == "proposed":  # whoever decides sees what it would do now
        effect = policies.compare(assistant, Policy.model_validate(row.policy), agreement)
    with assistant.store.reading() as session:
        compared = session.get(PolicyRow, effect.get("policy", active.policy_id))
    return page(
        request,
        "policy.html",
        here="rules",
        row=api.PolicyOut.of(row, active.policy_id),
        active=active,
        before=compared.policy if compared else active.policy.model_dump(),
        effect=effect,
        agreement=agreement,
    )


@router.post("/{place}/{number}/{verb}")
def decide(
    assistant: Service,
    user: Approver,
    agreement: Agreed,
    place: Literal["calibrations", "rules"],
    number: Key,
    verb: Literal["accept", "reject", "restore"],
    seen: Annotated[int, Form(ge=0, le=2**62)] = 0,
) -> Response:
    """Accept, reject or restore a calibration or rules."""
    kind, back = {
        "calibrations": (clinic.MAPS, "/clinic"),
        "rules": (policies.POLICIES, "/rules"),
    }[place]
    if verb == "reject":
        changes.reject(assistant, kind, number, by=user.name)
    else:
        decided = {"accept": changes.accept, "restore": changes.restore}[verb]
        decided(assistant, kind, number, seen, agreement, by=user.name)
    return RedirectResponse(back, status_code=303)


@router.get("/results")
def results_page(request: Request, assistant: Service, agreement: Agreed) -> HTMLResponse:
    """What came true, and what the weeks look like."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        total = db.count(session, select(Case.id))
        diagnosed = len(db.diagnosed_codes(session))
        recent = int((~monitor.recent(session, assistant.model.id).dark).sum())
        stated = clinic.last_mix(session)
        judged_by = set(session.scalars(select(Case.map_id).where(db.is_diagnosed()).distinct()))
    found = monitor.measured(assistant)
    # The calibration in use claims a gap for what it says itself.
    claimed = active.map_row.summary.get("ece_after") if judged_by == {active.map_id} else None
    return page(
        request,
        "results.html",
        here="results",
        total=total,
        diagnosed=diagnosed,
        weeks=weeks.by_week(assistant, agreement),
        active=active,
        measured=asdict(found) if found else None,
        claimed_gap=claimed,
        least=monitor.LEAST_DIAGNOSED,
        chart=charts.reliability(found.bins) if found else None,
        recent=recent,
        agreement=agreement,
        last_mix=stated,
    )


@router.get("/study")
def study_page(request: Request, assistant: Service, agreement: Agreed) -> HTMLResponse:
    """What the assistant would have done, estimated and then measured by diagnoses."""
    found = study.report(assistant, agreement)
    chart = charts.as_diagnoses_came(found) if found and found.steps else None
    return page(request, "study.html", here="results", study=found, chart=chart)


@router.post("/results/proposal")
async def propose_from_cases(
    request: Request, assistant: Service, user: Clinician, agreement: Agreed
) -> Response:
    """Calibrate on the recent cases and show the proposal."""
    async with request.form() as form:
        mix = _mix(_texts(form))
    proposed = await run_in_threadpool(api.propose_from_cases, assistant, user, agreement, mix)
    return RedirectResponse(f"/calibrations/{proposed.id}", status_code=303)


@router.get("/audit")
def audit_page(
    request: Request,
    assistant: Service,
    before: Annotated[int, Query(ge=1, le=2**62)] = 2**62,
    about: Literal["", "decisions", "diagnoses", "pictures", "accounts"] = "",
) -> HTMLResponse:
    """Who decided what, newest first."""
    wanted = select(Entry).where(Entry.id < before).order_by(Entry.id.desc()).limit(2 * PER_PAGE)
    if about:
        wanted = wanted.where(or_(*(Entry.kind.like(kind) for kind in AUDITED[about])))
    with assistant.store.reading() as session:
        entries = session.scalars(wanted).all()
        newest = session.scalar(select(Entry).order_by(Entry.id.desc()).limit(1))
        total = session.scalar(select(func.count()).select_from(Entry))
    return page(
        request,
        "audit.html",
        here="audit",
        entries=entries,
        newest=newest,
        total=total,
        older=entries[-1].id if len(entries) == 2 * PER_PAGE else None,
        about=about,
    )


@router.get("/about")
def about(request: Request) -> HTMLResponse:
    """What the model is, what it was trained on, and what it must not be used for."""
    return page(request, "about.html", here="about")


@router.get("/api/docs")
def api_docs(request: Request) -> HTMLResponse:
    """Describe the HTTP interface."""
    return page(request, "api.html", here="about", openapi=request.app.openapi())


@router.get("/login")
def login_page(request: Request, assistant: Service) -> Response:
    """Ask for name and password, or send people to the identity provider."""
    required = request.app.state.oidc is not None
    if people.who(assistant.store, None, required=required) is not None:  # no accounts
        return RedirectResponse("/", status_code=303)
    return login_form(request, 200, "")


def login_form(request: Request, status: int, problem: str) -> HTMLResponse:
    """Return the login page with what went wrong."""
    provider = request.app.state.oidc
    return page(
        request,
        "login.html",
        status,
        here="login",
        problem=problem,
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
        return login_form(request, 401, str(error))
    except people.TooManyAttempts as error:
        return login_form(request, 429, str(error))
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


def _files(form: FormData) -> list[UploadFile]:
    """Return the uploaded files; an empty field of a browser sends a nameless one."""
    return [f for f in form.getlist("files") if not isinstance(f, str) and f.filename]


def _texts(form: FormData) -> dict[str, str]:
    """Return the fields of a form that are no files."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _origin(values: dict[str, str]) -> Origin:
    """Return where pictures come from, as far as a form says."""
    found = {name: values.get(name, "").strip() for name in ("lesion", "site", "camera")}
    for name, value in found.items():
        if not re.fullmatch(api.PSEUDONYM, value):
            raise HTTPException(
                422, f"{name} must have at most 40 letters, digits or . _ -; it is no name."
            )
    return Origin(**found)


def _mix(values: dict[str, str]) -> api.Mix:
    """Return the class mix of a form, whose numbers are percent."""
    if "mix" not in values:
        raise HTTPException(422, "The mix of diagnoses: say first whether it is known here.")
    if values["mix"] == "unknown":
        return api.Mix.model_validate({"prior": None})
    try:
        shares = {code: float(values.get(f"mix-{code}", "")) / 100 for code in CODES}
    except ValueError:
        raise HTTPException(422, "The mix of diagnoses needs a number for each of them.") from None
    try:
        return api.Mix.model_validate({"prior": shares, "known": values["mix"]})
    except ValidationError as error:
        said = sentences(error.errors())
        raise HTTPException(422, f"The mix of diagnoses: {said}") from None


def _preview(picture: Picture) -> str:
    """The centre square of the picture, inside the page: nothing is stored."""
    return f"data:image/jpeg;base64,{b64encode(picture.preview).decode()}"
