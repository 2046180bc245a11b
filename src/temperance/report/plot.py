"""Plots of all pages: SVG without script or inline style; plot.css is its style sheet.

`Axis.at` turns a value into a place. Marks and tick labels both call it, so a label stands at its
value by construction. Places are per cent of the plot and text keeps its own size, so a plot fits
any width. A library is not used: those that draw without a script write text into a picture of one
size, which a phone then shows too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup

EDGE = 10  # per cent of an axis at either end, where a centred label would leave the plot


class Axis(NamedTuple):
    """Ends of an axis, values with their labels, and its name.

    ``inside``: labels near the ends do not reach beyond them.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    name: str = ""
    inside: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, in per cent from the low end; beyond an end, that end.

        >>> Axis(0, 0.4, [(0.1, "10%")]).at(0.1)
        25.0
        """
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


def shares(name: str = "", low: float = 0.0, high: float = 1.0, parts: int = 4) -> Axis:
    """Return an axis in per cent with labels at equal steps."""
    values = [low + i * (high - low) / parts for i in range(parts + 1)]
    return Axis(low, high, [(value, f"{100 * value:.4g}%") for value in values], name)


class Curve(NamedTuple):
    """A line through points."""

    x: Sequence[float]
    y: Sequence[float]
    look: str

    def draw(self, x: Axis, y: Axis) -> str:
        """Return SVG."""
        return _stretched(
            f'<polyline class="{self.look}" points="{_points(self.x, self.y, x, y)}"/>'
        )


class Band(NamedTuple):
    """The area between two lines."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    look: str

    def draw(self, x: Axis, y: Axis) -> str:
        """Return SVG."""
        there, back = _points(self.x, self.high, x, y), _points(self.x[::-1], self.low[::-1], x, y)
        return _stretched(f'<polygon class="{self.look}" points="{there} {back}"/>')


class Segment(NamedTuple):
    """A straight line between two points."""

    start: tuple[float, float]
    end: tuple[float, float]
    look: str

    def draw(self, x: Axis, y: Axis) -> str:
        """Return SVG."""
        (a, b), (c, d) = self.start, self.end
        ends = f'x1="{_x(a, x)}" y1="{_y(b, y)}" x2="{_x(c, x)}" y2="{_y(d, y)}"'
        return f'<line class="{self.look}" {ends}/>'


class Box(NamedTuple):
    """A rectangle from one corner to the other."""

    low: tuple[float, float]
    high: tuple[float, float]
    look: str

    def draw(self, x: Axis, y: Axis) -> str:
        """Return SVG."""
        left, right = (x.at(corner[0]) for corner in (self.low, self.high))
        top, bottom = (100 - y.at(corner[1]) for corner in (self.high, self.low))
        size = f'width="{right - left:.2f}%" height="{bottom - top:.2f}%"'
        return f'<rect class="{self.look}" x="{left:.2f}%" y="{top:.2f}%" {size}/>'


class Dot(NamedTuple):
    """A point, with words for who points at it."""

    x: float
    y: float
    look: str
    words: str = ""
    radius: float = 3.5

    def draw(self, x: Axis, y: Axis) -> str:
        """Return SVG."""
        place = f'cx="{_x(self.x, x)}" cy="{_y(self.y, y)}" r="{self.radius:.1f}"'
        return f'<circle class="{self.look}" {place}>{_title(self.words)}</circle>'


class Sign(NamedTuple):
    """A sign above the plot."""

    x: float
    look: str
    words: str

    def draw(self, x: Axis, _: Axis) -> str:
        """Return SVG."""
        place = f'x="{_x(self.x, x)}" y="-4" text-anchor="middle"'
        return f'<text class="{self.look}" {place}>▼{_title(self.words)}</text>'


Mark = Curve | Band | Segment | Box | Dot | Sign


def plot(x: Axis, y: Axis, marks: Sequence[Mark], label: str) -> Markup:
    """Return a plot: grid, marks in their order, and both axes.

    Parameters
    ----------
    x, y : Axis
    marks : sequence of Curve, Band, Segment, Box, Dot and Sign
        Their ``look`` is a class of the style sheet.
    label : str
        What the plot shows, for who cannot see it.

    Examples
    --------
    >>> drawn = plot(shares(), shares(), [Curve([0, 1], [0, 0.5], "after")], "Risk")
    >>> 'points="0.00,100.00 100.00,50.00"' in drawn
    True
    """
    from markupsafe import Markup, escape

    inner = [value for value, _ in y.ticks if y.low < value < y.high]
    grid = [Segment((x.low, value), (x.high, value), "grid") for value in inner]
    drawn = "".join(mark.draw(x, y) for mark in (*grid, *marks))
    labels = "".join(
        f'<text x="100%" y="{_y(value, y)}" text-anchor="end" dy=".32em">{escape(text)}</text>'
        for value, text in y.ticks
    )
    return Markup(  # noqa: S704 - made of numbers, class names and escaped text
        f'<div class="plot"><svg class="y" aria-hidden="true">{labels}</svg><div>'
        f'<svg class="canvas" role="img" aria-label="{escape(label)}">{drawn}</svg>'
        f"{x_axis(x)}</div></div>"
    )


def style() -> str:
    """Return the style sheet; the colours ``--soft`` and ``--line`` are those of the page."""
    return (files("temperance.report") / "templates" / "plot.css").read_text("utf-8")


def x_axis(axis: Axis) -> Markup:
    """Return the labels of an axis, to stand below anything as wide as the axis."""
    from markupsafe import Markup, escape

    labels = "".join(
        f'<text x="{_x(value, axis)}" y="1em" text-anchor="{_anchor(value, axis)}">'
        f"{escape(text)}</text>"
        for value, text in axis.ticks
    )
    name = f'<div class="axis-name">{escape(axis.name)}</div>' if axis.name else ""
    return Markup(f'<svg class="axis" aria-hidden="true">{labels}</svg>{name}')  # noqa: S704


def _anchor(value: float, axis: Axis) -> str:
    at = axis.at(value)
    if not axis.inside or EDGE < at < 100 - EDGE:
        return "middle"
    return "start" if at <= EDGE else "end"


def _x(value: float, x: Axis) -> str:
    return f"{x.at(value):.2f}%"


def _y(value: float, y: Axis) -> str:
    return f"{100 - y.at(value):.2f}%"


def _points(xs: Sequence[float], ys: Sequence[float], x: Axis, y: Axis) -> str:
    return " ".join(f"{x.at(a):.2f},{100 - y.at(b):.2f}" for a, b in zip(xs, ys, strict=True))


def _stretched(shape: str) -> str:
    """Return a shape of points from 0 to 100, as wide and high as the plot."""
    return f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{shape}</svg>'


def _title(words: str) -> str:
    from markupsafe import escape

    return f"<title>{escape(words)}</title>" if words else ""
