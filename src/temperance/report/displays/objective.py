"""The objective of UTS: how far the weights of missing rows must reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats
from temperance.data import as_rows
from temperance.methods.uts import BAG_ROWS, EXPONENTS, Shortfall, weight_objective
from temperance.report.displays.base import Display
from temperance.report.displays.style import AFTER, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
