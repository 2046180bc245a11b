"""What the page of a calibration draws: histograms, and wrong answers against coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from temperance.calibrate.result import Calibration
from temperance.report.plot import Band, Curve, plot, shares
from temperance.report.texts import applied_name, between, percent

if TYPE_CHECKING:
    from markupsafe import Markup


class Histogram(NamedTuple):
    """How sure the model is, row by row, with its mean and how often it is right."""

    name: str
    look: str
    counts: list[int]
    confidence: float
    accuracy: Sequence[float] | None
    measured: bool = False


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
        right, sure = [source["accuracy"]] * 3, source["confidence"]
        found.append(Histogram("Labelled source", "source", counts["source"], sure, right, True))
    parts = {"before": ("the model's own confidence", facts["accuracy_before"])}
    if facts["method"] != "identity":
        parts["after"] = (applied_name(calibration), calibration.accuracy)
    for look, (name, accuracy) in parts.items():
        sure = facts[f"confidence_{look}"]
        found.append(Histogram(f"Target, {name}", look, counts[f"target_{look}"], sure, accuracy))
    return found


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
