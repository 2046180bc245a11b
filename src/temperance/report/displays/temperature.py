"""Temperatures with their intervals, one line per method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats
from temperance._core.stats import Interval
from temperance.calibrate.result import Calibration
from temperance.report.displays.base import Display
from temperance.report.displays.style import COLUMN, CYCLE, MARKERS, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True)
class TemperatureDisplay(Display):
    """Temperatures on a logarithmic axis: right of 1 the map lowers the confidence of the model.

    Parameters
    ----------
    temperatures : mapping from method to a number or an `Interval`

    Examples
    --------
    >>> import temperance as tp
    >>> fitted = {"source": 2.4, "prior-matched": tp.Interval(6.1, 4.8, 7.9)}
    >>> tp.display.TemperatureDisplay(fitted).frame()["high"]
    array([2.4, 7.9])
    """

    temperatures: Mapping[str, float | Interval]
    height = COLUMN * 0.45

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> TemperatureDisplay:
        """Take the temperature of a calibration, and that of its source where there is one."""
        source = calibration.details.get("source")
        found: dict[str, float | Interval] = {"model's own": 1.0}
        if source:
            found["labelled source"] = source["temperature"]
        return cls(found | {str(calibration.details["method"]): calibration.temperature})

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return method, value, low and high."""
        rows = [v if isinstance(v, Interval) else (v,) * 3 for v in self.temperatures.values()]
        value, low, high = np.asarray(rows, np.float64).T
        return {
            "method": np.array(list(self.temperatures)),
            "value": value,
            "low": low,
            "high": high,
        }

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        names = columns["method"]
        for i, (value, low, high) in enumerate(zip(*list(columns.values())[1:], strict=True)):
            color, marker = CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)]
            ax.plot([low, high], [i, i], color=color, linewidth=2.2, solid_capstyle="round")
            ax.plot([value], [i], marker, color=color, markersize=5)
        ax.axvline(1, color=ink(), linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        ax.set_xscale("log")
        ticks = _ticks(min(columns["low"].min(), 1), max(columns["high"].max(), 1))
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_yticks(range(len(names)), names.tolist())
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel("temperature: right of 1, less sure")


def _ticks(low: float, high: float) -> Floats:
    """1, 2 and 5 times powers of ten; if few fall inside, evenly spaced ones."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    all_ticks = np.sort(np.outer(decades, np.array([1.0, 2.0, 5.0])).ravel())
    first = max(0, int(np.searchsorted(all_ticks, low, "right")) - 1)
    return all_ticks[first : int(np.searchsorted(all_ticks, high)) + 1]
