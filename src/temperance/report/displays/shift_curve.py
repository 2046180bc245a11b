"""A metric against the severity of a shift, one line per method: the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats
from temperance._core.checks import InputError
from temperance.report.displays.base import Display
from temperance.report.displays.style import CYCLE, DASHES, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@final
@dataclass(frozen=True)
class ShiftCurveDisplay(Display):
    """How a metric of several methods changes as a shift grows.

    Parameters
    ----------
    severity : sequence of numbers or names
        Degrees of rotation, severities 0 to 5, names of corruptions.
    curves : mapping from method to values
        One value for each severity; NaN leaves a gap. A value may be an `Interval`.
    metric : str
        Label of the axis, such as ``"NLL"``.
    shift : str
        Label of the other axis, such as ``"rotation in degrees"``.

    Examples
    --------
    >>> import temperance as tp
    >>> curves = {"uncalibrated": [0.1, 0.7, 5.5], "TS": [0.1, 0.4, 2.6]}
    >>> display = tp.display.ShiftCurveDisplay([0, 30, 60], curves, metric="NLL")
    >>> display.frame()["method"][:3].tolist()
    ['uncalibrated', 'uncalibrated', 'uncalibrated']
    """

    severity: Sequence[Any]
    curves: Mapping[str, Sequence[Any]]
    metric: str
    shift: str = "severity of the shift"
    _values: dict[str, Floats] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = {name: _table(values) for name, values in self.curves.items()}
        for name, values in table.items():
            if len(values) != len(self.severity):
                msg = (
                    f"curves[{name!r}] must have {len(self.severity)} values, one per severity. "
                    f"Got {len(values)}."
                )
                raise InputError(msg)
        object.__setattr__(self, "_values", table)

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return method, severity, value, low and high, one row for each point."""
        n, names = len(self.severity), list(self.curves)
        points = np.concatenate([self._values[name] for name in names])
        return {
            "method": np.repeat(names, n),
            "severity": np.tile(np.asarray(self.severity), len(names)),
            "value": points[:, 0],
            "low": points[:, 1],
            "high": points[:, 2],
        }

    def _draw(self, ax: Axes) -> None:
        named = isinstance(self.severity[0], str)
        x = np.arange(len(self.severity)) if named else np.asarray(self.severity, float)
        for i, (name, points) in enumerate(self._values.items()):
            color = CYCLE[i % len(CYCLE)]
            value, low, high = points.T
            if (high > low).any():
                ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            marker, dash = MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
            (line,) = ax.plot(x, value, color=color, marker=marker, linestyle=dash, label=name)
            line.set(markersize=3.5, linewidth=1.3)
        if named:
            ax.set_xticks(x, list(self.severity), rotation=40, ha="right")
        ax.set(xlabel=self.shift, ylabel=self.metric)
        if np.nanmin([points[:, 1] for points in self._values.values()]) >= 0:
            ax.set_ylim(bottom=0)
        # Above the axes: with many methods every place inside is crossed by a curve.
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, handlelength=2.6)


def _table(values: Sequence[Any]) -> Floats:
    """Value, low and high of each point; a bare number is its own interval."""
    rows = [v if isinstance(v, tuple) else (v, v, v) for v in values]
    return np.asarray(rows, np.float64).reshape(-1, 3)
