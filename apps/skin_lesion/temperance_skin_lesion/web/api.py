"""The HTTP interface under ``/api/v1``; described at ``/api/docs`` and ``/api/openapi.json``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, File, HTTPException, Path, Query, Request, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import select

import temperance as tp
from temperance_skin_lesion import clinic, intake, monitor, thresholds
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import Assistant, softmax
from temperance_skin_lesion.classes import CLASSES, CODES
from temperance_skin_lesion.decision import Policy  # noqa: TC001 - read at run time
from temperance_skin_lesion.store import Case, MapRow, PolicyRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

router = APIRouter(prefix="/api/v1")

ROUGHLY = 100
"""Cases that somebody who knows a mix roughly is believed to have counted."""

Key = Annotated[int, Path(ge=1, le=2**62)]


def the_assistant(request: Request) -> Assistant:
    """Return the assistant of this process."""
    return request.app.state.assistant


Service = Annotated[Assistant, Depends(the_assistant)]


class Problem(BaseModel):
    """Why a request, or one file of it, was not taken."""

    detail: str


class CaseOut(BaseModel):
    """One picture that was looked at."""

    id: int
    created: str
    sha256: str
    model: str
    map: int
    policy: int
    predicted: str = Field(description=f"one of {', '.join(CODES)}")
    probabilities: dict[str, float] = Field(description="calibrated")
    raw: dict[str, float] = Field(description="softmax of the network as it is")
    decision: Literal["answer", "refer"]
    rule: str
    why: str
    diagnosis: str | None = None
    diagnosed: str | None = None

    @classmethod
    def of(cls, case: Case, **more: str) -> Self:
        """Describe a row of the record, and what a subclass knows ``more``."""
        raw = softmax([case.logits])[0]
        return cls(
            id=case.id,
            created=case.created,
            sha256=case.sha256,
            model=case.model,
            map=case.map_id,
            policy=case.policy_id,
            predicted=CODES[case.predicted],
            probabilities=dict(zip(CODES, case.probabilities, strict=True)),
            raw=dict(zip(CODES, raw.tolist(), strict=True)),
            decision="answer" if case.decision == "answer" else "refer",
            rule=case.rule,
            why=case.why,
            diagnosis=None if case.diagnosis is None else CODES[case.diagnosis],
            diagnosed=case.diagnosed,
            **more,
        )


class JudgedCase(CaseOut):
    """A case in the answer to the request that brought its picture, the only place of the name."""

    name: str = Field(description="file name as sent; it may name a person, so it is not stored")
    note: str = ""

    @classmethod
    def judged(cls, case: Case, picture: intake.Picture) -> JudgedCase:
        """Describe a case beside its picture."""
        return cls.of(case, name=picture.name, note=picture.note)


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

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

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
        shares = np.array([self.prior[code] for code in CODES])
        shares /= shares.sum()
        return shares if self.known == "exactly" else tp.about(shares, rows=ROUGHLY)


class MapOut(BaseModel):
    """A calibration map."""

    id: int
    created: str
    origin: str
    verdict: str
    status: str
    decided: str | None
    model: str
    within_agreement: bool
    active: bool
    summary: dict[str, Any]


class Seen(BaseModel):
    """The activation that the deciding person saw; another one in force is a conflict."""

    model_config = ConfigDict(extra="forbid")

    seen: int = Field(ge=0, le=2**62)


class ActiveOut(BaseModel):
    """What is in force."""

    activation: int
    since: str
    map: int
    former_map: int | None
    policy: Policy
    policy_id: int


class Diagnosis(BaseModel):
    """A later diagnosis, or null to take one back."""

    model_config = ConfigDict(extra="forbid")

    diagnosis: Literal["mel", "nv", "bcc", "akiec", "bkl", "df", "vasc"] | None


class Preview(BaseModel):
    """What a policy would do to 1,000 cases."""

    validation: dict[str, Any]
    here: dict[str, Any] | None


class Health(BaseModel):
    """That the server and its record are well."""

    status: Literal["ok"]
    model: str
    cases: int


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem},
    404: {"model": Problem},
    409: {"model": Problem},
    413: {"model": Problem},
    422: {"description": "The request is not what it should be"},
    507: {"model": Problem},
}


def read_files(
    files: list[UploadFile],
) -> tuple[list[intake.Picture], list[bytes], list[Problem]]:
    """Take the pictures among uploaded files, and say what was wrong with the rest."""
    if len(files) > intake.MAX_FILES:
        raise HTTPException(
            413, f"At most {intake.MAX_FILES} files are taken at once. Got {len(files)}."
        )
    pictures, contents, problems = [], [], []
    for file in files:
        # One byte beyond the limit is enough to know.
        content = file.file.read(intake.MAX_BYTES + 1)
        try:
            pictures.append(intake.read(content, file.filename or ""))
            contents.append(content)
        except intake.PictureError as error:
            problems.append(Problem(detail=str(error)))
    return pictures, contents, problems


@router.post("/predict", tags=["cases"], responses=PROBLEMS)
def predict(
    assistant: Service, files: Annotated[list[UploadFile], File(description="pictures")]
) -> Judged:
    """Judge pictures and record each as a case.

    A file that cannot be taken is named under "problems" and does not keep the others back.
    """
    pictures, contents, problems = read_files(files)
    cases = assistant.judge(pictures, contents)
    return Judged(
        cases=[JudgedCase.judged(*pair) for pair in zip(cases, pictures, strict=True)],
        problems=problems,
    )


@router.get("/cases", tags=["cases"])
def list_cases(
    assistant: Service,
    before: Annotated[int, Query(ge=1, le=2**62, description="only ids below")] = 2**62,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    decision: Literal["answer", "refer"] | None = None,
) -> list[CaseOut]:
    """Return cases, newest first."""
    wanted = select(Case).where(Case.id < before).order_by(Case.id.desc()).limit(limit)
    if decision is not None:
        wanted = wanted.where(Case.decision == decision)
    with assistant.store.reading() as session:
        return [CaseOut.of(case) for case in session.scalars(wanted)]


@router.get("/cases/export", tags=["cases"], response_class=StreamingResponse)
def export(
    assistant: Service,
    format: Literal["csv", "jsonl"] = "csv",  # noqa: A002 - the name in the URL
) -> StreamingResponse:
    """Return the whole log, oldest first, as CSV or as a JSON object per line."""
    lines = (csv_lines if format == "csv" else json_lines)(assistant.store)
    kind = "text/csv; charset=utf-8" if format == "csv" else "application/x-ndjson"
    name = f"skin-lesion-log.{format}"
    return StreamingResponse(
        lines, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@router.get("/cases/{case_id}", tags=["cases"], responses={404: PROBLEMS[404]})
def get_case(assistant: Service, case_id: Key) -> CaseOut:
    """Return one case."""
    with assistant.store.reading() as session:
        return CaseOut.of(existing(session.get(Case, case_id), "case", case_id))


@router.put("/cases/{case_id}/diagnosis", tags=["cases"], responses=PROBLEMS)
def diagnose(assistant: Service, case_id: Key, body: Diagnosis) -> CaseOut:
    """Add the later diagnosis to a case."""
    with assistant.store.writing() as session:
        case = existing(session.get(Case, case_id), "case", case_id)
        case.diagnosis = None if body.diagnosis is None else CODES.index(body.diagnosis)
        case.diagnosed = None if body.diagnosis is None else db.now()
        session.flush()
        return CaseOut.of(case)


@router.post("/surveys", tags=["clinic"], status_code=201, responses={507: PROBLEMS[507]})
def open_survey(assistant: Service) -> Collected:
    """Begin a collection of unlabelled pictures of a clinic."""
    return Collected(survey=clinic.open_survey(assistant), pictures=0, problems=[])


@router.post("/surveys/{survey_id}/images", tags=["clinic"], responses=PROBLEMS)
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
def propose(request: Request, assistant: Service, survey_id: Key, mix: Mix) -> MapOut:
    """Calibrate on the survey's pictures for a class mix; the map waits for a decision."""
    agreement = request.app.state.settings.agreement
    map_id = clinic.propose_from_survey(assistant, survey_id, mix.knowledge(), agreement)
    return get_map(assistant, map_id)


