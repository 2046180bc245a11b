"""The HTTP interface under ``/api/v1``; described at ``/api/docs`` and ``/api/openapi.json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, HTTPException, Path, Query, Request, UploadFile
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import select

from temperance_skin_lesion import (
    audit,
    changes,
    clinic,
    intake,
    monitor,
    people,
    policies,
    study,
    weeks,
    worklist,
)
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import Assistant, Origin
from temperance_skin_lesion.decision import Policy  # noqa: TC001 - read at run time
from temperance_skin_lesion.people import User
from temperance_skin_lesion.store import Case, DiagnosisRow, MapRow, PolicyRow
from temperance_skin_lesion.web.export import csv_lines, json_lines
from temperance_skin_lesion.web.schemas import (
    PROBLEMS,
    PSEUDONYM,
    ActiveOut,
    CaseOut,
    Collected,
    Credentials,
    Diagnosis,
    DiagnosisOut,
    Health,
    Judged,
    JudgedCase,
    MapOut,
    Me,
    Mix,
    PolicyOut,
    Problem,
    Proposal,
    Seen,
    Session,
)
from temperance_skin_lesion.worklist import Filter  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from temperance_skin_lesion.agreement import Agreement

__all__ = ["Agreed", "Approver", "Clinician", "Key", "Service", "read_files", "router"]

router = APIRouter(prefix="/api/v1", responses={n: PROBLEMS[n] for n in (400, 401, 422)})

Key = Annotated[int, Path(ge=1, le=2**62)]


def the_assistant(request: Request) -> Assistant:
    """Return the assistant of this process."""
    return request.app.state.assistant


def the_agreement(request: Request) -> Agreement:
    """Return what was agreed when the server was set up."""
    return request.app.state.settings.agreement


def requires(role: str) -> Callable[[Request], User]:
    """Return a dependency that lets in who may do what ``role`` may."""

    def checked(request: Request) -> User:
        user: User = request.scope["user"]  # the guard lets nobody else in
        if not user.may(role):
            raise HTTPException(
                403, f"This needs the role {role}; {user.name} has the role {user.role}."
            )
        return user

    return checked


Service = Annotated[Assistant, Depends(the_assistant)]
Agreed = Annotated[Any, Depends(the_agreement)]
Clinician = Annotated[User, Depends(requires("clinician"))]
Approver = Annotated[User, Depends(requires("approver"))]


def read_files(
    files: list[UploadFile],
) -> tuple[list[intake.Picture], Iterator[bytes], list[Problem]]:
    """Take the pictures among uploaded files, and say what was wrong with the rest.

    The contents of the pictures are read again, one by one, by whoever keeps them: memory is that
    of one file.
    """
    if len(files) > intake.MAX_FILES:
        raise HTTPException(
            413, f"At most {intake.MAX_FILES} files are taken at once. Got {len(files)}."
        )
    pictures, taken, problems = [], [], []
    for file in files:
        try:
            pictures.append(intake.read_file(file.file, file.filename or ""))
            taken.append(file)
        except intake.PictureError as error:
            problems.append(Problem(detail=str(error)))
    return pictures, (_from_start(file) for file in taken), problems


def _from_start(file: UploadFile) -> bytes:
    file.file.seek(0)
    return file.file.read()


@router.post("/login", tags=["people"], responses={**PROBLEMS, 429: {"model": Problem}})
def log_in(request: Request, assistant: Service, body: Credentials) -> Session:
    """Begin a session of twelve hours."""
    address = request.client.host if request.client else ""
    token = people.log_in(assistant.store, body.name, body.password, address)
    user = people.who(assistant.store, token)
    if user is None:  # closed at this very moment
        raise people.AccountError("That account was closed.")
    return Session(token=token, name=user.name, role=user.role)


@router.get("/me", tags=["people"])
def me(request: Request) -> Me:
    """Say who asks."""
    user: User = request.scope["user"]
    return Me(name=user.name, role=user.role)


@router.post("/predict", tags=["cases"], responses=PROBLEMS)
def predict(
    request: Request,
    assistant: Service,
    user: Clinician,
    files: Annotated[list[UploadFile], File(description="pictures")],
    lesion: Annotated[str, Form(pattern=PSEUDONYM, description="pseudonym, if all show one")] = "",
    site: Annotated[str, Form(pattern=PSEUDONYM)] = "",
    camera: Annotated[str, Form(pattern=PSEUDONYM)] = "",
) -> Judged:
    """Judge pictures and record each as a case.

    A file that cannot be taken is named under "problems" and does not keep the others back.
    """
    pictures, contents, problems = read_files(files)
    hidden = request.app.state.settings.silent
    origin = Origin(lesion, site, camera)
    cases = assistant.judge(pictures, contents, by=user.name, origin=origin, hidden=hidden)
    known = diagnoses_of(assistant, cases)
    return Judged(
        cases=[
            JudgedCase.judged(case, picture, known.get(case.lesion))
            for case, picture in zip(cases, pictures, strict=True)
        ],
        problems=problems,
    )


@router.get("/cases", tags=["cases"], responses={422: PROBLEMS[422]})
def list_cases(
    assistant: Service,
    wanted: Annotated[Filter, Query()],
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> list[CaseOut]:
    """Return cases by urgency, or newest first."""
    with assistant.store.reading() as session:
        cases = worklist.cases(session, wanted, limit)
        known = db.newest_diagnoses(session, [case.lesion for case in cases])
    return [CaseOut.of(case, known.get(case.lesion)) for case in cases]


@router.get("/cases/export", tags=["cases"], response_class=StreamingResponse)
def export(
    assistant: Service,
    format: Literal["csv", "jsonl"] = "csv",  # noqa: A002 - the name in the URL
) -> StreamingResponse:
    """Return the whole log, oldest first, as CSV or as a JSON object per line."""
    lines = (csv_lines if format == "csv" else json_lines)(assistant.store)
    kind = "text/csv; charset=utf-8" if format == "csv" else "application/x-ndjson"
    return attachment(lines, kind, f"skin-lesion-log.{format}")


@router.get(
    "/audit/export",
    tags=["audit"],
    response_class=StreamingResponse,
    responses={403: PROBLEMS[403]},
)
def export_audit(assistant: Service, user: Clinician) -> StreamingResponse:
    """Return the audit chain with the cases; `temperance-skin-lesion verify FILE` checks it.

    In silent mode the export holds what the assistant said, so it needs the role approver.
    """
    with assistant.store.reading() as session:
        secret = session.scalar(select(Case.id).where(Case.hidden).limit(1)) is not None
    if secret and not user.may("approver"):
        raise HTTPException(403, "In silent mode this needs the role approver.")
    lines = audit.lines(assistant.store)
    return attachment(lines, "application/x-ndjson", "skin-lesion-audit.jsonl")


def attachment(lines: Iterator[str], kind: str, name: str) -> StreamingResponse:
    """Answer with a file to keep."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=kind, headers=headers)


