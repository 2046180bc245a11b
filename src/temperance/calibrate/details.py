"""What a `Calibration` says of its making: sizes, assumptions, class mixes, bins, risk."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._version import __version__
from temperance.calibrate.constants import POLICY
from temperance.calibrate.problem import Logits
from temperance.calibrate.result import row_keys, wilson
from temperance.calibrate.verdict import COVERAGE, EDGES, N_BINS, bin_of
from temperance.data.given import fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.calibrate.problem import Problem
    from temperance.calibrate.solve import BiasAt
    from temperance.calibrate.source import Source
    from temperance.calibrate.uncertainty import Plausible
    from temperance.calibrate.verdict import Judgement

    Matrix = NDArray[np.float64]

GOLDEN = (5**0.5 - 1) / 2
MOST_CLASSES = 2_000  # beyond which plausible maps are not stored
WHAT = {
    "calibrated": "the model's own probabilities, at the source's temperature and the class mix",
    "rescaled": "the same, with logits as large as on the source",
    "similar": "rows that look like rows the model gets right on the source",
    "near": "rows that are near source rows in the layer before the logits",
    "shifted": "similarity, rescaled probabilities and class mix, the median of the three",
    "transported": "rows assigned to classes as often as these occur",
}
KNOWN = {
    "given": "The class mix of the target is the one given.",
    "about": "The class mix of the target is about the one given.",
    "range": "The class mix of the target lies in the ranges given.",
}


def describe(
    problem: Problem,
    source: Source | None,
    used: BiasAt,
    method: str,
    plausible: Plausible | None,
    judgement: Judgement | None,
    before_labels: Judgement | None,
) -> dict[str, Any]:
    """Return all details of a calibration."""
    prior, sample = problem.prior, problem.sample
    own, mapped = sample.probabilities(1.0), sample.probabilities(*used)
    unlabelled = _unlabelled(problem)
    confidence = problem.target.probabilities(*used).max(axis=1)
    chosen = unlabelled[spread_rows(confidence[unlabelled])]
    return {
        "n_target": problem.n,
        "n_read": len(problem.target),
        "n_solved": len(sample),
        "n_source": 0 if problem.source is None else len(problem.source.labels),
        "n_labelled": 0 if problem.labelled is None else len(problem.labelled.labels),
        "n_classes": len(problem.names),
        "classes": problem.names,
        "prior": None if prior is None else problem.widen(prior.value, 0.0).tolist(),
        "prior_kind": "unknown" if prior is None else prior.kind,
        "prior_low": _ends(problem, "low"),
        "prior_high": _ends(problem, "high"),
        "mix": _mix(plausible),
        "accuracy_before": None if judgement is None else list(judgement.accuracy_before),
        "probability_of_gain": None if judgement is None else judgement.probability,
        "estimates": _estimates(plausible),
        "plausible": _plausible(problem, plausible),
        "assumptions": _assumptions(problem),
        "would_change": _would_change(problem),
        "guarantee": "None: every number about the target is an estimate under the assumptions.",
        "fitted_on": {
            "target": fingerprint(problem.raw),
            "source": None if problem.source is None else fingerprint(*problem.source),
        },
        "versions": {
            "temperance": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "predicted_mix": problem.widen(problem.predicted_mix, 0.0).tolist(),
        "mix_before": problem.widen(own.mean(axis=0), 0.0).tolist(),
        "mix_after": problem.widen(mapped.mean(axis=0), 0.0).tolist(),
        "confidence_before": float(own.max(axis=1).mean()),
        "confidence_after": float(mapped.max(axis=1).mean()),
        "histograms": {
            "edges": EDGES.tolist(),
            "target_before": _histogram(own),
            "target_after": _histogram(mapped),
            **_source_bins(source),
        },
        "source": _source_facts(source),
        "labelled": _labelled_facts(problem, before_labels),
        "risk_coverage": _risks(judgement),
        "method": method,
        "label_next": problem.numbers[chosen].tolist(),
        "label_next_keys": row_keys(problem.raw[chosen]),
        "seed": problem.seed,
    }


def _unlabelled(problem: Problem) -> NDArray[np.intp]:
    """Return the places of the target rows that have no label yet."""
    if problem.labelled is None:
        return np.arange(len(problem.raw))
    labelled = set(row_keys(problem.labelled.logits))
    keys = row_keys(problem.raw[:, problem.active])
    return np.array([i for i, key in enumerate(keys) if key not in labelled], dtype=np.intp)


def spread_rows(confidence: Matrix) -> NDArray[np.intp]:
    """Return row numbers spread evenly over the confidence, however many of them are taken.

    Steps of the golden ratio through the rows in order of confidence: every start of the list is
    spread evenly.
    """
    n = len(confidence)
    order = np.argsort(confidence, kind="stable")
    if n == 0:
        return order
    steps = (0.5 + GOLDEN * np.arange(4 * POLICY.to_label)) % 1.0
    _, first = np.unique(place := (steps * n).astype(np.intp), return_index=True)
    return order[place[np.sort(first)]][: POLICY.to_label]


def _ends(problem: Problem, end: str) -> list[float] | None:
    prior = problem.prior
    if prior is None or prior.exact:
        return None
    return problem.widen(getattr(prior, end), 0.0).tolist()


def _mix(plausible: Plausible | None) -> dict[str, float] | None:
    mix = None if plausible is None else plausible.mix
    if mix is None:
        return None
    return {
        "distance": mix.distance,
        "shrinkage": mix.shrinkage,
        "confidence_rise": mix.confidence_rise,
        "probability": mix.probability,
    }


def _estimates(plausible: Plausible | None) -> list[dict[str, Any]]:
    if plausible is None or not plausible.estimates:
        return []
    first = plausible.estimates[0]
    return [{"name": n, "value": v, "what": WHAT[n]} for n, v in first.values.items()]


def _plausible(problem: Problem, plausible: Plausible | None) -> dict[str, Any] | None:
    if plausible is None or len(problem.names) > MOST_CLASSES:
        return None
    return {
        "weights": plausible.weights.tolist(),
        "temperatures": plausible.temperatures.tolist(),
        "biases": [problem.widen(b, 0.0).tolist() for b in plausible.biases],
    }


def _assumptions(problem: Problem) -> list[str]:
    first = (
        "Nothing is assumed of the class mix."
        if problem.prior is None
        else KNOWN[problem.prior.kind]
    )
    rest = ["The target has the classes of the model and no others."]
    if problem.source is not None:
        rest.append("The source rows were not used to train the model.")
        rest.append("One of the estimates of the accuracy is near the truth.")
    else:
        rest.append("The model's logits are wrong by one factor and a class bias.")
    if problem.labelled is not None:
        rest.append("The labelled rows are random rows of the target, or those of label_next.")
    return [first, *rest]


def _would_change(problem: Problem) -> list[str]:
    wishes = ["Labels of a few target rows, from the list of rows to label first."]
    if problem.source is None:
        wishes.append("A labelled source: rows from before the shift with labels.")
    if problem.prior is None or problem.prior.kind != "given":
        wishes.append("A class mix that is known exactly.")
    if problem.n < 2_000:
        wishes.append("More target rows.")
    return wishes


def _histogram(p: Matrix) -> list[int]:
    return np.bincount(bin_of(p.max(axis=1)), minlength=N_BINS).tolist()


def _source_bins(source: Source | None) -> dict[str, Any]:
    if source is None:
        return {"source": None, "source_correct": None, "source_confidence": None}
    top = source.confidence
    place, right = bin_of(top), source.rows.predicted == source.labels
    return {
        "source": np.bincount(place, minlength=N_BINS).tolist(),
        "source_correct": np.bincount(place, right, N_BINS).tolist(),
        "source_confidence": np.bincount(place, top, N_BINS).tolist(),
    }


def _source_facts(source: Source | None) -> dict[str, Any] | None:
    """Return what the labels of the source measure of the model's own probabilities."""
    if source is None:
        return None
    z, y, n = source.rows.finite, source.labels, len(source.labels)
    surprise: Matrix = z.max(axis=1) - z[np.arange(n), y] - np.log(source.confidence)
    bins = _source_bins(source)
    right, confidence = np.array(bins["source_correct"]), np.array(bins["source_confidence"])
    return {
        "accuracy": float(right.sum()) / n,
        "nll": float(surprise.mean()),
        "ece": float(np.abs(right - confidence).sum()) / n,
        "temperature": source.temperature,
        "confidence": float(confidence.sum()) / n,
    }


def _labelled_facts(problem: Problem, before: Judgement | None) -> dict[str, Any] | None:
    """Return what the labels measure of the model's own predictions, and what was expected."""
    if problem.labelled is None:
        return None
    rows, labels = Logits.of(problem.labelled.logits), problem.labelled.labels
    return {
        "accuracy": list(wilson(float((rows.predicted == labels).mean()), len(labels))),
        "confidence": float(rows.probabilities(1.0).max(axis=1).mean()),
        "expected": None if before is None else list(before.accuracy_before),
    }


def _risks(judgement: Judgement | None) -> dict[str, Any] | None:
    """Return the expected share of wrong answers by coverage, with its band."""
    if judgement is None:
        return None
    before, after = judgement.risk_before, judgement.risk_after
    return {
        "coverage": COVERAGE.tolist(),
        "risk_before": [r.value for r in before],
        "risk_after": [r.value for r in after],
        "risk_after_low": [r.low for r in after],
        "risk_after_high": [r.high for r in after],
    }
