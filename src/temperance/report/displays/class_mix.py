"""The class mix that the model predicts, beside the one that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats
from temperance.calibrate.result import Calibration
from temperance.data import as_rows
from temperance.maps import Map
from temperance.methods.uts import count_predictions
from temperance.report.displays.base import Display, applied
from temperance.report.displays.style import AFTER, BEFORE, ink, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES_SHOWN = 12  # classes that fit a column


@final
@dataclass(frozen=True)
class ClassMixDisplay(Display):
    """Share of each class among the predictions, against the prior.

    A class that is predicted far more often than it can occur is where the errors are. Of many
    classes the twelve that differ most are drawn; ``frame`` has all.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.random.default_rng(0).normal(size=(1000, 3)) + [1.0, 0.0, 0.0]
    >>> mix = tp.display.ClassMixDisplay.from_logits(z, [0.2, 0.4, 0.4], classes=["a", "b", "c"])
    >>> mix.frame()["prior"]
    array([0.2, 0.4, 0.4])
    """

    classes: tuple[str, ...]
    prior: Floats
    predicted: Floats
    calibrated: Floats | None = None

    @classmethod
    def from_logits(
        cls,
        logits: object,
        prior: object,
        calibration: Map | Calibration | None = None,
        *,
        classes: object = None,
    ) -> ClassMixDisplay:
        """Count predictions, and with a map those after it too."""
        rows = as_rows(logits)
        k = rows.n_classes
        q = checks.check_prior(prior, k)
        names = [
            str(c) for c in (range(k) if classes is None else checks.check_classes(classes, k))
        ]
        after = None if calibration is None else _shares(as_rows(applied(calibration, logits)))
        return cls(tuple(names), q, _shares(rows), after)

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> ClassMixDisplay:
        """Take the mixes that a calibration keeps; after the map, the mean probabilities."""
        facts = calibration.details
        prior, predicted, after = (
            np.asarray(facts[key]) for key in ("prior", "predicted_mix", "mix_after")
        )
        return cls(tuple(facts["classes"]), prior, predicted, after)

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return class, prior, predicted and, where there is a map, calibrated."""
        columns = {
            "class": np.array(self.classes),
            "prior": self.prior,
            "predicted": self.predicted,
        }
        return columns if self.calibrated is None else columns | {"calibrated": self.calibrated}

    def _draw(self, ax: Axes) -> None:
        k = len(self.classes)
        shown = np.argsort(-np.abs(self.predicted - self.prior), kind="stable")[:MAX_CLASSES_SHOWN]
        shown = np.sort(shown)
        y = np.arange(len(shown))
        after = self.calibrated
        ax.barh(y, self.predicted[shown], 0.62, color=BEFORE, alpha=0.55, label="predicted")
        if after is not None:
            ax.plot(after[shown], y, "D", color=AFTER, markersize=4, label="calibrated")
        ax.plot(self.prior[shown], y, "|", color=ink(), markersize=11, label="prior")
        ax.set_yticks(y, [short(self.classes[i]) for i in shown])
        ax.invert_yaxis()
        rest = f", {len(shown)} of {k} classes" if k > len(shown) else ""
        ax.set(xlim=(0, None), xlabel=f"share of rows{rest}")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)


def _shares(rows: Any) -> Floats:
    counts = rows.reduce(count_predictions)[0]
    return counts / counts.sum()
