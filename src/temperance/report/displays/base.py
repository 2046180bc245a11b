"""What every display can do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from temperance.calibrate.result import Calibration
from temperance.io.atomic import write_bytes
from temperance.maps import Map
from temperance.report.displays.style import COLUMN, new_axes, pyplot, styled, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
