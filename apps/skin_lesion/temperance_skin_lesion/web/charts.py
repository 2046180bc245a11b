"""The charts of the pages, drawn by `temperance.report.plot`; colours are in the style sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from temperance.report.plot import Axis, dot, plot, polyline, shares, straight

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from temperance_skin_lesion.study import Study
    from temperance_skin_lesion.weeks import Week

__all__ = ["as_diagnoses_came", "by_week", "reliability", "risk_coverage"]

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)


def risk_coverage(
    curves: Mapping[str, Sequence[tuple[float, float]]], points: Mapping[str, Any]
) -> Markup:
    """Error rate among the most confident cases against their share; rules as points."""
    marked = {name: p for name, p in points.items() if p}
    ends = [p["risk"][2] for p in marked.values() if p["coverage"] > 0]
    highest = max(0.1, *(risk for curve in curves.values() for _, risk in curve), *ends)
    step = next((s for s in STEPS if 5 * s >= highest), 0.25)
    parts = -int(-highest // step)
    lines = [
        polyline([x for x, _ in curve], [y for _, y in curve], f"line {name}")
        for name, curve in curves.items()
        if curve
    ]
    dots: list[Any] = []
    for name, p in marked.items():
        x, (risk, low, high) = p["coverage"], p["risk"]
        words = (
            f"With these rules: {x:.0%} answered, {risk:.1%} of the answers wrong "
            f"({low:.1%} to {high:.1%})"
        )
        if x > 0:  # of no answers, nothing is wrong and nothing is known
            dots.append(straight((x, low), (x, high), f"whisker {name}"))
        dots.append(dot((x, risk), f"operating {name}", words, radius=7))
    return plot(
        shares("share of cases answered, the most confident first"),
        shares(high=parts * step, parts=parts),
        [*lines, *dots],
        "Wrong answers against the share answered",
    )


def reliability(bins: Sequence[Mapping[str, float]]) -> Markup:
    """Share of right predictions against the confidence claimed, with 90 % intervals."""
    most = max(b["cases"] for b in bins)
    marks: list[Any] = [polyline([0, 1], [0, 1], "ideal")]
    for b in bins:
        x = b["confidence"]
        words = (
            f"{b['cases']:.0f} cases: claimed {x:.2f}, right {b['accuracy']:.2f} "
            f"({b['accuracy_low']:.2f} to {b['accuracy_high']:.2f})"
        )
        marks.append(straight((x, b["accuracy_low"]), (x, b["accuracy_high"]), "whisker"))
        radius = 3 + 7 * (b["cases"] / most) ** 0.5
        marks.append(dot((x, b["accuracy"]), "dot", words, radius))
    label = "Confidence claimed and share right, of diagnosed cases"
    return plot(shares("confidence claimed"), shares(), marks, label)


def by_week(weeks: Sequence[Week]) -> Markup | None:
    """Estimated share right of each week, oldest first, with 90 % intervals; None for one week."""
    known = [week for week in reversed(weeks) if week.accuracy is not None]
    if len(known) < 2:
        return None
    places = Axis(
        -0.5,
        len(known) - 0.5,
        [(i, week.week.partition("W")[2]) for i, week in enumerate(known)],
        "week of the year",
    )
    marks: list[Any] = []
    for i, week in enumerate(known):
        value, low, high = week.accuracy or (0.0, 0.0, 0.0)
        words = f"{week.week}: {value:.0%} right, estimated ({low:.0%} to {high:.0%}), {week.state}"
        marks.append(straight((i, low), (i, high), f"whisker {week.state}"))
        marks.append(dot((i, value), f"dot {week.state}", words, 5))
    return plot(places, shares(), marks, "Most probable diagnosis right, estimated week by week")


def as_diagnoses_came(study: Study) -> dict[str, Markup]:
    """Shares after more and more diagnoses: estimated on all lesions, and measured alone."""
    before = (0, study.everything.estimated.shares, None)
    steps = [before, *((s.labels, s.estimated.shares, s.measured) for s in study.steps)]
    places = Axis(
        -0.5,
        len(steps) - 0.5,
        [(i, str(n) if n else "none") for i, (n, _, _) in enumerate(steps)],
        "diagnosed lesions",
    )
    return {
        name: plot(places, shares(), _came(steps, name), label)
        for name, label in (
            ("sensitivity", "Melanomas referred or named, as diagnoses came in"),
            ("accuracy", "Most probable diagnosis right, as diagnoses came in"),
        )
    }


def _came(steps: Sequence[tuple[int, Any, Any]], name: str) -> list[Any]:
    marks: list[Any] = []
    for i, (n, *sides) in enumerate(steps):
        for look, place, side in zip(("estimated", "measured"), (-0.12, 0.12), sides, strict=True):
            found = getattr(side, name) if side is not None else None
            if found is None:
                continue
            value, low, high = found
            words = f"{n} diagnoses, {look}: {value:.0%} ({low:.0%} to {high:.0%})"
            marks.append(straight((i + place, low), (i + place, high), f"whisker {look}"))
            marks.append(dot((i + place, value), f"dot {look}", words, 5))
    return marks
