"""The pages: each is complete without JavaScript, which only makes them quicker to use."""

from __future__ import annotations

import secrets
from base64 import b64encode
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
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
    policies,
    quality,
    study,
    thresholds,
    weeks,
    worklist,
)
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import Origin, calibrated
from temperance_skin_lesion.classes import CLASSES, CODES, OTHER
from temperance_skin_lesion.decision import FOREIGN, URGENCIES, Costs, Policy
from temperance_skin_lesion.intake import MAX_FILES, Picture
from temperance_skin_lesion.similar import similar
from temperance_skin_lesion.store import Activation, Case, Entry, MapRow, PolicyRow
from temperance_skin_lesion.web import api, charts
from temperance_skin_lesion.web.api import Agreed, Approver, Clinician, Key, Service, read_files
from temperance_skin_lesion.web.forms import files_in, mix_in, origin_in, policy_in, texts_in
from temperance_skin_lesion.web.messages import sentences
from temperance_skin_lesion.web.render import DEMO_PICTURES, page
from temperance_skin_lesion.web.schemas import (
    CaseOut,
    Diagnosis,
    JudgedCase,
    MapOut,
    Mix,
    PolicyOut,
    Problem,
)
from temperance_skin_lesion.web.security import own_address
from temperance_skin_lesion.worklist import Worklist  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from temperance_skin_lesion.assistant import Assistant

__all__ = ["router"]

router = APIRouter()
PER_PAGE = 25

AUDITED = {
    "decisions": ("set up", "map %", "policy %"),
    "diagnoses": ("diagnosis",),
    "pictures": ("judged", "upgraded"),
    "accounts": ("account %",),
}
"""Kinds of entries of the audit chain, by what they are about."""


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
    files, origin = files_in(form), origin_in(texts_in(form))
    pictures, contents, problems = read_files(files)
    if not files:
        problems = [Problem(detail="No file was chosen.")]
    hidden = request.app.state.settings.silent
    cases = assistant.judge(pictures, contents, by=by, origin=origin, hidden=hidden)
    return _results(request, assistant, pictures, cases, problems, origin)


def _results(
    request: Request,
    assistant: Assistant,
    pictures: list[Picture],
    cases: list[Case],
    problems: list[Problem],
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


def _preview(picture: Picture) -> str:
    """The centre square of the picture, inside the page: nothing is stored."""
    return f"data:image/jpeg;base64,{b64encode(picture.preview).decode()}"


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
        mix = mix_in(texts_in(form))
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
        cases=[CaseOut.of(case, known.get(case.lesion)) for case in rows],
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
        body = Diagnosis.model_validate(
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
        maps = [MapOut.of(row, active.map_id) for row in rows]
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
        mix = mix_in(texts_in(form))
        pictures, _, _ = await run_in_threadpool(read_files, files_in(form))
        map_id = await run_in_threadpool(_calibrate, assistant, pictures, mix, agreement, user.name)
    return RedirectResponse(f"/calibrations/{map_id}", status_code=303)


def _calibrate(
    assistant: Assistant, pictures: list[Picture], mix: Mix, agreement: Any, by: str
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
        values = texts_in(form)
    policy = policy_in(values)
    if values.get("verb") != "propose":
        return await run_in_threadpool(_rules, request, assistant, agreement, policy)
    policy_id = await run_in_threadpool(
        lambda: policies.propose(
            assistant, policy, agreement, by=user.name, reason=values.get("reason", "")
        )
    )
    return RedirectResponse(f"/rules/{policy_id}", status_code=303)


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
        rows=[PolicyOut.of(row, active.policy_id) for row in rows],
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
        row=PolicyOut.of(row, active.policy_id),
        active=active,
        before=compared.policy if compared else active.policy.model_dump(),
        effect=effect,
        agreement=agreement,
    )


@router.post("/calibrations/{number}/{verb}")
@router.post("/rules/{number}/{verb}")
def decide(
    request: Request,
    assistant: Service,
    user: Approver,
    agreement: Agreed,
    number: Key,
    verb: Literal["accept", "reject", "restore"],
    seen: Annotated[int, Form(ge=0, le=2**62)] = 0,
) -> Response:
    """Accept, reject or restore a calibration or rules."""
    rules = request.url.path.startswith("/rules/")
    kind, back = (policies.POLICIES, "/rules") if rules else (clinic.MAPS, "/clinic")
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
        mix = mix_in(texts_in(form))
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
