"""What was agreed when the server was set up: how far a person may change maps and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.thresholds import Effect

__all__ = ["Agreement"]


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
    missed_melanoma: float = Field(50, description="least cost of a missed melanoma")
    missed_malignancy: float = Field(15, description="least cost of another missed malignancy")
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

    def objection_to_policy(self, policy: Policy, effect: Effect) -> str:
        """Say what of a policy is outside the range; empty when nothing is."""
        least = (
            ("An answer", policy.threshold, self.threshold),
            ("The answer melanoma", policy.melanoma_threshold, self.melanoma_threshold),
        )
        for what, value, limit in least:
            if value < limit:
                return f"{what} would need only {value:g}; at least {limit:g} is agreed."
        if policy.melanoma_ceiling > self.melanoma_ceiling:
            return (
                f"Melanoma would count as excluded up to {policy.melanoma_ceiling:g}; at most "
                f"{self.melanoma_ceiling:g} is agreed."
            )
        if policy.agreement < self.orientations:
            return (
                f"Only {policy.agreement} orientations would have to agree; at least "
                f"{self.orientations} are agreed."
            )
        if policy.urgent_melanoma > self.urgent_melanoma:
            return (
                f"Melanoma would be urgent only from {policy.urgent_melanoma:g}; "
                f"{self.urgent_melanoma:g} at the latest is agreed."
            )
        for name in ("missed_melanoma", "missed_malignancy"):
            value, limit = getattr(policy.costs, name), getattr(self, name)
            if value < limit:
                what = name.replace("_", " ")
                return f"A {what} would cost {value:g}; at least {limit:g} is agreed."
        return self.rate_objection(effect)

    def rate_objection(self, effect: Effect) -> str:
        """Say so when more melanomas are missed than agreed; empty otherwise."""
        share, _, high = effect.missed
        if share <= self.missed_rate:
            return ""
        return (
            f"{100 * share:.1f} % of the melanomas among {effect.rows:,} validation pictures "
            f"(up to {100 * high:.1f} %) would be answered as something else; at most "
            f"{100 * self.missed_rate:g} % is agreed."
        )
