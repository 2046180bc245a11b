"""Plots of all pages: SVG without script or inline style; plot.css is its style sheet.

`Axis.at` turns a value into a place. Marks and tick labels both call it, so a label stands at its
value by construction. Places are per cent of the plot and text keeps its own size, so a plot fits
any width. A library is not used: those that draw without a script write text into a picture of one
size, which a phone then shows too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


Mark = Callable[[Axis, Axis], str]
"""SVG as a function of two axes; the look of a mark is a class of the style sheet."""


def polyline(xs: Sequence[float], ys: Sequence[float], look: str) -> Mark:
    """Return a line through points."""
    return lambda x, y: _stretched(f'<polyline class="{look}" points="{_points(xs, ys, x, y)}"/>')


def shaded(xs: Sequence[float], low: Sequence[float], high: Sequence[float], look: str) -> Mark:
    """Return the area between two lines."""
    around, ends = [*xs, *xs[::-1]], [*high, *low[::-1]]
    return lambda x, y: _stretched(
        f'<polygon class="{look}" points="{_points(around, ends, x, y)}"/>'
    )


def straight(start: tuple[float, float], end: tuple[float, float], look: str) -> Mark:
    """Return a straight line between two points."""
    (a, b), (c, d) = start, end
    return lambda x, y: (
        f'<line class="{look}" x1="{_x(a, x)}" y1="{_y(b, y)}" x2="{_x(c, x)}" y2="{_y(d, y)}"/>'
    )


def rectangle(low: tuple[float, float], high: tuple[float, float], look: str) -> Mark:
    """Return a rectangle from one corner to the other."""

    def draw(x: Axis, y: Axis) -> str:
        width, height = x.at(high[0]) - x.at(low[0]), y.at(high[1]) - y.at(low[1])
        size = f'width="{width:.2f}%" height="{height:.2f}%"'
        return f'<rect class="{look}" x="{_x(low[0], x)}" y="{_y(high[1], y)}" {size}/>'

    return draw


def dot(at: tuple[float, float], look: str, words: str = "", radius: float = 3.5) -> Mark:
    """Return a point, with words for who points at it."""
    return lambda x, y: (
        f'<circle class="{look}" cx="{_x(at[0], x)}" cy="{_y(at[1], y)}" r="{radius:.1f}">'
        f"{_title(words)}</circle>"
    )


def sign(at: float, look: str, words: str) -> Mark:
    """Return a sign above the plot."""
    return lambda x, _: (
        f'<text class="{look}" x="{_x(at, x)}" y="-4" text-anchor="middle">▼{_title(words)}</text>'
    )


def plot(x: Axis, y: Axis, marks: Sequence[Mark], label: str) -> Markup:
    """Return a plot: grid, marks in their order, and both axes.

    The label says what the plot shows, for who cannot see it.

    >>> drawn = plot(shares(), shares(), [polyline([0, 1], [0, 0.5], "after")], "Risk")
    >>> 'points="0.00,100.00 100.00,50.00"' in drawn
    True
    """
    from markupsafe import Markup, escape

    inner = [value for value, _ in y.ticks if y.low < value < y.high]
    grid = [straight((x.low, value), (x.high, value), "grid") for value in inner]
    drawn = "".join(mark(x, y) for mark in (*grid, *marks))
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
