"""The HTTP interface under ``/api/v1``; described at ``/api/docs`` and ``/api/openapi.json``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, File, Form, HTTPException, Path, Query, Request, UploadFile
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import select

import temperance as tp
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
from temperance_skin_lesion.assistant import Assistant, Origin, softmax
from temperance_skin_lesion.classes import CLASSES, CODES, OTHER
from temperance_skin_lesion.decision import FOREIGN, Policy
from temperance_skin_lesion.people import User
from temperance_skin_lesion.store import Case, DiagnosisRow, MapRow, PolicyRow
from temperance_skin_lesion.worklist import Filter  # noqa: TC001 - read at run time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from temperance_skin_lesion.agreement import Agreement

router = APIRouter(prefix="/api/v1")

LEAST_SHARE = 0.001
"""Of a diagnosis in a stated mix: none is ruled out by a statement."""

PSEUDONYM = r"^[A-Za-z0-9._-]{0,40}$"

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


class Problem(BaseModel):
    """Why a request, or one file of it, was not taken."""

    detail: str


class Rule(BaseModel):
    """A rule that fired, in words."""

    rule: str
    why: str


class DiagnosisOut(BaseModel):
    """A later diagnosis of the lesion; a null code takes the former one back."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    case: int = Field(validation_alias="case_id")
    at: str
    by: str
    code: str | None
    other: str
    source: str


SAME = ("id", "created", "by", "sha256", "lesion", "site", "camera", "width", "height")
SAME += ("kept", "repeats", "model")
"""Columns of a case that the interface shows as they are."""


class CaseOut(BaseModel):
    """One picture that was looked at.

    In silent mode everything the assistant said is null until the lesion has a diagnosis.
    """

    id: int
    created: str
    by: str
    sha256: str
    lesion: str
    site: str
    camera: str
    width: int
    height: int
    kept: str | None = Field(description="format of the picture, if the server keeps it")
    repeats: int | None = Field(description="the first case with the same picture")
    hidden: bool = Field(description="judged in silent mode and without a diagnosis yet")
    model: str
    map: int
    policy: int
    malignant: tuple[float, float, float] | None = Field(
        description="probability of any malignant lesion: value, low, high (90 %)"
    )
    urgency: Literal["urgent", "soon", "routine", "retake"] | None
    decision: Literal["answer", "refer"] | None
    predicted: str | None = Field(description=f"one of {', '.join(CODES)}")
    probabilities: dict[str, float] | None = Field(description="calibrated")
    raw: dict[str, float] | None = Field(description="of the network as it is")
    agreement: int | None = Field(description="orientations of eight that name the same diagnosis")
    quality: dict[str, float] = Field(description="empty while what was said is hidden")
    rule: str | None = Field(description="the first rule that fired, or answer")
    why: str | None
    rules: list[Rule] | None = Field(description="all rules that fired, melanoma first")
    diagnosis: DiagnosisOut | None = None

    @classmethod
    def of(cls, case: Case, known: DiagnosisRow | None = None, **more: str) -> Self:
        """Describe a row of the record, and what a subclass knows ``more``."""
        raw = softmax([case.logits])[0]
        facts: dict[str, Any] = {
            "malignant": tuple(case.malignant),
            "urgency": case.urgency,
            "decision": case.decision,
            "predicted": CODES[case.predicted],
            "probabilities": dict(zip(CODES, case.probabilities, strict=True)),
            "raw": dict(zip(CODES, raw.tolist(), strict=True)),
            "agreement": case.agreement,
            "rule": case.rule,
            "why": case.why,
            "rules": [Rule(rule=rule, why=why) for rule, why in case.rules],
            "quality": case.quality,
        }
        hidden = case.hidden and known is None
        if hidden:
            facts = dict.fromkeys(facts) | {"quality": {}}
        elif case.rule == FOREIGN:
            facts |= {"malignant": None, "probabilities": None, "raw": None, "predicted": None}
        return cls(
            **{name: getattr(case, name) for name in SAME},
            hidden=hidden,
            map=case.map_id,
            policy=case.policy_id,
            diagnosis=DiagnosisOut.model_validate(known) if known else None,
            **facts,
            **more,
        )


class JudgedCase(CaseOut):
    """A case in the answer to the request that brought its picture, the only place of the name."""

    name: str = Field(description="file name as sent; it may name a person, so it is not stored")
    note: str = ""

    @classmethod
    def judged(
        cls, case: Case, picture: intake.Picture, known: DiagnosisRow | None = None
    ) -> JudgedCase:
        """Describe a case beside its picture."""
        return cls.of(case, known, name=picture.name, note=picture.note)


class Judged(BaseModel):
    """What came of a drop of files: cases in the order sent, and the files not taken."""

    cases: list[JudgedCase]
    problems: list[Problem]


class Collected(BaseModel):
    """What came of files sent to a survey."""

    survey: int
    pictures: int = Field(description="different pictures in the survey now")
    problems: list[Problem]


