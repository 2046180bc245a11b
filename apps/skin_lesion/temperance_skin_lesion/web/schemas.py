"""What the HTTP interface takes and answers; the pages show cases in the same form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

import temperance as tp
from temperance_skin_lesion import clinic
from temperance_skin_lesion.assistant import softmax
from temperance_skin_lesion.classes import CODES, OTHER
from temperance_skin_lesion.decision import FOREIGN, Policy

if TYPE_CHECKING:
    from typing import Self

    from temperance_skin_lesion.intake import Picture
    from temperance_skin_lesion.store import Case, DiagnosisRow, MapRow, PolicyRow

__all__ = [
    "PROBLEMS",
    "PSEUDONYM",
    "ActiveOut",
    "CaseOut",
    "Collected",
    "Credentials",
    "Diagnosis",
    "DiagnosisOut",
    "Health",
    "Judged",
    "JudgedCase",
    "MapOut",
    "Me",
    "Mix",
    "PolicyOut",
    "Problem",
    "Proposal",
    "Rule",
    "Seen",
    "Session",
]

LEAST_SHARE = 0.001
"""Of a diagnosis in a stated mix: none is ruled out by a statement."""

PSEUDONYM = r"^[A-Za-z0-9._-]{0,40}$"


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
    def judged(cls, case: Case, picture: Picture, known: DiagnosisRow | None = None) -> JudgedCase:
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