@router.get("/cases/{case_id}", tags=["cases"], responses={404: PROBLEMS[404]})
def get_case(assistant: Service, case_id: Key) -> CaseOut:
    """Return one case."""
    with assistant.store.reading() as session:
        case = changes.existing(session, Case, case_id)
        known = db.newest_diagnoses(session, [case.lesion])
    return CaseOut.of(case, known.get(case.lesion))


@router.get("/cases/{case_id}/picture", tags=["cases"], responses={404: PROBLEMS[404]})
def get_picture(assistant: Service, case_id: Key, preview: bool = False) -> Response:
    """Return the picture of a case, or its centre square, if the server keeps pictures.

    TIFF, HEIC and DICOM, which browsers do not show, are converted to JPEG.
    """
    with assistant.store.reading() as session:
        case = changes.existing(session, Case, case_id)
    path = assistant.keep / f"{case.sha256}.{case.kept}" if assistant.keep and case.kept else None
    if path is None or not path.is_file():
        raise HTTPException(404, f"The picture of case {case_id} is not kept.")
    content = path.read_bytes()
    if preview:
        return Response(intake.read(content, "kept").preview, media_type="image/jpeg")
    if case.kept.upper() in intake.SHOWN_BY_BROWSERS:
        return Response(content, media_type=f"image/{case.kept}")
    return Response(intake.viewable(content), media_type="image/jpeg")


@router.get("/cases/{case_id}/diagnoses", tags=["cases"], responses={404: PROBLEMS[404]})
def list_diagnoses(assistant: Service, case_id: Key) -> list[DiagnosisOut]:
    """Return all diagnoses of the lesion of a case, newest first."""
    with assistant.store.reading() as session:
        case = changes.existing(session, Case, case_id)
        rows = session.scalars(
            select(DiagnosisRow)
            .where(DiagnosisRow.lesion == case.lesion)
            .order_by(DiagnosisRow.id.desc())
        )
        return [DiagnosisOut.model_validate(row) for row in rows]


