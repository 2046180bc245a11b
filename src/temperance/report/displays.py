"""Figures (extra: ``report``): each is first a table of numbers, and then a drawing of them.

``display.frame()`` gives the numbers as columns of equal length, a dict that
``pandas.DataFrame`` and ``polars.DataFrame`` take as it is; ``display.plot(ax=None)`` draws
them with matplotlib; ``display.to_svg(path=None)`` makes an SVG for light and dark pages, and a
notebook shows that for a display on the last line of a cell.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats, to_numpy
from temperance._core.stats import Interval
from temperance.calibrate.result import Calibration
from temperance.data import Block, Rows, as_labelled_rows, as_rows
from temperance.data.types import LabelsLike, LogitsLike
from temperance.io.atomic import write_bytes
from temperance.maps import Map
from temperance.methods.uts import (
    BAG_ROWS,
    EXPONENTS,
    Shortfall,
    count_predictions,
    weight_objective,
)
from temperance.metrics._outcomes import gather
from temperance.metrics.binned import bin_index, ece, unit_edges
from temperance.metrics.bootstrap import group_numbers
from temperance.metrics.selective import risk_coverage
from temperance.metrics.smooth import fixed_point, smoothed, split_between_cells
from temperance.report.style import (
    AFTER,
    BEFORE,
    COLUMN,
    CYCLE,
    DASHES,
    MARKERS,
    SOURCE,
    ink,
    new_axes,
    pyplot,
    short,
    styled,
    svg_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ClassMixDisplay",
    "ConfidenceDisplay",
    "ObjectiveDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "ShiftCurveDisplay",
    "TemperatureDisplay",
]


def __dir__() -> list[str]:
    """Return the displays, without what they are made of."""
    return __all__


def applied(calibration: Map | Calibration, logits: object) -> Any:
    """Return logits after a map, or after the map of a calibration."""
    fitted: Any = getattr(calibration, "map", calibration)
    return fitted(logits)


class Display(ABC):
    """Numbers that make a figure.

    The numbers come first: ``frame`` gives them all, as columns of equal length that pandas and
    polars turn into a table, and ``plot`` draws nothing that is not among them.
    """

    height: ClassVar[float] = COLUMN * 0.75

    @abstractmethod
    def frame(self) -> dict[str, NDArray[Any]]:
        """Return all numbers of the figure as columns of equal length."""

    @abstractmethod
    def _draw(self, ax: Axes) -> None: ...

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on ``ax``, in the style of its figure, or on a new figure one column wide."""
        if ax is not None:
            self._draw(ax)
            return ax
        with styled():
            ax = new_axes(height=self.height)
            self._draw(ax)
        return ax

    def _repr_html_(self) -> str:
        """Show the figure in a notebook, light or dark."""
        return self.to_svg()

    def to_svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the figure as SVG that suits light and dark pages; write it when a path is given.

        Without a path the text is meant to stand inside a page, whose colour of text it takes.
        """
        ax = self.plot()
        try:
            text = svg_of(ax.figure, standalone=path is not None)  # pyright: ignore[reportArgumentType]
        finally:
            pyplot().close(ax.figure)
        if path is not None:
            write_bytes(path, text.encode())
        return text


# ---------------------------------------------------------------------- accuracy against confidence


CELLS = 200
NARROWEST, WIDEST = 0.02, 0.05  # a bandwidth that draws neither noise nor a mere mean
FEWEST = 10  # rows within σ, below which nothing is drawn


@dataclass(frozen=True)
class Curve:
    """Accuracy against confidence on a grid, its band, and the density of the confidence."""

    name: str
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    density: Floats
    ece: float


@final
@dataclass(frozen=True)
class ReliabilityDisplay(Display):
    """Accuracy against confidence, before and after a map, with bands and densities.

    The diagonal is perfect calibration; a curve below it is overconfident.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=2000)
    >>> z = 3 * (np.eye(3)[y] + rng.normal(size=(2000, 3)))  # three times too sure
    >>> display = tp.display.ReliabilityDisplay.from_logits(z, y, tp.Temperature(3.0))
    >>> sorted(set(display.frame()["curve"].tolist()))
    ['after', 'before']
    """

    curves: tuple[Curve, ...]
    height = COLUMN

    @classmethod
    def from_logits(
        cls,
        logits: LogitsLike,
        labels: LabelsLike,
        calibration: Map | Calibration | None = None,
        *,
        groups: LabelsLike | None = None,
        n_resamples: int = 200,
        level: float = 0.95,
        seed: int | np.random.Generator = 0,
    ) -> ReliabilityDisplay:
        """Measure the curve of some rows, and with a map the one after it too.

        Parameters
        ----------
        logits, labels : arrays of shape (n, K) and (n,)
        calibration : Map or Calibration, optional
            Draws a second curve, of the rows after the map.
        groups : array of shape (n,), optional
            Patient or site of each row, for the band.
        n_resamples, level, seed
            Of the bootstrap band.
        """
        rng = checks.check_seed(seed)
        options = (groups, checks.check_integer(n_resamples, "n_resamples", low=1), level, rng)
        curves = [_measure("before", logits, labels, *options)]
        if calibration is not None:
            curves.append(_measure("after", applied(calibration, logits), labels, *options))
        return cls(tuple(curves))

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return curve, confidence, accuracy, low, high and density."""
        names = ("confidence", "accuracy", "low", "high", "density")
        columns = {n: np.concatenate([getattr(c, n) for c in self.curves]) for n in names}
        return {"curve": np.repeat([c.name for c in self.curves], CELLS)} | columns

    def _draw(self, ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        peak = max(curve.density.max() for curve in self.curves)
        for curve, color, dash in zip(self.curves, (BEFORE, AFTER), ("-", "--"), strict=False):
            x = curve.confidence
            ax.fill_between(x, curve.low, curve.high, color=color, alpha=0.2, linewidth=0)
            # The density stands on the axis, a fifth of the diagram high.
            ax.fill_between(x, 0, 0.2 * curve.density / peak, color=color, alpha=0.3, linewidth=0)
            text = f"{curve.name}, ECE {curve.ece:.3f}"
            ax.plot(x, curve.accuracy, color=color, linestyle=dash, label=text, clip_on=False)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set(xlabel="confidence", ylabel="accuracy")
        ax.legend(loc="upper left")


def _measure(
    name: str,
    logits: LogitsLike,
    labels: LabelsLike,
    groups: LabelsLike | None,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
) -> Curve:
    """Return the smoothed curve of some rows, as Błasiok and Nakkiran (2023) draw it.

    With f the confidence of a row, y whether it is right, and K_σ a Gaussian kernel that is
    reflected at 0 and 1:

        accuracy(t) = Σ_i K_σ(t, f_i) y_i / Σ_i K_σ(t, f_i)    density(t) = (1/n) Σ_i K_σ(t, f_i)

    σ is the smooth calibration error, kept between `NARROWEST` and `WIDEST`. Where fewer than
    `FEWEST` rows are within σ, there is no curve.
    """
    rows = as_labelled_rows(logits, labels)
    o = gather(rows)
    place, share = split_between_cells(o.confidence, CELLS)

    def on_grid(weight: Floats) -> Floats:
        cells: Any = np.bincount(place.ravel(), (share * weight).ravel(), CELLS)
        return cells

    def accuracy_of(weight: Floats) -> Floats:
        right, mass = (smoothed(on_grid(w), sigma) for w in (weight * o.correct, weight))
        return np.clip(right / np.maximum(mass, 1e-9), 0, 1)

    sigma = float(np.clip(fixed_point(on_grid(o.correct - o.confidence) / o.n), NARROWEST, WIDEST))
    units = group_numbers(groups, o.n)
    n_units = int(units.max()) + 1
    draws = np.empty((n_resamples, CELLS))
    for draw in draws:
        counts = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)
        draw[:] = accuracy_of(counts[units].astype(np.float64))
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    every = np.ones(o.n)
    grid = (np.arange(CELLS) + 0.5) / CELLS
    ordered = np.sort(o.confidence)
    near = np.searchsorted(ordered, grid + sigma) - np.searchsorted(ordered, grid - sigma)
    accuracy, low, high = (
        np.where(near >= FEWEST, v, np.nan) for v in (accuracy_of(every), low, high)
    )
    density = smoothed(on_grid(every), sigma) * CELLS / o.n
    return Curve(name, grid, accuracy, low, high, density, ece(rows))


