r"""Answer or refer, and how urgent: every rule is examined, and every rule that fired is told.

With calibrated probabilities p and the cost C(j, k) of answering k when j is true, answering
:math:`k = \arg\max p` costs :math:`\sum_j p_j C(j, k)` on average (Chow, 1970). A case is
answered only if that is at most the cost of a referral, and only if no other rule objects. The
order of `RULES` is the order in which reasons are told: melanoma first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from temperance_skin_lesion.classes import CLASSES, MALIGNANT, MELANOMA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import NDArray

__all__ = [
    "DARK",
    "FOREIGN",
    "ORIENTATIONS",
    "RULES",
    "URGENCIES",
    "Costs",
    "Decision",
    "Fired",
    "Policy",
    "decide",
    "examine",
    "urgency_reasons",
]

ORIENTATIONS = 8
"""Ways to lay a square picture: four quarter turns, each also mirrored."""


class Costs(BaseModel):
    """What an error costs, in units of the smallest error."""

    # Strict: a boolean is no number.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    missed_melanoma: float = Field(200, ge=0, le=1e6, description="melanoma, answered otherwise")
    missed_malignancy: float = Field(
        60, ge=0, le=1e6, description="another malignant or premalignant lesion, answered benign"
    )
    false_alarm: float = Field(5, ge=0, le=1e6, description="benign, answered malignant")
    other_error: float = Field(1, ge=0, le=1e6, description="any other wrong answer")
    referral: float = Field(4, ge=0, le=1e6, description="sending the patient to a specialist")

    def matrix(self) -> NDArray[np.float64]:
        """C with a row for the truth and a column for the answer."""
        costs = np.full((len(CLASSES), len(CLASSES)), self.other_error)
        for j, truth in enumerate(CLASSES):
            for k, answer in enumerate(CLASSES):
                if j == MELANOMA:
                    costs[j, k] = self.missed_melanoma
                elif truth.malignant and not answer.malignant:
                    costs[j, k] = self.missed_malignancy
                elif answer.malignant and not truth.malignant:
                    costs[j, k] = self.false_alarm
        np.fill_diagonal(costs, 0)
        return costs


class Policy(BaseModel):
    """When the assistant answers and how urgent a case is; the rest goes to a specialist."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    threshold: float = Field(0.7, ge=0, le=1, description="least probability of any answer")
    melanoma_threshold: float = Field(
        0.9, ge=0, le=1, description="least probability of the answer melanoma"
    )
    melanoma_ceiling: float = Field(
        0.02, ge=0, le=1, description="no other answer while melanoma is more probable than this"
    )
    agreement: int = Field(
        7,
        ge=0,
        le=ORIENTATIONS,
        description="least number of the eight orientations that name the same diagnosis",
    )
    urgent_melanoma: float = Field(
        0.2, ge=0, le=1, description="urgent from this probability of melanoma"
    )
    urgent_malignant: float = Field(
        0.5, ge=0, le=1, description="urgent from this probability of any malignant lesion"
    )
    soon_malignant: float = Field(
        0.1, ge=0, le=1, description="soon from this probability of any malignant lesion"
    )
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _melanoma_is_never_easier(self) -> Self:
        for high, low in (
            ("melanoma_threshold", "threshold"),
            ("urgent_melanoma", "melanoma_ceiling"),
            ("urgent_malignant", "soon_malignant"),
        ):
            if getattr(self, high) < getattr(self, low):
                raise ValueError(
                    f"{high} must not be below {low}. Got {getattr(self, high)} and "
                    f"{getattr(self, low)}."
                )
        return self


FOREIGN = "foreign"
DARK = "skin-tone"
RULES = (
    "melanoma-suspected",
    "melanoma-not-excluded",
    "orientations-disagree",
    "threshold",
    "cost",
    DARK,
)
URGENCIES = ("urgent", "soon", "routine", "retake")


class Examined(NamedTuple):
    """What every rule says of many cases."""

    predicted: NDArray[np.int64]
    fired: NDArray[np.bool_]  # (n, rules), in the order of RULES
    cost: NDArray[np.float64]
    urgency: NDArray[np.int64]  # index into URGENCIES, without "retake"

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Cases to which no rule objects."""
        return ~self.fired.any(axis=1)


class Fired(NamedTuple):
    """A rule that objects to an answer, and the sentence that says so."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What the assistant says of one case, and why."""

    predicted: int
    answered: bool
    urgency: str
    fired: tuple[Fired, ...]
    summary: str

    @property
    def word(self) -> str:
        """``"answer"`` or ``"refer"``."""
        return "answer" if self.answered else "refer"


