"""Displays of studies: a metric against a shift, temperatures side by side, the objective of UTS.

They are displays like those of `temperance.display`: ``frame()`` gives the numbers, ``plot(ax)``
draws them, ``to_svg(path)`` makes an SVG for light and dark pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from temperance import InputError, Interval
from temperance.data import as_rows
from temperance.methods.uts import BAG_ROWS, EXPONENTS, Shortfall, weight_objective
from temperance.report.displays import Display
from temperance.report.style import AFTER, COLUMN, ink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7F00", "#7F7F7F")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@final
class ShiftCurveDisplay(Display):
    """A metric of several methods against the severity of a shift.

    Columns: method, severity, value, low, high.

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
    >>> display = ShiftCurveDisplay([0, 30, 60], curves, metric="NLL")
    >>> display.frame()["method"][:3].tolist()
    ['uncalibrated', 'uncalibrated', 'uncalibrated']
    """

    def __init__(
        self,
        severity: Sequence[Any],
        curves: Mapping[str, Sequence[Any]],
        metric: str,
        shift: str = "severity of the shift",
    ) -> None:
        for name, values in curves.items():
            if len(values) != len(severity):
                raise InputError(
                    f"curves[{name!r}] must have {len(severity)} values, one per severity. "
                    f"Got {len(values)}."
                )
        names = np.repeat(list(curves), len(severity))
        points = [value for values in curves.values() for value in values]
        at = {"method": names, "severity": np.tile(np.asarray(severity), len(curves))}
        super().__init__(at | _points(points))
        self._methods, self._metric, self._shift = list(curves), metric, shift

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        method, severity = columns.pop("method"), columns.pop("severity")
        named = severity.dtype.kind == "U"
        for i, name in enumerate(self._methods):
            value, low, high = (column[method == name] for column in columns.values())
            x = np.arange(len(value)) if named else severity[method == name]
            color = CYCLE[i % len(CYCLE)]
            if (high > low).any():
                ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            marker, dash = MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
            (line,) = ax.plot(x, value, color=color, marker=marker, linestyle=dash, label=name)
            line.set(markersize=3.5, linewidth=1.3)
        if named:
            listed = severity[method == self._methods[0]].tolist()
            ax.set_xticks(range(len(listed)), listed, rotation=40, ha="right")
        ax.set(xlabel=self._shift, ylabel=self._metric)
        if np.nanmin(columns["low"]) >= 0:
            ax.set_ylim(bottom=0)
        # Above the axes: with many methods every place inside is crossed by a curve.
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, handlelength=2.6)


def _points(values: Sequence[Any]) -> dict[str, Floats]:
    """Return value, low and high of each point; a bare number is its own interval."""
    rows = [v if isinstance(v, tuple) else (v, v, v) for v in values]
    value, low, high = np.asarray(rows, np.float64).reshape(-1, 3).T
    return {"value": value, "low": low, "high": high}


# ---------------------------------------------------------------- temperatures with their intervals


@final
class TemperatureDisplay(Display):
    """Temperatures on a logarithmic axis: right of 1 the map lowers the confidence of the model.

    Columns: method, value, low, high.

    Parameters
    ----------
    temperatures : mapping from method to a number or an `Interval`

    Examples
    --------
    >>> import temperance as tp
    >>> fitted = {"source": 2.4, "prior-matched": tp.Interval(6.1, 4.8, 7.9)}
    >>> TemperatureDisplay(fitted).frame()["high"]
    array([2.4, 7.9])
    """

    height = COLUMN * 0.45

    def __init__(self, temperatures: Mapping[str, float | Interval]) -> None:
        names = np.array(list(temperatures))
        super().__init__({"method": names} | _points(list(temperatures.values())))

    def _draw(self, ax: Axes) -> None:
        names, values, lows, highs = self.frame().values()
        for i, (value, low, high) in enumerate(zip(values, lows, highs, strict=True)):
            color, marker = CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)]
            ax.plot([low, high], [i, i], color=color, linewidth=2.2, solid_capstyle="round")
            ax.plot([value], [i], marker, color=color, markersize=5)
        ax.axvline(1, color=ink(), linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        _logarithmic(ax, _ticks(min(lows.min(), 1), max(highs.max(), 1)))
        ax.set_yticks(range(len(names)), names.tolist())
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel("temperature: right of 1, less sure")


def _logarithmic(ax: Axes, ticks: Floats) -> None:
    """Make a logarithmic axis with labels in plain digits; matplotlib's own are formulas."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    ax.set_xticks([], minor=True)


def _ticks(low: float, high: float) -> Floats:
    """Return 1, 2 and 5 times powers of ten, from below ``low`` to above ``high``."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    all_ticks = np.sort(np.outer(decades, np.array([1.0, 2.0, 5.0])).ravel())
    first = max(0, int(np.searchsorted(all_ticks, low, "right")) - 1)
    return all_ticks[first : int(np.searchsorted(all_ticks, high)) + 1]


# ----------------------------------------------------------------------------- the objective of UTS


OBJECTIVE_POINTS = 121


@final
class ObjectiveDisplay(Display):
    """J(w) of unsupervised temperature scaling over 1/w, with its minimum.

    A sharp valley identifies w; a plain, or a curve that falls to an edge, does not.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> z = 3 * rng.normal(size=(500, 5)) + [1.0, 0, 0, 0, 0]
    >>> columns = ObjectiveDisplay.from_logits(z, np.full(5, 0.2)).frame()
    >>> list(columns)
    ['inverse_w', 'objective']
    """

    @classmethod
    def from_logits(cls, target_logits: object, prior: object, *, form: str = "reference") -> Self:
        """Evaluate the objective of all rows at once over the whole range of the search."""
        rows = as_rows(target_logits, name="target_logits")
        q = np.asarray(prior, dtype=np.float64)
        grid = np.geomspace(*EXPONENTS, OBJECTIVE_POINTS)
        value = weight_objective(rows, Shortfall.of(rows, q, shrink_to=BAG_ROWS), form)(grid)
        return cls({"inverse_w": grid, "objective": value})

    def _draw(self, ax: Axes) -> None:
        x, y = self.frame().values()
        seen = np.isfinite(y)
        x, y = x[seen], y[seen]
        _logarithmic(ax, np.geomspace(1e-3, 1e3, 7))
        ax.plot(x, y, color=AFTER)
        best = int(np.argmin(y))
        ax.plot(x[best], y[best], "o", color=ink(), markersize=5)
        place = {"xytext": (0, -12), "textcoords": "offset points", "ha": "center"}
        ax.annotate(f"1/w = {x[best]:.3g}", (x[best], y[best]), **place)
        ax.margins(y=0.15)
        ax.set(xlabel="1/w", ylabel="objective J(w)")
