"""From the facts of a calibration to what the templates write down."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from temperance.calibrate.result import Audit, Calibration
from temperance.report.charts import histograms, risk_chart
from temperance.report.plot import shares, x_axis
from temperance.report.texts import (
    applied_name,
    between,
    confirmed,
    contradicted,
    cut,
    estimate_rows,
    evidence_text,
    headline,
    how_known,
    meaning,
    measured,
    percent,
    sampling,
    subject,
    to_do,
    unsure,
)

SHOWN = 20  # classes in the table of the class mix
MAX_NAME_LENGTH = 48  # characters of a class name
NAMED, BRIEF = 10, 24  # classes that the first line names, and characters of each
ROWS = 80  # rows to label that are listed
SENTENCE = 600  # characters of a sentence that may hold a class name
MAX_FACTS_LENGTH = 500_000  # characters of the facts inside the page
FIRST = 1_000  # entries that are kept of a list when the facts are longer
MAX_ERROR = 0.05  # share of wrong answers that the decision allows, unless another is given
SEVERITY = {"refuse": "stops the calibration", "warn": "warning", "note": "note"}


def page_facts(
    calibration: Calibration,
    audit: Audit | None,
    title: str | None = None,
    model: str | None = None,
    date: str | None = None,
    max_error: float = MAX_ERROR,
) -> dict[str, Any]:
    """Return everything that the page says."""
    facts = calibration.details
    labels = None if audit is None else audit.to_dict()
    return {
        "title": cut(title or "Calibration report", SENTENCE),
        "model": None if model is None else cut(model, SENTENCE),
        "date": cut(date or dt.datetime.now().astimezone().date().isoformat(), MAX_NAME_LENGTH),
        "verdict": calibration.verdict,
        "applied": facts["method"] != "identity",
        "applied_name": applied_name(calibration),
        "colour": _colour(calibration, labels),
        "subject": subject(calibration),
        "n_classes": len(facts["classes"]),
        "names": [cut(name, BRIEF) for name in facts["classes"][:NAMED]],
        "headline": headline(calibration, labels),
        "to_do": None if labels is not None else to_do(calibration),
        "how_known": how_known(calibration),
        "sampling": sampling(calibration),
        "confidence_axis": x_axis(shares("confidence of a row")),
        "right_axis": x_axis(shares("share of rows predicted right")),
        "meaning": cut(meaning(calibration, labels), SENTENCE),
        "tiles": _tiles(calibration),
        "estimates": estimate_rows(calibration),
        "histograms": histograms(calibration),
        "risk": risk_chart(facts, max_error),
        "findings": [_finding(finding.to_dict()) for finding in calibration.findings],
        "mix": _class_mix(facts),
        "accuracy_estimates": _accuracy_estimates(calibration),
        "assumptions": [cut(text, SENTENCE) for text in facts["assumptions"]],
        "would_change": [cut(text, SENTENCE) for text in facts["would_change"]],
        "label_next": (facts["label_next"] if audit is None else audit.label_next)[:ROWS],
        "audit": None if labels is None else _audit(calibration, labels),
        "labelled": _labelled(facts),
        "n_labelled": facts["n_labelled"],
        "card": _card(calibration),
        "facts_json": _facts_json(calibration, audit),
    }


def _colour(calibration: Calibration, labels: dict[str, Any] | None) -> str:
    """Return the verdict in whose colour the page begins: never green against labels."""
    if labels is not None and contradicted(labels):
        return "refused"
    doubtful = unsure(calibration) if labels is None else not confirmed(labels)
    if doubtful and calibration.verdict == "improved":
        return "no-evidence"
    return calibration.verdict


def _tiles(calibration: Calibration) -> list[dict[str, str]]:
    facts = calibration.details
    before, after = percent(facts["confidence_before"]), percent(facts["confidence_after"])
    accuracy = between(calibration.accuracy).partition(" (")
    errors = calibration.ece_before, calibration.ece_after
    error = [percent(e.value) for e in errors if e is not None]
    return [
        {
            "name": "Mean confidence",
            "value": _change(before, after),
            "note": "how sure the model says it is",
        },
        {
            "name": "Estimated accuracy",
            "value": accuracy[0],
            "note": f"of the calibrated predictions; 90% interval {accuracy[2].rstrip(')')}"
            if accuracy[2]
            else "no estimate could be made",
        },
        {
            "name": "Calibration error",
            "value": _change(*error) if error else "not known",
            "note": "estimated gap to the accuracy; lower is better",
        },
        {
            "name": "Temperature",
            "value": f"{calibration.temperature.value:.2f}",
            "note": _temperature_note(calibration.temperature.value),
        },
    ]


def _temperature_note(t: float) -> str:
    if t == 1:
        return "1: the confidence is left as it is"
    return "below 1: the model was not sure enough" if t < 1 else "above 1: the model was too sure"


def _change(before: str, after: str) -> str:
    return f"{before} → {after}" if before != after else before


def _finding(finding: dict[str, Any]) -> dict[str, str]:
    return {
        "code": finding["code"],
        "severity": finding["severity"],
        "kind": SEVERITY[finding["severity"]],
        "title": cut(finding["title"], SENTENCE),
        "evidence": evidence_text(finding["evidence"]),
        "advice": cut(finding["advice"], SENTENCE),
    }


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
            "name": cut(facts["classes"][k], MAX_NAME_LENGTH),
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


def _accuracy_estimates(calibration: Calibration) -> list[dict[str, Any]]:
    """Return the estimates of the accuracy of the model's predictions, and their combination."""
    facts = calibration.details
    found = [
        {
            "what": cut(e["what"][:1].upper() + e["what"][1:], SENTENCE),
            "interval": [e["value"]] * 3,
            "text": percent(e["value"]),
        }
        for e in facts["estimates"]
    ]
    together = facts["accuracy_before"]
    if together is not None:
        labels = " and the labels" if facts["n_labelled"] else ""
        what = f"All of it{labels} together, with a 90% interval"
        found.append({"what": what, "interval": together, "text": between(together)})
    return found


