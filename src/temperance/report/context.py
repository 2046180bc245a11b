"""From the facts of a calibration to what the templates write down."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from temperance.calibrate.result import Audit, Calibration
from temperance.report import texts
from temperance.report.charts import histograms, risk_chart
from temperance.report.plot import shares, x_axis

SHOWN = 20  # classes in the table of the class mix
MAX_NAME_LENGTH = 48  # characters of a class name
ROWS = 80  # rows to label that are listed
MAX_FACTS_LENGTH = 500_000  # characters of the facts inside the page
FIRST = 1_000  # entries that are kept of a list when the facts are longer
MAX_ERROR = 0.05  # share of wrong answers that the decision allows, unless another is given
SEVERITIES = {"refuse": "stops the calibration", "warn": "warning", "note": "note"}
PRIOR_KINDS = {
    "given": "given by the user",
    "about": "given by the user as approximate",
    "range": "given by the user as ranges",
    "unknown": "not known",
}


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
        "label_next": (facts["label_next"] if audit is None else audit.label_next)[:ROWS],
        "severities": SEVERITIES,
        "prior_kinds": PRIOR_KINDS,
        "facts_json": _facts_json(calibration, audit),
    }


def _colour(calibration: Calibration, labels: dict[str, Any] | None) -> str:
    """Return the verdict in whose colour the page begins: never green against labels."""
    if labels is not None and texts.contradicted(labels):
        return "refused"
    doubtful = texts.unsure(calibration) if labels is None else not texts.confirmed(labels)
    if doubtful and calibration.verdict == "improved":
        return "no-evidence"
    return calibration.verdict


def _class_mix(facts: dict[str, Any]) -> dict[str, Any]:
    predicted, after = facts["predicted_mix"], facts["mix_after"]
    known = facts["prior"] is not None
    prior = facts["prior"] if known else facts["mix_after"]  # without one, by what is drawn
    apart = sorted(range(len(prior)), key=lambda k: -abs(predicted[k] - prior[k]))
    shown = sorted(apart[:SHOWN])
    rest = apart[SHOWN:]
    top = max([*(prior[k] for k in shown), *(predicted[k] for k in shown), 1e-9])
    rows = [
        {
            "name": facts["classes"][k],
            "prior": prior[k],
            "predicted": predicted[k],
            "after": after[k],
        }
        for k in shown
    ]
    others = None
    if rest:
        sums = [sum(values[k] for k in rest) for values in (prior, predicted, after)]
        others = dict(zip(("prior", "predicted", "after"), sums, strict=True)) | {"n": len(rest)}
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
    if isinstance(value, list) and len(value) > FIRST:
        return {"length": len(value), "first": [_shortened(v) for v in value[:FIRST]]}
    if isinstance(value, list):
        return [_shortened(v) for v in value]
    return texts.cut(value, MAX_NAME_LENGTH) if isinstance(value, str) else value