@router.post("/cases/{case_id}/diagnoses", tags=["cases"], status_code=201, responses=PROBLEMS)
def diagnose(assistant: Service, user: Clinician, case_id: Key, body: Diagnosis) -> CaseOut:
    """Add a later diagnosis; the former one stays on record."""
    with assistant.store.writing() as session:
        case = changes.existing(session, Case, case_id)
        row = worklist.diagnose(
            session,
            case,
            by=user.name,
            code=body.diagnosis,
            other=body.other,
            source=body.source,
        )
        return CaseOut.of(case, row if row.code is not None else None)


def diagnoses_of(assistant: Assistant, cases: list[Case]) -> dict[str, DiagnosisRow]:
    """Return the diagnosis of each lesion among cases."""
    with assistant.store.reading() as session:
        return db.newest_diagnoses(session, [case.lesion for case in cases])


@router.post(
    "/surveys",
    tags=["clinic"],
    status_code=201,
    responses=PROBLEMS,
    dependencies=[Depends(requires("clinician"))],
)
def open_survey(assistant: Service) -> Collected:
    """Begin a collection of unlabelled pictures of a clinic."""
    return Collected(survey=clinic.open_survey(assistant), pictures=0, problems=[])


@router.post(
    "/surveys/{survey_id}/images",
    tags=["clinic"],
    responses=PROBLEMS,
    dependencies=[Depends(requires("clinician"))],
)
def add_images(
    assistant: Service,
    survey_id: Key,
    files: Annotated[list[UploadFile], File(description="pictures")],
) -> Collected:
    """Add pictures; of each, only its hash and its logits are kept, once."""
    pictures, _, problems = read_files(files)
    total, left_out = clinic.add_pictures(assistant, survey_id, pictures)
    problems += [Problem(detail=sentence) for sentence in left_out]
    return Collected(survey=survey_id, pictures=total, problems=problems)


@router.post("/surveys/{survey_id}/proposal", tags=["clinic"], status_code=201, responses=PROBLEMS)
def propose(
    assistant: Service, user: Clinician, agreement: Agreed, survey_id: Key, mix: Mix
) -> MapOut:
    """Calibrate on the survey's pictures for a class mix; the map waits for a decision."""
    map_id = clinic.propose_from_survey(
        assistant, survey_id, mix.knowledge(), agreement, by=user.name
    )
    return get_map(assistant, map_id)


