"""Small drawings as inline SVG: axes, a few lines, no script. Colours come from the style sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["reliability", "risk_coverage"]

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 46
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)


def risk_coverage(
    curves: Mapping[str, Sequence[tuple[float, float]]], points: Mapping[str, Any]
) -> Markup:
    """Error rate among the most confident cases against their share; rules as points."""
    marked = [p["risk"] for p in points.values() if p]
    highest = max(0.1, *(risk for curve in curves.values() for _, risk in curve), *marked)
    step = next((s for s in STEPS if 5 * s >= highest), 0.25)
    top = step * -(-highest // step)
    lines = "".join(
        f'<polyline class="line {escape(name)}" points="{_points(curve, top)}"/>'
        for name, curve in curves.items()
    )
    dots = "".join(
        f'<circle class="operating {escape(name)}" cx="{_x(p["coverage"]):.1f}" '
        f'cy="{_y(p["risk"], top):.1f}" r="7"><title>With these rules: {p["coverage"]:.0%} '
        f"answered, {p['risk']:.1%} of the answers wrong</title></circle>"
        for name, p in points.items()
        if p
    )
    return _frame(
        lines + dots,
        x_label="share of cases answered, the most confident first",
        y_label="wrong answers",
        y_top=top,
        y_step=step,
        title="Wrong answers against the share answered",
    )


def reliability(bins: Sequence[Mapping[str, float]]) -> Markup:
    """Share of right predictions against the confidence claimed, with 90 % intervals."""
    most = max(b["cases"] for b in bins)
    dots = "".join(
        f'<line class="whisker" x1="{_x(b["confidence"]):.1f}" x2="{_x(b["confidence"]):.1f}" '
        f'y1="{_y(b["accuracy_low"], 1):.1f}" y2="{_y(b["accuracy_high"], 1):.1f}"/>'
        f'<circle class="dot" cx="{_x(b["confidence"]):.1f}" cy="{_y(b["accuracy"], 1):.1f}" '
        f'r="{3 + 7 * (b["cases"] / most) ** 0.5:.1f}">'
        f"<title>{b['cases']:.0f} cases: claimed {b['confidence']:.2f}, right "
        f"{b['accuracy']:.2f} ({b['accuracy_low']:.2f} to {b['accuracy_high']:.2f})</title>"
        f"</circle>"
        for b in bins
    )
    diagonal = f'<polyline class="ideal" points="{_points(((0, 0), (1, 1)), 1)}"/>'
    return _frame(
        diagonal + dots,
        x_label="confidence claimed",
        y_label="share right",
        y_top=1,
        y_step=0.25,
        title="Confidence claimed and share right, of diagnosed cases",
    )


def _frame(
    content: str, *, x_label: str, y_label: str, y_top: float, y_step: float, title: str
) -> Markup:
    """Axes with round numbers around a drawing."""
    ticks = [
        f'<text class="tick" x="{_x(quarter / 4):.1f}" y="{HEIGHT - BOTTOM + 17}" '
        f'text-anchor="middle">{quarter / 4:.0%}</text>'
        for quarter in range(5)
    ]
    for number in range(round(y_top / y_step) + 1):
        y = number * y_step
        ticks.append(
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