def _labelled(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was estimated without labels, what labels measure, and what both say."""
    labelled = facts["labelled"]
    if labelled is None:
        return []
    n = facts["n_labelled"]
    found = (
        ("Estimated before there were labels", labelled["expected"]),
        (f"Measured on {n:,} labelled row{'' if n == 1 else 's'}", labelled["accuracy"]),
        ("Estimated now, from all that is known", facts["accuracy_before"]),
    )
    return [
        {"what": what, "interval": interval, "text": between(interval)}
        for what, interval in found
        if interval is not None
    ]


def _audit(calibration: Calibration, audit: dict[str, Any]) -> dict[str, Any]:
    rows = [
        (
            "accuracy, calibrated predictions",
            between(calibration.accuracy),
            between(audit["accuracy"]),
        ),
        (
            "calibration error, model's own",
            between(calibration.ece_before),
            between(audit["ece_before"]),
        ),
        (
            "calibration error, calibrated",
            between(calibration.ece_after),
            between(audit["ece_after"]),
        ),
        ("NLL, model's own", "–", _interval(audit["nll_before"])),
        ("NLL, calibrated", "–", _interval(audit["nll_after"])),
    ]
    return {
        "n": audit["n"],
        "words": measured(audit),
        "rows": rows,
        "spans": [
            {"what": what, "interval": list(interval), "text": between(interval)}
            for what, interval in (
                ("Estimated without labels", calibration.accuracy),
                ("Measured with labels", audit["accuracy"]),
            )
            if interval is not None
        ],
    }


def _interval(values: list[float]) -> str:
    return "{:.3f} ({:.3f} to {:.3f})".format(*values)


def _card(calibration: Calibration) -> list[tuple[str, str]]:
    """Return the section of a model card that this calibration fills, as (name, text)."""
    facts = calibration.details
    sources = f"{facts['n_source']:,} labelled rows" if facts["n_source"] else "none"
    map_facts = calibration.to_dict()["map"]
    bias = ", and one offset per class" if "bias" in map_facts else ""
    hashes = facts["fitted_on"]
    use = (
        f"Confidence of this classifier on rows like the {facts['n_target']:,} it was calibrated "
        f"for, with their class mix. It supports a human decision; it does not make one."
    )
    if calibration.verdict == "refused":
        use = "None: the calibration was refused."
    not_for = (
        "Another model, other classes or another order of classes, rows of unknown classes, "
        "another site or another class mix: calibrate again there."
    )
    return [
        ("Intended use", use),
        ("Not for", not_for),
        ("Method", f"{facts['method']}: temperature {calibration.temperature.value:.4g}{bias}"),
        ("Guarantee", cut(facts["guarantee"], SENTENCE)),
        ("Target rows", f"{facts['n_target']:,} without labels. {sampling(calibration)}"),
        ("Labelled target rows", f"{facts['n_labelled']:,}" if facts["n_labelled"] else "none"),
        ("Source rows", sources),
        ("Classes", f"{facts['n_classes']:,}"),
        ("Class mix", PRIOR_KINDS[facts["prior_kind"]]),
        ("sha256 of the target", hashes["target"]),
        ("sha256 of the source", hashes["source"] or "none"),
        ("Seed", "of a generator" if facts["seed"] is None else str(facts["seed"])),
        ("Versions", ", ".join(f"{k} {v}" for k, v in facts["versions"].items())),
    ]


PRIOR_KINDS = {
    "given": "given by the user",
    "about": "given by the user as approximate",
    "range": "given by the user as ranges",
    "unknown": "not known",
}


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
    return cut(value, MAX_NAME_LENGTH) if isinstance(value, str) else value