@router.get("/active", tags=["clinic"])
def get_active(assistant: Service) -> ActiveOut:
    """Return the map and the policy in force."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
        return ActiveOut(
            activation=active.activation,
            since=active.since,
            map=active.map_id,
            former_map=clinic.former_map(session),
            policy=active.policy,
            policy_id=active.policy_id,
        )


@router.get("/maps", tags=["clinic"])
def list_maps(assistant: Service) -> list[MapOut]:
    """Return all maps, newest first."""
    with assistant.store.reading() as session:
        active = assistant.active(session).map_id
        rows = session.scalars(select(MapRow).order_by(MapRow.id.desc()))
        return [map_out(row, active) for row in rows]


@router.get("/maps/{map_id}", tags=["clinic"], responses={404: PROBLEMS[404]})
def get_map(assistant: Service, map_id: Key) -> MapOut:
    """Return one map."""
    with assistant.store.reading() as session:
        row = existing(session.get(MapRow, map_id), "map", map_id)
        return map_out(row, assistant.active(session).map_id)


@router.post("/maps/{map_id}/accept", tags=["clinic"], responses=PROBLEMS)
def accept(assistant: Service, map_id: Key, body: Seen) -> MapOut:
    """Bring a proposed map into use."""
    clinic.accept(assistant, map_id, body.seen)
    return get_map(assistant, map_id)


@router.post("/maps/{map_id}/reject", tags=["clinic"], responses=PROBLEMS)
def reject(assistant: Service, map_id: Key) -> MapOut:
    """Put a proposed map aside."""
    clinic.reject(assistant, map_id)
    return get_map(assistant, map_id)


@router.post("/maps/{map_id}/restore", tags=["clinic"], responses=PROBLEMS)
def restore(assistant: Service, map_id: Key, body: Seen) -> MapOut:
    """Bring a map back that was in use before."""
    clinic.restore(assistant, map_id, body.seen)
    return get_map(assistant, map_id)


@router.put("/policy", tags=["policy"], responses=PROBLEMS)
def set_policy(assistant: Service, policy: Policy) -> ActiveOut:
    """Put a policy in force for the cases to come."""
    with assistant.store.writing() as session:
        session.add(PolicyRow(policy=policy.model_dump()))
    return get_active(assistant)


@router.post("/policy/preview", tags=["policy"], responses={422: PROBLEMS[422]})
def preview(assistant: Service, policy: Policy) -> Preview:
    """Say what a policy would do, without putting it in force."""
    source = assistant.model.source
    with assistant.store.reading() as session:
        active = assistant.active(session)
        recent = monitor.recent_logits(session, assistant.model.id)
    known = thresholds.measured(active.probabilities(source.logits), source.labels, policy)
    here = thresholds.expected(active.probabilities(recent), policy) if len(recent) else None
    return Preview(validation=asdict(known), here=asdict(here) if here else None)


@router.get("/drift", tags=["monitoring"])
def drift(assistant: Service) -> list[dict[str, Any]]:
    """Compare the cases of each week with the rows the map in force was made from."""
    with assistant.store.reading() as session:
        return [asdict(week) for week in monitor.weekly_drift(session, assistant.active(session))]


@router.post("/drift/proposal", tags=["monitoring"], status_code=201, responses=PROBLEMS)
def propose_from_cases(request: Request, assistant: Service, mix: Mix) -> MapOut:
    """Calibrate on the recent cases; the map waits for a decision."""
    with assistant.store.reading() as session:
        recent = monitor.recent_logits(session, assistant.model.id)
    agreement = request.app.state.settings.agreement
    map_id = clinic.propose(assistant, recent, mix.knowledge(), agreement, origin="cases")
    return get_map(assistant, map_id)


@router.get("/measured", tags=["monitoring"])
def measured(assistant: Service) -> dict[str, Any] | None:
    """Return calibration where diagnoses are known; null while there are too few."""
    with assistant.store.reading() as session:
        found = monitor.measured(session, assistant.model.id)
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


def existing(row: Any, kind: str, key: int) -> Any:
    """Return the row, or a 404 that names it."""
    if row is None:
        raise HTTPException(404, f"There is no {kind} {key}.")
    return row


def map_out(row: MapRow, active: int) -> MapOut:
    """Describe a map."""
    return MapOut(
        id=row.id,
        created=row.created,
        origin=row.origin,
        verdict=row.verdict,
        status=row.status,
        decided=row.decided,
        model=row.model,
        within_agreement=row.within_agreement,
        active=row.id == active,
        summary=row.summary,
    )


def csv_lines(store: db.Store) -> Iterator[str]:
    """The log as CSV; nothing in it was written by whoever sent a picture."""
    probabilities = [f"p_{code}" for code in CODES] + [f"raw_{code}" for code in CODES]
    fixed = ("id", "created", "sha256", "model", "map", "policy", "predicted")
    last = ("decision", "rule", "why", "diagnosis", "diagnosed")
    yield _csv([*fixed, *last, *probabilities])
    for case in all_cases(store):
        facts = case.model_dump()
        values = [facts[name] for name in (*fixed, *last)]
        values += [*case.probabilities.values(), *case.raw.values()]
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
            cases = [CaseOut.of(case) for case in session.scalars(wanted)]
        yield from cases
        if len(cases) < page:
            return
        after = cases[-1].id


def _csv(values: list[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(values)
    return buffer.getvalue()


__all__ = [
    "CLASSES",
    "CaseOut",
    "JudgedCase",
    "MapOut",
    "map_out",
    "read_files",
    "router",
    "the_assistant",
]
