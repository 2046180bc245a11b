"""What was agreed when the server was set up: how far a person may change maps and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.thresholds import Effect

__all__ = ["Agreement"]

LEAST = {
    "threshold": "An answer would need only",
    "melanoma_threshold": "The answer melanoma would need only",
    "orientations": "Orientations that must agree would be only",
    "missed_melanoma": "A missed melanoma would cost only",
    "missed_malignancy": "Another missed malignancy would cost only",
}
MOST = {
    "melanoma_ceiling": "Melanoma would count as excluded up to",
    "urgent_melanoma": "Melanoma would be urgent only from",
    "urgent_malignant": "A malignant lesion would be urgent only from",
    "soon_malignant": "A malignant lesion would be soon only from",
    "referral": "A referral would cost",
}
"""Numbers of a policy that must not be smaller, or not larger, than agreed; in words."""


class Agreement(BaseModel):
    """The range inside which a new map or a new policy can be accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: tuple[float, float] = (0.5, 5.0)
    bias: float = Field(6.0, description="largest difference between two class offsets, in logits")
    rows: int = Field(100, description="least number of different pictures")
    threshold: float = Field(0.5, description="least probability that an answer may need")
    melanoma_threshold: float = Field(0.7, description="the same for the answer melanoma")
    melanoma_ceiling: float = Field(0.05, description="largest probability of excluded melanoma")
    orientations: int = Field(6, description="least number of orientations that must agree")
    urgent_melanoma: float = Field(0.4, description="latest start of urgent for melanoma")
    urgent_malignant: float = Field(0.7, description="latest start of urgent for any malignancy")
    soon_malignant: float = Field(0.3, description="latest start of soon for any malignancy")
    missed_melanoma: float = Field(50, description="least cost of a missed melanoma")
    missed_malignancy: float = Field(15, description="least cost of another missed malignancy")
    referral: float = Field(10, description="largest cost of a referral")
    missed_rate: float = Field(
        0.05, description="largest share of the melanomas that may be answered as something else"
    )
    gap: float = Field(
        0.15, description="gap between confidence and share right from which a week rings"
    )

    def objection_to_map(self, fitted: Any, rows: int) -> str:
        """Say what of a map is outside the range; empty when nothing is."""
        low, high = self.temperature
        if rows < self.rows:
            return f"{rows} different pictures are fewer than the {self.rows} agreed on."
        if not low <= fitted.temperature <= high:
            return (
                f"The temperature {fitted.temperature:.2f} is outside the agreed range "
                f"{low:g} to {high:g}."
            )
        spread = float(np.ptp(getattr(fitted, "bias", np.zeros(1))))
        if spread > self.bias:
            return f"Class offsets differ by {spread:.2f}, more than the agreed {self.bias:g}."
        return ""

    def objection_to_policy(self, policy: Policy, known: Effect, here: Effect | None = None) -> str:
        """Say what of a policy is outside the range; empty when nothing is.

        ``known`` and ``here`` are what the policy does to validation pictures and to cases here.
        """
        values = policy.model_dump()
        values |= values.pop("costs") | {"orientations": values.pop("agreement")}
        for name, what in LEAST.items():
            limit = getattr(self, name)
            if values[name] < limit:
                return f"{what} {values[name]:g}; at least {limit:g} is agreed."
        for name, what in MOST.items():
            limit = getattr(self, name)
            if values[name] > limit:
                return f"{what} {values[name]:g}; at most {limit:g} is agreed."
        return self.objection_to_missed(known, here)

    def objection_to_missed(self, known: Effect, here: Effect | None) -> str:
        """Say so when more melanomas are missed than agreed; empty otherwise.

        Measured on validation pictures, the share itself must not be larger; where it is expected
        here, the lower end of its interval.
        """
        if known.missed[0] > self.missed_rate:
            return self._measured_too_many(known)
        if here is not None and here.missed[1] > self.missed_rate:
            return self._expected_too_many(here)
        return ""

    def warning_of_missed(self, known: Effect, here: Effect | None) -> str:
        """Say so when more melanomas are missed than agreed, measured or expected."""
        if here is not None and here.missed[0] > self.missed_rate >= known.missed[0]:
            return self._expected_too_many(here)
        return self.objection_to_missed(known, None)

    def _measured_too_many(self, known: Effect) -> str:
        share, _, high = known.missed
        return (
            f"{100 * share:.1f} % of the melanomas among {known.rows:,} validation pictures "
            f"(up to {100 * high:.1f} %) would be answered as something else; at most "
            f"{100 * self.missed_rate:g} % is agreed."
        )

    def _expected_too_many(self, here: Effect) -> str:
        share, low, high = here.missed
        return (
            f"{100 * share:.0f} % of the melanomas among {here.rows:,} pictures here "
            f"({100 * low:.0f} to {100 * high:.0f} %) are expected to be answered as something "
            f"else; at most {100 * self.missed_rate:g} % is agreed."
        )
