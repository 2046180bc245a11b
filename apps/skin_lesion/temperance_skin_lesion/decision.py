r"""Answer or refer: a cost rule with a floor under every answer and a stricter one for melanoma.

With calibrated probabilities p and the cost C(j, k) of answering k when j is true, answering
:math:`k = \arg\max p` costs :math:`\sum_j p_j C(j, k)` on average (Chow, 1970). A case is
answered only if that is at most the cost of a referral, and only if no floor forbids it. The rule
is as good as the probabilities are calibrated, which is what the clinic page is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from temperance_skin_lesion.classes import CLASSES, MELANOMA

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

__all__ = ["FOREIGN", "Costs", "Decision", "Policy", "decide", "decide_all"]


class Costs(BaseModel):
    """What an error costs, in units of the smallest error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
    """When the assistant answers; everything else is referred to a specialist."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    threshold: float = Field(
        0.7, ge=0, le=1, description="least calibrated probability of any answer"
    )
    melanoma_threshold: float = Field(
        0.9, ge=0, le=1, description="least calibrated probability of the answer melanoma"
    )
    melanoma_ceiling: float = Field(
        0.02, ge=0, le=1, description="no other answer while melanoma is more probable than this"
    )
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _melanoma_is_never_easier(self) -> Self:
        if self.melanoma_threshold < self.threshold:
            msg = (
                f"melanoma_threshold must not be below threshold. Got {self.melanoma_threshold} "
                f"and {self.threshold}."
            )
            raise ValueError(msg)
        return self


@dataclass(frozen=True, slots=True)
class Decision:
    """What the assistant says of one case, and why."""

    predicted: int
    answered: bool
    rule: str
    why: str

    @property
    def word(self) -> str:
        """``"answer"`` or ``"refer"``."""
        return "answer" if self.answered else "refer"


FOREIGN = "foreign"
UNKNOWN_KIND = (
    "This does not look like the dermatoscopic pictures that the network was trained on, so "
    "its scores mean nothing and none is shown. Send a dermatoscopic picture of the lesion, or let "
    "a specialist look at it."
)

RULES = ("answer", "threshold", "melanoma-threshold", "melanoma-not-excluded", "cost")


def decide_all(
    p: NDArray[np.float64], policy: Policy
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rule (index into `RULES`, 0 is an answer) that settles each row, and its expected cost."""
    predicted = p.argmax(axis=1)
    top, melanoma = p.max(axis=1), p[:, MELANOMA]
    cost = (p @ policy.costs.matrix())[np.arange(len(p)), predicted]
    says_melanoma = predicted == MELANOMA
    rule = np.select(
        [
            top < policy.threshold,
            says_melanoma & (melanoma < policy.melanoma_threshold),
            ~says_melanoma & (melanoma > policy.melanoma_ceiling),
            cost > policy.costs.referral,
        ],
        [1, 2, 3, 4],
        default=0,
    )
    return rule, cost


def decide(p: NDArray[np.float64], policy: Policy, *, foreign: bool = False) -> Decision:
    """Decide one case from its calibrated probabilities; what is ``foreign`` is never answered."""
    if foreign:
        return Decision(int(p.argmax()), answered=False, rule=FOREIGN, why=UNKNOWN_KIND)
    rules, costs = decide_all(p[None], policy)
    rule, cost, predicted = RULES[rules[0]], costs[0], int(p.argmax())
    name, top, melanoma = CLASSES[predicted].name, p[predicted], p[MELANOMA]
    why = {
        "answer": f"{name} has calibrated probability {top:.2f}, at or above every threshold; the "
        f"expected cost of answering, {cost:.2f}, is below that of a referral, "
        f"{policy.costs.referral:g}.",
        "threshold": f"The most probable class, {name}, has only {top:.2f}; an answer needs "
        f"{policy.threshold:.2f}.",
        "melanoma-threshold": f"Melanoma is most probable with {top:.2f}; it is not answered below "
        f"{policy.melanoma_threshold:.2f}.",
        "melanoma-not-excluded": f"Melanoma is not excluded: its probability {melanoma:.3f} is "
        f"above {policy.melanoma_ceiling:.3f}.",
        "cost": f"Answering {name} would cost {cost:.2f} on average, a referral "
        f"{policy.costs.referral:g}.",
    }[rule]
    return Decision(predicted, rule == "answer", rule, why)