class Mix(BaseModel):
    """The class mix of a clinic, or null where nobody knows it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    prior: dict[str, float] | None = Field(
        description=f"a share for each of {', '.join(CODES)}, summing to 1"
    )
    known: Literal["exactly", "roughly"] = Field(
        "roughly", description="counted, or as if estimated from a hundred cases"
    )

    @model_validator(mode="after")
    def _is_a_mix(self) -> Self:
        if self.prior is None:
            return self
        if set(self.prior) != set(CODES):
            raise ValueError(f"prior must name each of {', '.join(CODES)} once.")
        if min(self.prior.values()) < 0 or abs(sum(self.prior.values()) - 1) > 1e-3:
            raise ValueError(
                f"prior must be non-negative and sum to 1. Got {sum(self.prior.values()):.4f}."
            )
        return self

    def knowledge(self) -> object:
        """Return the mix as `temperance.calibrate` takes it, in the order of the classes."""
        if self.prior is None:
            return None
        shares = np.maximum([self.prior[code] for code in CODES], LEAST_SHARE)
        shares /= shares.sum()
        return shares if self.known == "exactly" else tp.about(shares, rows=clinic.ROUGHLY)


class MapOut(BaseModel):
    """A calibration map."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    created: str
    by: str
    origin: str
    verdict: str
    status: str
    decided: str | None
    decided_by: str | None
    model: str
    active: bool = False
    summary: dict[str, Any]

    @classmethod
    def of(cls, row: MapRow, active: int) -> MapOut:
        """Describe a row beside the one in use."""
        return cls.model_validate(row).model_copy(update={"active": row.id == active})


class PolicyOut(BaseModel):
    """A policy with its comparison."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    created: str
    by: str
    policy: dict[str, Any]
    reason: str
    objection: str
    comparison: dict[str, Any]
    status: str
    decided: str | None
    decided_by: str | None
    active: bool = False

    @classmethod
    def of(cls, row: PolicyRow, active: int) -> PolicyOut:
        """Describe a row beside the one in force."""
        return cls.model_validate(row).model_copy(update={"active": row.id == active})


class Seen(BaseModel):
    """The activation that the deciding person saw; another one in force is a conflict."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seen: int = Field(ge=0, le=2**62)


class ActiveOut(BaseModel):
    """What is in force."""

    activation: int
    since: str
    by: str
    map: int
    former_map: int | None
    policy: Policy
    policy_id: int
    former_policy: int | None


class Proposal(BaseModel):
    """A policy that somebody wants."""

    model_config = ConfigDict(extra="forbid")

    policy: Policy
    reason: str = Field("", max_length=500)


class Diagnosis(BaseModel):
    """A later diagnosis, or null to take the former one back."""

    model_config = ConfigDict(extra="forbid")

    diagnosis: Literal["mel", "nv", "bcc", "akiec", "bkl", "df", "vasc", "other"] | None
    other: str = Field("", max_length=80, description="what it is, where it is none of the seven")
    source: Literal["histology", "follow-up", "expert", "confocal", "unknown"] = "unknown"

    @model_validator(mode="after")
    def _other_is_named(self) -> Self:
        if self.other and self.diagnosis != OTHER:
            raise ValueError("other names a disease only where diagnosis is other.")
        return self


class Credentials(BaseModel):
    """Name and password."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(max_length=64)
    password: str = Field(max_length=1000)


class Session(BaseModel):
    """A session: send its token as ``Authorization: Bearer TOKEN``."""

    token: str
    name: str
    role: str


class Me(BaseModel):
    """Who asks."""

    name: str
    role: str


class Health(BaseModel):
    """That the server and its record are well."""

    status: Literal["ok"]
    model: str
    cases: int


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem},
    401: {"model": Problem},
    403: {"model": Problem},
    404: {"model": Problem},
    409: {"model": Problem},
    413: {"model": Problem},
    422: {"model": Problem},
    507: {"model": Problem},
}


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
            # One byte beyond the limit is enough to know.
            content = file.file.read(intake.MAX_BYTES + 1)
            pictures.append(intake.read(content, file.filename or ""))
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


def csv_lines(store: db.Store) -> Iterator[str]:
    """The log as CSV; text that people typed cannot start a formula."""
    fixed = ("id", "created", "by", "sha256", "lesion", "site", "camera", "repeats", "model", "map")
    said = ("policy", "urgency", "decision", "predicted", "agreement", "rule", "why")
    ends = ("p_malignant", "p_malignant_low", "p_malignant_high")
    later = ("diagnosis", "diagnosis_other", "diagnosis_source", "diagnosed", "diagnosed_by")
    columns = [f"p_{code}" for code in CODES] + [f"raw_{code}" for code in CODES]
    yield _csv([*fixed, *said, *ends, "rules", *later, *columns])
    for case in all_cases(store):
        facts = case.model_dump()
        values = [facts[name] for name in (*fixed, *said)]
        values += list(case.malignant or ("", "", ""))
        values.append("; ".join(rule.rule for rule in case.rules or []))
        known = case.diagnosis
        values += [known.code, known.other, known.source, known.at, known.by] if known else [""] * 5
        for shares in (case.probabilities, case.raw):
            values += list(shares.values()) if shares else [""] * len(CODES)
        yield _csv(values)


def json_lines(store: db.Store) -> Iterator[str]:
    """The log as a JSON object per line."""
    for case in all_cases(store):
        yield json.dumps(case.model_dump()) + "\n"


def all_cases(store: db.Store, page: int = 500) -> Iterator[CaseOut]:
    """Every case, oldest first, read in pages so that nobody is kept waiting."""
    after = 0
    while True:
        with store.reading() as session:
            wanted = select(Case).where(Case.id > after).order_by(Case.id).limit(page)
            rows = session.scalars(wanted).all()
            known = db.newest_diagnoses(session, [case.lesion for case in rows])
            cases = [CaseOut.of(case, known.get(case.lesion)) for case in rows]
        yield from cases
        if len(cases) < page:
            return
        after = cases[-1].id


def _csv(values: list[Any]) -> str:
    buffer = io.StringIO()
    safe = [f"'{v}" if isinstance(v, str) and v[:1] in set("=+-@\t\r") else v for v in values]
    csv.writer(buffer).writerow(safe)
    return buffer.getvalue()


__all__ = [
    "CLASSES",
    "CaseOut",
    "JudgedCase",
    "MapOut",
    "PolicyOut",
    "read_files",
    "router",
    "the_assistant",
]
