"""Reliability diagram: how often the model is right, against how sure it is.

With f the confidence of a row, y whether it is right, and K_σ a Gaussian kernel that is reflected
at 0 and 1:

    accuracy(t) = Σ_i K_σ(t, f_i) y_i / Σ_i K_σ(t, f_i)      density(t) = (1/n) Σ_i K_σ(t, f_i)

as in Błasiok and Nakkiran (2023), where σ is the smooth calibration error; here it is kept between
0.02 and 0.05. There are no bins to choose, and none to mistake for evidence when it is empty: where
fewer than ten rows speak, there is no curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats
from temperance.calibrate.result import Calibration
from temperance.data import as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike
from temperance.maps import Map
from temperance.metrics._outcomes import gather
from temperance.metrics.binned import ece
from temperance.metrics.bootstrap import group_numbers
from temperance.metrics.smooth import fixed_point, smoothed, split_between_cells
from temperance.report.displays.base import Display, applied
from temperance.report.displays.style import AFTER, BEFORE, COLUMN, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
