"""What the page of a calibration draws: histograms, and wrong answers against coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from temperance.calibrate.result import Calibration
from temperance.report.plot import Band, Curve, plot, shares
from temperance.report.texts import applied_name, between, percent

if TYPE_CHECKING:
    from markupsafe import Markup


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


class RiskChart(NamedTuple):
    """Estimated wrong answers against the share of rows answered."""

    plot: Markup
    lines: dict[str, str]
    rows: list[tuple[str, str, str]]
    decision: str


LINES = {"before": "the model's own confidence", "after": "calibrated"}
RISK = (
    "Estimated share of wrong answers among the rows that are answered, against their share, with "
    "a 90% band; the table below has the numbers"
)
TOPS = (0.01, 0.02, 0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1.0)
LISTED = (0.1, 0.2, 0.5, 0.8, 1.0)  # shares of rows answered that the table lists


def histograms(calibration: Calibration) -> list[Histogram]:
    """Return confidence on the source, on the target, and on the target as calibrated."""
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
    if facts["method"] != "identity":
        known = calibration.accuracy
        after = None if known is None else list(known)
        pairs.append((f"Target, {applied_name(calibration)}", "target_after", after))
    for name, key, accuracy in pairs:
        mean = facts["confidence_" + key.removeprefix("target_")]
        found.append(_histogram(name, key, counts, mean, accuracy))
    return found


def _histogram(
    name: str, key: str, counts: dict[str, Any], mean: float, accuracy: Sequence[float] | None
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
    words = f"{percent(mean)} sure, {right}"
    look = key.removeprefix("target_")
    return Histogram(name, look, bars, percent(top / total), mean, accuracy, words)


def risk_chart(facts: dict[str, Any], max_error: float) -> RiskChart | None:
    """Return the estimated risk against coverage, before and after, with the band of the latter.

    ``max_error`` is the share of wrong answers that the decision may lead to.
    """
    curves = facts["risk_coverage"]
    if not curves:
        return None
    coverage, after = curves["coverage"], curves["risk_after"]
    low, high = curves["risk_after_low"], curves["risk_after_high"]
    highest = max(*curves["risk_before"], *high)
    top = next((t for t in TOPS if t >= highest - 1e-9), 1.0)
    marks = [
        Band(coverage, low, high, "risk-band"),
        *(Curve(coverage, curves[f"risk_{look}"], f"curve s-{look}") for look in LINES),
    ]
    answered = shares("share of the rows answered, the surest first")
    places = [min(range(len(coverage)), key=lambda i: abs(coverage[i] - c)) for c in LISTED]
    rows = [
        (
            percent(coverage[i]),
            percent(curves["risk_before"][i]),
            between((after[i], low[i], high[i])),
        )
        for i in places
    ]
    kept = [i for i, end in enumerate(high) if end <= max_error]
    decision = "answer no row by the model alone"
    if kept:
        i = kept[-1]
        whole = coverage[i] > 0.999
        decision = (
            f"answer {'all rows' if whole else f'the surest {percent(coverage[i])} of the rows'}: "
            f"{between((after[i], low[i], high[i]))} of these answers are estimated to be wrong"
        )
    drawn = plot(answered, shares(high=top), marks, RISK)
    words = f"To have at most {100 * max_error:g}% wrong answers, {decision}."
    return RiskChart(drawn, LINES, rows, words)