# ------------------------------------------------------------------------- histograms of confidence


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


# -------------------------------------------------------------------- predicted and known class mix


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


def _shares(rows: Rows) -> Floats:
    counts = rows.reduce(count_predictions)[0]
    return counts / counts.sum()


# ------------------------------------------------------------------- wrong answers against coverage


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


# --------------------------------------------------------- a metric against the severity of a shift


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
                raise checks.InputError(msg)
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


# ---------------------------------------------------------------- temperatures with their intervals


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


# ----------------------------------------------------------------------------- the objective of UTS


POINTS = 121


@final
@dataclass(frozen=True)
class ObjectiveDisplay(Display):
    """J(w) of unsupervised temperature scaling over 1/w, with its minimum.

    A sharp valley identifies w; a plain, or a curve that falls to an edge, does not.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> z = 3 * rng.normal(size=(500, 5)) + [1.0, 0, 0, 0, 0]
    >>> columns = tp.display.ObjectiveDisplay.from_logits(z, np.full(5, 0.2)).frame()
    >>> list(columns)
    ['inverse_w', 'objective']
    """

    inverse_w: Floats
    objective: Floats

    @classmethod
    def from_logits(
        cls, target_logits: object, prior: object, *, form: str = "reference"
    ) -> ObjectiveDisplay:
        """Evaluate the objective of all rows at once over the whole range of the search."""
        rows = as_rows(target_logits, name="target_logits")
        q = checks.check_prior(prior, rows.n_classes)
        grid = np.geomspace(*EXPONENTS, POINTS)
        value = weight_objective(rows, Shortfall.of(rows, q, shrink_to=BAG_ROWS), form)(grid)
        return cls(grid, value)

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return 1/w and the objective."""
        return {"inverse_w": self.inverse_w, "objective": self.objective}

    def _draw(self, ax: Axes) -> None:
        seen = np.isfinite(self.objective)
        x, y = self.inverse_w[seen], self.objective[seen]
        ax.semilogx(x, y, color=AFTER)
        best = int(np.argmin(y))
        ax.plot(x[best], y[best], "o", color=ink(), markersize=5)
        place = {"xytext": (0, -12), "textcoords": "offset points", "ha": "center"}
        ax.annotate(f"1/w = {x[best]:.3g}", (x[best], y[best]), **place)
        ax.margins(y=0.15)
        ax.set(xlabel="1/w", ylabel="objective J(w)")
