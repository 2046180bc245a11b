"""Risk against coverage: the errors that remain when the least sure rows go to a human."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats
from temperance.calibrate.result import Calibration
from temperance.data.types import LabelsLike, LogitsLike
from temperance.maps import Map
from temperance.metrics.selective import risk_coverage
from temperance.report.displays.base import Display, applied
from temperance.report.displays.style import AFTER, BEFORE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COVERAGE = np.linspace(0.01, 1, 100)


@final
@dataclass(frozen=True)
class RiskCoverageDisplay(Display):
    """Error rate among the rows that are answered, against their share.

    Measured where labels are given; estimated, with a 90 % band of the calibrated curve, where the
    numbers come from a calibration.

    Examples
    --------
    >>> import temperance as tp
    >>> z = tp.binary_logits([4.0, 3.0, 2.0, 1.0])
    >>> curve = tp.display.RiskCoverageDisplay.from_logits(z, [1, 1, 0, 1]).frame()
    >>> curve["before"][[24, 99]]  # the surest quarter, and all
    array([0.  , 0.25])
    """

    coverage: Floats
    before: Floats
    after: Floats | None = None
    measured: bool = True
    after_low: Floats | None = None
    after_high: Floats | None = None

    @classmethod
    def from_logits(
        cls, logits: LogitsLike, labels: LabelsLike, calibration: Map | Calibration | None = None
    ) -> RiskCoverageDisplay:
        """Measure the risk on labelled rows, and with a map the risk after it too."""
        after = None if calibration is None else _at_coverages(applied(calibration, logits), labels)
        return cls(COVERAGE, _at_coverages(logits, labels), after)

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> RiskCoverageDisplay:
        """Take the estimated risk that a calibration keeps, with its band."""
        facts = {k: np.asarray(v) for k, v in calibration.details["risk_coverage"].items()}
        return cls(
            facts["coverage"],
            facts["risk_before"],
            facts["risk_after"],
            measured=False,
            after_low=facts["risk_after_low"],
            after_high=facts["risk_after_high"],
        )

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return coverage, the risk before and, where these are known, after and its band."""
        columns = {
            "coverage": self.coverage,
            "before": self.before,
            "after": self.after,
            "after_low": self.after_low,
            "after_high": self.after_high,
        }
        return {name: values for name, values in columns.items() if values is not None}

    def _draw(self, ax: Axes) -> None:
        ax.plot(self.coverage, self.before, color=BEFORE, label="model's own confidence")
        if self.after is not None:
            ax.plot(self.coverage, self.after, color=AFTER, linestyle="--", label="calibrated")
        if self.after_low is not None and self.after_high is not None:
            band = {"color": AFTER, "alpha": 0.18, "linewidth": 0, "label": "calibrated, 90% band"}
            ax.fill_between(self.coverage, self.after_low, self.after_high, **band)
        word = "error rate" if self.measured else "estimated error rate"
        ax.set(xlim=(0, 1), ylim=(0, None), xlabel="share of rows answered", ylabel=word)
        ax.legend(loc="upper left")


def _at_coverages(logits: LogitsLike, labels: LabelsLike) -> Floats:
    """Risk where enough rows are covered; rows of equal confidence are answered together."""
    curve = risk_coverage(logits, labels)
    place = np.searchsorted(curve.coverage, COVERAGE - 1e-9)
    return curve.risk[np.minimum(place, len(curve.risk) - 1)]
