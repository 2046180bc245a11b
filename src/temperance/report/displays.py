"""Figures (extra: ``report``): each is first a table of numbers, and then a drawing of them.

``display.frame()`` gives the numbers as columns of equal length, a dict that
``pandas.DataFrame`` and ``polars.DataFrame`` take as it is; ``display.plot(ax=None)`` draws
them with matplotlib; ``display.to_svg(path=None)`` makes an SVG for light and dark pages, and a
notebook shows that for a display on the last line of a cell.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats
from temperance.calibrate.result import Calibration
from temperance.calibrate.verdict import COVERAGE
from temperance.data import as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike
from temperance.io.atomic import write_bytes
from temperance.maps import Map
from temperance.metrics._outcomes import gather
from temperance.metrics.binned import ece
from temperance.metrics.bootstrap import draw_counts, group_numbers
from temperance.metrics.selective import risk_coverage
from temperance.metrics.smooth import fixed_point, smoothed, split_between_cells
from temperance.report import style
from temperance.report.style import AFTER, BEFORE, COLUMN, SOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ClassMixDisplay",
    "ConfidenceDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
LOOKS = ((BEFORE, "-"), (AFTER, "--"))  # of lines before and after a map


def __dir__() -> list[str]:
    """Return the displays, without what they are made of."""
    return __all__


class Display(ABC):
    """Numbers that make a figure: ``plot`` draws nothing that is not among them."""

    height: ClassVar[float] = COLUMN * 0.75

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    def frame(self) -> dict[str, NDArray[Any]]:
        """Return all numbers of the figure as columns of equal length."""
        return dict(self._columns)

    @abstractmethod
    def _draw(self, ax: Axes) -> None: ...

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw on ``ax``, in the style of its figure, or on a new figure one column wide."""
        if ax is not None:
            self._draw(ax)
            return ax
        with style.styled():
            _, new = style.pyplot().subplots(figsize=(COLUMN, self.height), layout="constrained")
            self._draw(new)
        return new

    def _repr_html_(self) -> str:
        """Show the figure in a notebook, light or dark."""
        return self.to_svg()

    def to_svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the figure as SVG that suits light and dark pages; write it when a path is given.

        Without a path the text is meant to stand inside a page, whose colour of text it takes.
        """
        ax = self.plot()
        try:
            text = style.svg_of(ax.figure, standalone=path is not None)  # pyright: ignore[reportArgumentType]
        finally:
            style.pyplot().close(ax.figure)
        if path is not None:
            write_bytes(path, text.encode())
        return text


def _applied(calibration: Map | Calibration, logits: object) -> Any:
    """Return logits after a map, or after the map of a calibration."""
    fitted: Any = getattr(calibration, "map", calibration)
    return fitted(logits)


# ---------------------------------------------------------------------- accuracy against confidence


DRAWN = 200
MIN_SIGMA, MAX_SIGMA = 0.02, 0.05  # a bandwidth that draws neither noise nor a mere mean
FEWEST = 10  # rows within σ, below which nothing is drawn


@final
class ReliabilityDisplay(Display):
    """Accuracy against confidence, before and after a map, with bands and densities.

    The diagonal is perfect calibration; a curve below it is overconfident. Columns: curve,
    confidence, accuracy, low, high, density.

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

    height = COLUMN

    def __init__(self, columns: Mapping[str, NDArray[Any]], errors: Mapping[str, float]) -> None:
        super().__init__(columns)
        self._errors = errors

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
    ) -> Self:
        """Measure the curve of some rows, and with a map the one after it too.

        The other arguments, of the band, are those of `temperance.metrics.bootstrap`.
        """
        rng = checks.check_seed(seed)
        options = (groups, checks.check_integer(n_resamples, "n_resamples", low=1), level, rng)
        sets = {"before": logits}
        if calibration is not None:
            sets["after"] = _applied(calibration, logits)
        curves = [_measure(z, labels, *options) for z in sets.values()]
        columns = {name: np.concatenate([curve[name] for curve in curves]) for name in curves[0]}
        errors = {name: ece(z, labels) for name, z in sets.items()}
        return cls({"curve": np.repeat(list(sets), DRAWN)} | columns, errors)

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        curve, peak = columns.pop("curve"), columns["density"].max()
        ax.plot([0, 1], [0, 1], color=style.ink(), linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        for (name, error), (color, dash) in zip(self._errors.items(), LOOKS, strict=False):
            x, accuracy, low, high, density = (v[curve == name] for v in columns.values())
            ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
            # The density stands on the axis, a fifth of the diagram high.
            ax.fill_between(x, 0, 0.2 * density / peak, color=color, alpha=0.3, linewidth=0)
            text = f"{name}, ECE {error:.3f}"
            ax.plot(x, accuracy, color=color, linestyle=dash, label=text, clip_on=False)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set(xlabel="confidence", ylabel="accuracy")
        ax.legend(loc="upper left")


def _measure(
    logits: LogitsLike,
    labels: LabelsLike,
    groups: LabelsLike | None,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Return the smoothed curve of some rows, as Błasiok and Nakkiran (2023) draw it.

    With f the confidence of a row, y whether it is right, and K_σ a Gaussian kernel that is
    reflected at 0 and 1:

        accuracy(t) = Σ_i K_σ(t, f_i) y_i / Σ_i K_σ(t, f_i)    density(t) = (1/n) Σ_i K_σ(t, f_i)

    σ is the smooth calibration error, kept between `MIN_SIGMA` and `MAX_SIGMA`. Where fewer
    than `FEWEST` rows are within σ, there is no curve.
    """
    o = gather(as_labelled_rows(logits, labels))
    place, share = split_between_cells(o.confidence, DRAWN)

    def on_grid(weight: Floats) -> Floats:
        cells: Any = np.bincount(place.ravel(), (share * weight).ravel(), DRAWN)
        return cells

    def accuracy_of(weight: Floats) -> Floats:
        right, mass = (smoothed(on_grid(w), sigma) for w in (weight * o.correct, weight))
        return np.clip(right / np.maximum(mass, 1e-9), 0, 1)

    error = fixed_point(on_grid(o.correct - o.confidence) / o.n)
    sigma = min(max(error, MIN_SIGMA), MAX_SIGMA)
    units = group_numbers(groups, o.n)
    counts = (w for drawn in draw_counts(int(units.max()) + 1, n_resamples, rng) for w in drawn)
    draws = [accuracy_of(w[units].astype(np.float64)) for w in counts]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    every = np.ones(o.n)
    grid = (np.arange(DRAWN) + 0.5) / DRAWN
    ordered = np.sort(o.confidence)
    near = np.searchsorted(ordered, grid + sigma) - np.searchsorted(ordered, grid - sigma)
    curve = {"accuracy": accuracy_of(every), "low": low, "high": high}
    known = {name: np.where(near >= FEWEST, v, np.nan) for name, v in curve.items()}
    return {"confidence": grid} | known | {"density": smoothed(on_grid(every), sigma) * DRAWN / o.n}


# ------------------------------------------------------------------------- histograms of confidence


@final
class ConfidenceDisplay(Display):
    """Share of rows at each confidence: source, target, and target after the map.

    A target as sure of itself as the source, with more errors, is the silent failure that
    calibration is about. Columns: the bins, ``from`` and ``to``, and the share of rows in each.
    """

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> Self:
        """Take the counts that a calibration keeps."""
        facts = calibration.details["histograms"]
        keys = {"source": "source", "target": "target_before", "target, calibrated": "target_after"}
        counts = {n: np.asarray(facts[key], float) for n, key in keys.items() if facts[key]}
        edges = np.asarray(facts["edges"])
        shares = {name: c / c.sum() for name, c in counts.items()}
        return cls({"from": edges[:-1], "to": edges[1:]} | shares)

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        edges = np.append(columns.pop("from"), columns.pop("to")[-1])
        if "source" in columns:
            source = columns.pop("source")
            ax.stairs(source, edges, color=SOURCE, fill=True, alpha=0.35, label="source")
        for (name, share), (color, dash) in zip(columns.items(), LOOKS, strict=False):
            ax.stairs(share, edges, color=color, linestyle=dash, linewidth=1.6, label=name)
        ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of rows")
        ax.legend(loc="upper left")


# -------------------------------------------------------------------- predicted and known class mix


MAX_CLASSES_SHOWN = 12  # classes that fit a column


@final
class ClassMixDisplay(Display):
    """Share of each class among the predictions, against the prior.

    A class that is predicted far more often than it can occur is where the errors are. Of many
    classes the twelve that differ most are drawn; ``frame`` has all. Columns: class, prior (where
    it is known), predicted, and calibrated, the mean probabilities after the map.
    """

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> Self:
        """Take the mixes that a calibration keeps."""
        facts = calibration.details
        keys = {"prior": "prior", "predicted": "predicted_mix", "calibrated": "mix_after"}
        mixes = {n: np.asarray(facts[key]) for n, key in keys.items() if facts[key] is not None}
        return cls({"class": np.array(facts["classes"])} | mixes)

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        names, predicted, after = (columns[name] for name in ("class", "predicted", "calibrated"))
        apart = np.abs(predicted - columns.get("prior", after))
        shown = np.sort(np.argsort(-apart, kind="stable")[:MAX_CLASSES_SHOWN])
        y = np.arange(len(shown))
        ax.barh(y, predicted[shown], 0.62, color=BEFORE, alpha=0.55, label="predicted")
        ax.plot(after[shown], y, "D", color=AFTER, markersize=4, label="calibrated")
        if "prior" in columns:
            prior = columns["prior"][shown]
            ax.plot(prior, y, "|", color=style.ink(), markersize=11, label="prior")
        ax.set_yticks(y, [style.short(names[i]) for i in shown])
        ax.invert_yaxis()
        rest = f", {len(shown)} of {len(names)} classes" if len(names) > len(shown) else ""
        ax.set(xlim=(0, None), xlabel=f"share of rows{rest}")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)


# ------------------------------------------------------------------- wrong answers against coverage


@final
class RiskCoverageDisplay(Display):
    """Error rate among the rows that are answered, against their share.

    Measured where labels are given; estimated, with a 90 % band of the calibrated curve, where the
    numbers come from a calibration. Columns: coverage, before and, where these are known, after,
    after_low, after_high.

    Examples
    --------
    >>> import temperance as tp
    >>> z = tp.binary_logits([4.0, 3.0, 2.0, 1.0])
    >>> curve = tp.display.RiskCoverageDisplay.from_logits(z, [1, 1, 0, 1]).frame()
    >>> curve["before"][[24, 99]]  # the surest quarter, and all
    array([0.  , 0.25])
    """

    @classmethod
    def from_logits(
        cls, logits: LogitsLike, labels: LabelsLike, calibration: Map | Calibration | None = None
    ) -> Self:
        """Measure the risk on labelled rows, and with a map the risk after it too."""
        columns = {"coverage": COVERAGE, "before": _at_coverages(logits, labels)}
        if calibration is not None:
            columns["after"] = _at_coverages(_applied(calibration, logits), labels)
        return cls(columns)

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> Self:
        """Take the estimated risk that a calibration keeps, with its band."""
        facts = calibration.details["risk_coverage"]
        if facts is None:
            msg = "calibration must not be refused: a refused one has no estimated risk to draw."
            raise checks.InputError(msg)
        return cls({name.removeprefix("risk_"): np.asarray(v) for name, v in facts.items()})

    def _draw(self, ax: Axes) -> None:
        columns = self.frame()
        x, measured = columns["coverage"], "after_low" not in columns
        ax.plot(x, columns["before"], color=BEFORE, label="model's own confidence")
        if "after" in columns:
            ax.plot(x, columns["after"], color=AFTER, linestyle="--", label="calibrated")
        if not measured:
            band = {"color": AFTER, "alpha": 0.18, "linewidth": 0, "label": "calibrated, 90% band"}
            ax.fill_between(x, columns["after_low"], columns["after_high"], **band)
        word = "error rate" if measured else "estimated error rate"
        ax.set(xlim=(0, 1), ylim=(0, None), xlabel="share of rows answered", ylabel=word)
        ax.legend(loc="upper left")


def _at_coverages(logits: LogitsLike, labels: LabelsLike) -> Floats:
    """Risk where enough rows are covered; rows of equal confidence are answered together."""
    curve = risk_coverage(logits, labels)
    place = np.searchsorted(curve.coverage, COVERAGE - 1e-9)
    return curve.risk[np.minimum(place, len(curve.risk) - 1)]
