"""Shapes for the page: bars, bands and lines in per cent, without any text of their own.

The page writes the words around them, so that they keep their size on a phone, and stretches the
shapes to its width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from temperance.report.texts import between, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance.calibrate.result import Calibration


class Bar(NamedTuple):
    """A bar of a histogram: left edge, width and height in per cent."""

    x: float
    width: float
    height: float


class Histogram(NamedTuple):
    """How sure the model is, row by row, with its mean and how often it is right."""

    name: str
    look: str
    bars: list[Bar]
    tallest: str
    confidence: float
    accuracy: Sequence[float] | None
    words: str


class Line(NamedTuple):
    """A curve as the points of an SVG polyline, in per cent of both axes."""

    name: str
    look: str
    points: str


def histograms(calibration: Calibration) -> list[Histogram]:
    """Return confidence on the source, on the target, and on the target after the map."""
    facts = calibration.details
    counts, source = facts["histograms"], facts.get("source")
    found: list[Histogram] = []
    if source and counts.get("source"):
        measured = [source["accuracy"]] * 3
        found.append(
            _histogram("Labelled source", "source", counts, source["confidence"], measured)
        )
        words = (
            f"{percent(source['confidence'])} sure, right {percent(source['accuracy'])} (measured)"
        )
        found[0] = found[0]._replace(words=words)
    pairs = [("Target, the model's own confidence", "target_before", facts["accuracy_before"])]
    if calibration.accuracy is not None:
        after = list(calibration.accuracy)
        pairs.append(("Target, calibrated confidence", "target_after", after))
    for name, key, accuracy in pairs:
        sure = facts["confidence_" + key.removeprefix("target_")]
        found.append(_histogram(name, key, counts, sure, accuracy))
    return found


def _histogram(
    name: str, key: str, counts: dict[str, Any], sure: float, accuracy: Sequence[float] | None
) -> Histogram:
    edges, heights = counts["edges"], counts[key]
    total, top = max(sum(heights), 1), max(*heights, 1)
    bars = [
        Bar(100 * left, 100 * (right - left), 100 * height / top)
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True)
        if height
    ]
    right = (
        f"right {between(accuracy)} (estimated)"
        if accuracy is not None
        else "how often right: not known"
    )
    words = f"{percent(sure)} sure, {right}"
    look = key.removeprefix("target_")
    return Histogram(name, look, bars, percent(top / total), sure, accuracy, words)


def risk_lines(facts: dict[str, Any]) -> tuple[list[Line], float] | None:
    """Return expected risk against coverage, before and after, and the top of the risk axis."""
    curves = facts.get("risk_coverage")
    if not curves:
        return None
    top = max(*curves["risk_before"], *curves["risk_after"], 0.01)
    top = next(t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0) if t >= top - 1e-9)
    lines = [
        Line(name, look, _points(curves["coverage"], curves[f"risk_{look}"], top))
        for name, look in (("the model's own", "before"), ("calibrated", "after"))
    ]
    return lines, top


def _points(x: Sequence[float], y: Sequence[float], top: float) -> str:
    pairs = zip(x, y, strict=True)
    return " ".join(f"{100 * a:.1f},{100 * (1 - min(b / top, 1)):.2f}" for a, b in pairs)
