"""From the facts of a calibration to what the templates write down and draw."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from temperance.calibrate.result import Audit, Calibration
from temperance.report import texts
from temperance.report.plot import plot, polyline, shaded, shares, x_axis

if TYPE_CHECKING:
    from markupsafe import Markup

CLASSES_LISTED = 20  # classes in the table of the class mix
MAX_NAME_LENGTH = 48  # characters of a class name
ROWS_LISTED = 80  # rows to label that are listed
MAX_FACTS_LENGTH = 500_000  # characters of the facts inside the page
ENTRIES_KEPT = 1_000  # entries that are kept of a list when the facts are longer
MAX_ERROR = 0.05  # share of wrong answers that the decision allows, unless another is given
SEVERITY_WORDS = {"refuse": "stops the calibration", "warn": "warning", "note": "note"}
PRIOR_KINDS = {
    "given": "given by the user",
    "about": "given by the user as approximate",
    "range": "given by the user as ranges",
    "unknown": "not known",
}
METHODS = {
    "matched": "fitted to all that is known",
    "labelled": "fitted to all that is known, labelled rows included",
    "source temperature": "that of the labelled source",
    "identity": "the model's own probabilities are kept",
}

LINES = {"before": "the model's own confidence", "after": "calibrated"}
RISK = (
    "Estimated share of wrong answers among the rows that are answered, against their share, with "
    "a 90% band; the table below has the numbers"
)
TOPS = (0.01, 0.02, 0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1.0)
LISTED = (0.1, 0.2, 0.5, 0.8, 1.0)  # shares of rows answered that the table lists


def page_facts(
    calibration: Calibration,
    audit: Audit | None,
    title: str | None = None,
    model: str | None = None,
    date: str | None = None,
    max_error: float = MAX_ERROR,
) -> dict[str, Any]:
    """Return everything that the page says; the templates put it into words of their own."""
    facts = calibration.details
    labels = None if audit is None else audit.to_dict()
    return {
        "title": title or "Calibration report",
        "model": model,
        "date": date or dt.datetime.now().astimezone().date().isoformat(),
        "cal": calibration,
        "facts": facts,
        "audit": labels,
        "texts": texts,
        "applied": facts["method"] != "identity",
        "colour": _colour(calibration, labels),
        "confidence_axis": x_axis(shares("confidence of a row")),
        "right_axis": x_axis(shares("share of rows predicted right")),
        "histograms": histograms(calibration),
        "risk": risk_chart(facts, max_error),
        "mix": _class_mix(facts),
        "label_next": (facts["label_next"] if audit is None else audit.label_next)[:ROWS_LISTED],
        "severities": SEVERITY_WORDS,
        "prior_kinds": PRIOR_KINDS,
        "method": METHODS[facts["method"]],
        "facts_json": _facts_json(calibration, audit),
    }


def _colour(calibration: Calibration, labels: dict[str, Any] | None) -> str:
    """Return the verdict in whose colour the page begins: never green against labels."""
    if labels is not None and texts.contradicted(labels):
        return "refused"
    if labels is None:
        doubtful = texts.unsure(calibration)
    else:
        doubtful = not texts.confirmed(labels) or texts.not_right_yet(labels)
    if doubtful and calibration.verdict == "improved":
        return "no-evidence"
    if labels is None and texts.about_right(calibration):
        return "improved"
    return calibration.verdict


def _class_mix(facts: dict[str, Any]) -> dict[str, Any]:
    predicted, after = facts["predicted_mix"], facts["mix_after"]
    known = facts["prior"] is not None
    prior = facts["prior"] if known else facts["mix_after"]  # without one, by what is drawn
    apart = sorted(range(len(prior)), key=lambda k: -abs(predicted[k] - prior[k]))
    shown = sorted(apart[:CLASSES_LISTED])
    rest = apart[CLASSES_LISTED:]
    top = max([*(prior[k] for k in shown), *(predicted[k] for k in shown), 1e-9])
    mixes = {"prior": prior, "predicted": predicted, "after": after}
    rows = [
        {"name": facts["classes"][k]} | {name: mix[k] for name, mix in mixes.items()} for k in shown
    ]
    others = None
    if rest:
        others = {name: sum(mix[k] for k in rest) for name, mix in mixes.items()} | {"n": len(rest)}
    return {"rows": rows, "others": others, "top": top, "known": known}


def _facts_json(calibration: Calibration, audit: Audit | None) -> str:
    """Return the facts as JSON that no text inside can end, safe to stand in a script element."""
    import markupsafe

    facts = calibration.to_dict() | ({} if audit is None else {"audit": audit.to_dict()})
    text = json.dumps(facts, ensure_ascii=False, allow_nan=False)
    if len(text) > MAX_FACTS_LENGTH:
        text = json.dumps(_shortened(facts), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return markupsafe.Markup(text)  # noqa: S704 - escaped just above


def _shortened(value: Any) -> Any:
    """Return facts over very many classes with their lists and names cut, and marked so."""
    if isinstance(value, dict):
        return {str(k): _shortened(v) for k, v in value.items()}
    if isinstance(value, list) and len(value) > ENTRIES_KEPT:
        return {"length": len(value), "first": [_shortened(v) for v in value[:ENTRIES_KEPT]]}
    if isinstance(value, list):
        return [_shortened(v) for v in value]
    return texts.cut(value, MAX_NAME_LENGTH) if isinstance(value, str) else value


class Histogram(NamedTuple):
    """Counts of rows by confidence, with the mean confidence and the accuracy."""

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
        parts["after"] = (texts.applied_name(calibration), calibration.accuracy)
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
        shaded(coverage, low, high, "risk-band"),
        *(polyline(coverage, curves[f"risk_{look}"], f"curve s-{look}") for look in LINES),
    ]
    answered = shares("share of the rows answered, the surest first")
    places = [min(range(len(coverage)), key=lambda i: abs(coverage[i] - c)) for c in LISTED]
    share, before = ([texts.percent(v) for v in c] for c in (coverage, curves["risk_before"]))
    wrong = [texts.between(interval) for interval in zip(after, low, high, strict=True)]
    rows = [(share[i], before[i], wrong[i]) for i in places]
    kept = [i for i, end in enumerate(high) if end <= max_error]
    decision = "answer no row by the model alone"
    if kept:
        i = kept[-1]
        which = "all rows" if coverage[i] > 0.999 else f"the surest {share[i]} of the rows"
        decision = f"answer {which}: {wrong[i]} of these answers are estimated to be wrong"
    drawn = plot(answered, shares(high=top), marks, RISK)
    words = f"To have at most {100 * max_error:g}% wrong answers, {decision}."
    return RiskChart(drawn, LINES, rows, words)