def examine(
    p: NDArray[np.float64],
    policy: Policy,
    agreement: NDArray[np.int64] | None = None,
    dark: NDArray[np.bool_] | None = None,
) -> Examined:
    """Examine every rule for cases with probabilities ``(n, 7)``.

    ``agreement`` counts the orientations that name the predicted class; all of them without it.
    Pictures of ``dark`` skin are never answered; without it no picture shows dark skin.
    """
    dark = np.zeros(len(p), dtype=np.bool_) if dark is None else dark
    predicted = p.argmax(axis=1)
    top, melanoma, malignant = p.max(axis=1), p[:, MELANOMA], p[:, MALIGNANT].sum(axis=1)
    cost = (p @ policy.costs.matrix())[np.arange(len(p)), predicted]
    says_melanoma = predicted == MELANOMA
    agreed = np.full(len(p), ORIENTATIONS) if agreement is None else agreement
    fired = np.stack(
        [
            says_melanoma & (melanoma < policy.melanoma_threshold),
            ~says_melanoma & (melanoma > policy.melanoma_ceiling),
            agreed < policy.agreement,
            top < policy.threshold,
            cost > policy.costs.referral,
            dark,
        ],
        axis=1,
    )
    urgent = (
        (melanoma >= policy.urgent_melanoma) | (malignant >= policy.urgent_malignant)
    ) | says_melanoma
    soon = (melanoma > policy.melanoma_ceiling) | (malignant >= policy.soon_malignant)
    soon |= np.isin(predicted, MALIGNANT)
    soon |= dark  # on such skin a small probability is no comfort
    return Examined(predicted, fired, cost, np.select([urgent, soon], [0, 1], default=2))


def decide(
    p: NDArray[np.float64],
    policy: Policy,
    *,
    agreement: int = ORIENTATIONS,
    foreign: bool = False,
    dark: bool = False,
    faults: Sequence[str] = (),
) -> Decision:
    """Decide one case.

    What is ``foreign``, what shows ``dark`` skin and what has ``faults`` (sentences about the
    picture) is never answered.
    """
    if foreign:
        why = Fired(
            FOREIGN,
            "This does not look like the dermatoscopic pictures that the network was trained on, "
            "so its scores mean nothing and none is shown. Send a dermatoscopic picture of the "
            "lesion, or let a specialist look at it.",
        )
        return Decision(
            int(p.argmax()), answered=False, urgency="retake", fired=(why,), summary=why.why
        )
    found = examine(p[None], policy, np.array([agreement]), np.array([dark]))
    predicted = int(found.predicted[0])
    told = _sentences(p, policy, predicted, agreement, float(found.cost[0]))
    fired = [Fired(rule, told[rule]) for rule, on in zip(RULES, found.fired[0], strict=True) if on]
    fired += [Fired("quality", fault) for fault in faults]
    urgency = URGENCIES[found.urgency[0]]
    if faults and urgency != "urgent":
        urgency = "retake"
    summary = (
        f"{CLASSES[predicted].name} has probability {p[predicted]:.2f}; no rule objects."
        if not fired
        else fired[0].why
    )
    return Decision(predicted, not fired, urgency, tuple(fired), summary)


def urgency_reasons(
    p: NDArray[np.float64], policy: Policy, urgency: str, *, dark: bool = False
) -> list[str]:
    """Say why a case with probabilities ``p`` is urgent, soon or routine under a policy."""
    melanoma, malignant, predicted = p[MELANOMA], p[MALIGNANT].sum(), int(p.argmax())
    if urgency == "urgent":
        reasons = {
            "melanoma is the most probable diagnosis": predicted == MELANOMA,
            f"melanoma has {melanoma:.2f} (urgent from {policy.urgent_melanoma:g})": melanoma
            >= policy.urgent_melanoma,
            f"a malignant lesion has {malignant:.2f} (urgent from {policy.urgent_malignant:g})": (
                malignant >= policy.urgent_malignant
            ),
        }
    elif urgency == "soon":
        reasons = {
            "melanoma is not excluded": melanoma > policy.melanoma_ceiling,
            f"a malignant lesion has {malignant:.2f} (soon from {policy.soon_malignant:g})": (
                malignant >= policy.soon_malignant
            ),
            "the most probable diagnosis is malignant": predicted in MALIGNANT,
            "nothing was validated on skin of this tone": dark,
        }
    else:
        reasons = {
            f"melanoma has at most {policy.melanoma_ceiling:g} and a malignant lesion less than "
            f"{policy.soon_malignant:g}; that is no all-clear": True
        }
    return [words for words, holds in reasons.items() if holds]


def _sentences(
    p: NDArray[np.float64], policy: Policy, predicted: int, agreement: int, cost: float
) -> dict[str, str]:
    """What each rule would say of a case."""
    name, top, melanoma = CLASSES[predicted].name, p[predicted], p[MELANOMA]
    return {
        "melanoma-suspected": f"Melanoma is the most probable diagnosis ({melanoma:.2f}); it is "
        f"not answered below {policy.melanoma_threshold:.2f}.",
        "melanoma-not-excluded": f"Melanoma is not excluded: its probability is {melanoma:.3f}, "
        f"above {policy.melanoma_ceiling:.3f}.",
        "orientations-disagree": f"The answer depends on how the picture is turned: {agreement} of "
        f"{ORIENTATIONS} orientations name {name}; an answer needs {policy.agreement}.",
        "threshold": f"The most probable diagnosis, {name}, has only {top:.2f}; an answer needs "
        f"{policy.threshold:.2f}.",
        "cost": f"Answering {name} would cost {cost:.2f} on average, more than a referral "
        f"({policy.costs.referral:g}): a missed malignant lesion weighs more than a visit.",
        DARK: "The picture is as dark around the lesion as brown or dark skin. The network was "
        "validated on light skin only; how often it is right here is not known.",
    }
