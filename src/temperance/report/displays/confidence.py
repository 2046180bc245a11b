"""Histograms of confidence: where the model is sure, on the source and on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats, to_numpy
from temperance.calibrate.result import Calibration
from temperance.data import Block, as_rows
from temperance.maps import Map
from temperance.metrics.binned import bin_index, unit_edges
from temperance.report.displays.base import Display, applied
from temperance.report.displays.style import AFTER, BEFORE, SOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BINS = 15
LOOKS = {"source": (SOURCE, "-"), "target": (BEFORE, "-"), "target, calibrated": (AFTER, "--")}


@final
@dataclass(frozen=True)
class ConfidenceDisplay(Display):
    """Share of rows at each confidence: source, target, and target after the map.

    A target as sure of itself as the source, with more errors, is the silent failure that
    calibration is about.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 5))
    >>> display = tp.display.ConfidenceDisplay.from_logits(3 * z, source=2 * z)
    >>> display.frame()["target"].sum()
    np.float64(1.0)
    """

    edges: Floats
    shares: dict[str, Floats]

    @classmethod
    def from_logits(
        cls, target: object, source: object = None, calibration: Map | Calibration | None = None
    ) -> ConfidenceDisplay:
        """Count the rows of a target, and of a source or after a map where they are given."""
        counted = {} if source is None else {"source": _count(source)}
        counted["target"] = _count(target)
        if calibration is not None:
            counted["target, calibrated"] = _count(applied(calibration, target))
        return cls(unit_edges(N_BINS), {name: c / c.sum() for name, c in counted.items()})

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> ConfidenceDisplay:
        """Take the counts that a calibration keeps."""
        facts = calibration.details["histograms"]
        keys = {"source": "source", "target": "target_before", "target, calibrated": "target_after"}
        counts = {n: np.asarray(facts[key], float) for n, key in keys.items() if facts[key]}
        return cls(np.asarray(facts["edges"]), {n: c / c.sum() for n, c in counts.items()})

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return the bins, ``from`` and ``to``, and the share of rows in each."""
        return {"from": self.edges[:-1], "to": self.edges[1:], **self.shares}

    def _draw(self, ax: Axes) -> None:
        for name, share in self.shares.items():
            color, dash = LOOKS[name]
            if name == "source":
                ax.stairs(share, self.edges, color=color, fill=True, alpha=0.35, label=name)
            else:
                ax.stairs(share, self.edges, color=color, linestyle=dash, linewidth=1.6, label=name)
        ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of rows")
        ax.legend(loc="upper left")


def _count(logits: object) -> Floats:
    return as_rows(logits).reduce(_count_block)[0]


def _count_block(block: Block) -> tuple[Floats]:
    z = to_numpy(block.logits).astype(np.float64)
    confidence = 1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)
    return (np.bincount(bin_index(confidence, N_BINS), minlength=N_BINS).astype(np.float64),)
