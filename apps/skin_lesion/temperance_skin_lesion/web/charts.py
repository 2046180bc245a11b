"""Small drawings as inline SVG: axes, a few lines, no script. Colours come from the style sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["reliability", "risk_coverage"]

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 46


def risk_coverage(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Markup:
    """Error rate among the most confident cases, against their share."""
    top = max(0.1, *(risk for curve in curves.values() for _, risk in curve)) * 1.08
    lines = "".join(
        f'<polyline class="line {escape(name)}" points="{_points(curve, top)}"/>'
        for name, curve in curves.items()
    )
    return _frame(
        lines,
        x_label="share of cases answered, the most confident first",
        y_label="wrong answers",
        y_top=top,
        title="Risk against coverage",
    )


def reliability(bins: Sequence[Mapping[str, float]]) -> Markup:
    """Share of right predictions against the confidence claimed, the area by the cases in a bin."""
    most = max(b["cases"] for b in bins)
    dots = "".join(
        f'<circle class="dot" cx="{_x(b["confidence"]):.1f}" cy="{_y(b["accuracy"], 1):.1f}" '
        f'r="{3 + 11 * (b["cases"] / most) ** 0.5:.1f}">'
        f"<title>{b['cases']:.0f} cases: claimed {b['confidence']:.2f}, right "
        f"{b['accuracy']:.2f}</title></circle>"
        for b in bins
    )
    diagonal = f'<polyline class="ideal" points="{_points(((0, 0), (1, 1)), 1)}"/>'
    return _frame(
        diagonal + dots,
        x_label="confidence claimed",
        y_label="share right",
        y_top=1,
        title="Reliability of diagnosed cases",
    )


def _frame(content: str, *, x_label: str, y_label: str, y_top: float, title: str) -> Markup:
    """Axes in quarters around a drawing."""
    ticks = []
    for quarter in range(5):
        x, y = quarter / 4, y_top * quarter / 4
        ticks.append(
            f'<text class="tick" x="{_x(x):.1f}" y="{HEIGHT - BOTTOM + 17}" '
            f'text-anchor="middle">{x:.0%}</text>'
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(y, y_top):.1f}" '
            f'y2="{_y(y, y_top):.1f}"/>'
            f'<text class="tick" x="{LEFT - 8}" y="{_y(y, y_top) + 4:.1f}" '
            f'text-anchor="end">{y:.0%}</text>'
        )
    # Every part was built above from numbers and escaped names.
    return Markup(  # noqa: S704
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(ticks)}{content}'
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" '
        f'text-anchor="middle">{escape(x_label)}</text>'
        f'<text class="axis" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) '
        f'rotate(-90)" text-anchor="middle">{escape(y_label)}</text></svg>'
    )


def _points(curve: Sequence[tuple[float, float]], y_top: float) -> str:
    return " ".join(f"{_x(x):.1f},{_y(y, y_top):.1f}" for x, y in curve)


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