@router.get("/active", tags=["clinic"])
def get_active(assistant: Service) -> ActiveOut:
    """Return the map and the policy in force."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        return ActiveOut(
            activation=active.activation,
            since=active.since,
            by=active.by,
            map=active.map_id,
            former_map=changes.former(session, clinic.MAPS, active),
            policy=active.policy,
            policy_id=active.policy_id,
            former_policy=changes.former(session, policies.POLICIES, active),
        )


@router.get("/maps", tags=["clinic"])
def list_maps(assistant: Service) -> list[MapOut]:
    """Return all maps, newest first."""
    with assistant.store.reading() as session:
        active = assistant.active(session).map_id
        rows = session.scalars(select(MapRow).order_by(MapRow.id.desc()))
        return [MapOut.of(row, active) for row in rows]


@router.get("/maps/{map_id}", tags=["clinic"], responses={404: PROBLEMS[404]})
def get_map(assistant: Service, map_id: Key) -> MapOut:
    """Return one map."""
    with assistant.store.reading() as session:
        row = changes.existing(session, MapRow, map_id)
        return MapOut.of(row, assistant.active(session).map_id)


@router.post("/maps/{map_id}/accept", tags=["clinic"], responses=PROBLEMS)
def accept(
    assistant: Service, user: Approver, agreement: Agreed, map_id: Key, body: Seen
) -> MapOut:
    """Bring a proposed map into use."""
    changes.accept(assistant, clinic.MAPS, map_id, body.seen, agreement, by=user.name)
    return get_map(assistant, map_id)


@router.post("/maps/{map_id}/reject", tags=["clinic"], responses=PROBLEMS)
def reject(assistant: Service, user: Approver, map_id: Key) -> MapOut:
    """Put a proposed map aside."""
    changes.reject(assistant, clinic.MAPS, map_id, by=user.name)
    return get_map(assistant, map_id)


@router.post("/maps/{map_id}/restore", tags=["clinic"], responses=PROBLEMS)
def restore(
    assistant: Service, user: Approver, agreement: Agreed, map_id: Key, body: Seen
) -> MapOut:
    """Bring a map back that was in use before."""
    changes.restore(assistant, clinic.MAPS, map_id, body.seen, agreement, by=user.name)
    return get_map(assistant, map_id)


@router.get("/policies", tags=["policy"])
def list_policies(assistant: Service) -> list[PolicyOut]:
    """Return all policies, newest first."""
    with assistant.store.reading() as session:
        active = assistant.active(session).policy_id
        rows = session.scalars(select(PolicyRow).order_by(PolicyRow.id.desc()))
        return [PolicyOut.of(row, active) for row in rows]


@router.post("/policies", tags=["policy"], status_code=201, responses=PROBLEMS)
def propose_policy(
    assistant: Service, user: Clinician, agreement: Agreed, body: Proposal
) -> PolicyOut:
    """Propose a policy; it waits for a decision unless it is outside the agreed range."""
    policy_id = policies.propose(
        assistant, body.policy, agreement, by=user.name, reason=body.reason
    )
    return get_policy(assistant, policy_id)


@router.post("/policies/preview", tags=["policy"], responses=PROBLEMS)
def preview(assistant: Service, agreement: Agreed, policy: Policy) -> dict[str, Any]:
    """Say what a policy would do beside the one in force, without proposing it."""
    return policies.compare(assistant, policy, agreement)


@router.get("/policies/{policy_id}", tags=["policy"], responses={404: PROBLEMS[404]})
def get_policy(assistant: Service, policy_id: Key) -> PolicyOut:
    """Return one policy."""
    with assistant.store.reading() as session:
        row = changes.existing(session, PolicyRow, policy_id)
        return PolicyOut.of(row, assistant.active(session).policy_id)


@router.post("/policies/{policy_id}/accept", tags=["policy"], responses=PROBLEMS)
def accept_policy(
    assistant: Service, user: Approver, agreement: Agreed, policy_id: Key, body: Seen
) -> PolicyOut:
    """Bring a proposed policy into force."""
    changes.accept(assistant, policies.POLICIES, policy_id, body.seen, agreement, by=user.name)
    return get_policy(assistant, policy_id)


@router.post("/policies/{policy_id}/reject", tags=["policy"], responses=PROBLEMS)
def reject_policy(assistant: Service, user: Approver, policy_id: Key) -> PolicyOut:
    """Put a proposed policy aside."""
    changes.reject(assistant, policies.POLICIES, policy_id, by=user.name)
    return get_policy(assistant, policy_id)


@router.post("/policies/{policy_id}/restore", tags=["policy"], responses=PROBLEMS)
def restore_policy(
    assistant: Service, user: Approver, agreement: Agreed, policy_id: Key, body: Seen
) -> PolicyOut:
    """Bring a policy back that was in force before."""
    changes.restore(assistant, policies.POLICIES, policy_id, body.seen, agreement, by=user.name)
    return get_policy(assistant, policy_id)


@router.get("/drift", tags=["monitoring"])
def drift(assistant: Service, agreement: Agreed) -> list[dict[str, Any]]:
    """Return what is estimated of each week, newest first, and what rings."""
    return [asdict(week) for week in weeks.by_week(assistant, agreement)]


@router.post("/drift/proposal", tags=["monitoring"], status_code=201, responses=PROBLEMS)
def propose_from_cases(assistant: Service, user: Clinician, agreement: Agreed, mix: Mix) -> MapOut:
    """Calibrate on the recent cases; the map waits for a decision."""
    with assistant.store.reading() as session:
        found = monitor.recent(session, assistant.model.id)
    map_id = clinic.propose_from_cases(assistant, found, mix.knowledge(), agreement, by=user.name)
    return get_map(assistant, map_id)


@router.get("/measured", tags=["monitoring"])
def measured(assistant: Service) -> dict[str, Any] | None:
    """Return calibration where diagnoses are known; null while there are too few lesions."""
    found = monitor.measured(assistant)
    return asdict(found) if found else None


@router.get("/study", tags=["monitoring"])
def study_report(assistant: Service, agreement: Agreed) -> dict[str, Any] | None:
    """Return the report of the silent study, or of all cases; null before anything was judged."""
    found = study.report(assistant, agreement)
    return asdict(found) if found else None


@router.get("/model", tags=["server"])
def model(assistant: Service) -> dict[str, Any]:
    """Return the facts about the model."""
    return {"id": assistant.model.id, **assistant.model.facts}


@router.get("/health", tags=["server"], responses={507: PROBLEMS[507]})
def health(assistant: Service) -> Health:
    """Say that the server answers and its record can be read."""
    with assistant.store.reading() as session:
        return Health(
            status="ok", model=assistant.model.id, cases=db.count(session, select(Case.id))
        )
