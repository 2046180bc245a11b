"""What a `Calibration` says of its making: sizes, assumptions, class mixes, bins, risk."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.sample import confidence, probabilities
from temperance._version import __version__
from temperance.io import artefact
from temperance.metrics import evaluate
from temperance.metrics.binned import bin_index, unit_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance._core.stats import Interval
    from temperance.calibrate.findings import Scene
    from temperance.methods.evidence import Evidence

    Matrix = NDArray[np.float64]

N_BINS = 15
COVERAGE = np.linspace(0.01, 1, 100)


def describe_sizes(
    scene: Scene, accuracy: Interval | None, evidence: Evidence | None
) -> dict[str, Any]:
    """Return what was given, what was assumed and what was estimated."""
    prior, profile = scene.prior, scene.profile
    return {
        "n_target": scene.n,
        "n_source": 0 if profile is None else profile.n,
        "n_classes": len(prior.value),
        "classes": scene.names,
        "prior": prior.value.tolist(),
        "prior_kind": prior.kind,
        "prior_low": None if prior.exact else prior.low.tolist(),
        "prior_high": None if prior.exact else prior.high.tolist(),
        "accuracy_before": [0.5, 0.0, 1.0] if accuracy is None else list(accuracy),
        "estimates": [] if evidence is None else _estimates(evidence),
        "assumptions": _assumptions(scene),
        "would_change": _would_change(scene),
        "guarantee": "None: without labels every number here is an estimate under the assumptions.",
        "fitted_on": {
            "target": artefact.fingerprint(scene.z),
            "source": None if scene.source is None else artefact.fingerprint(*scene.source),
        },
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    return {"temperance": __version__, "numpy": np.__version__, "python": platform.python_version()}


def _estimates(evidence: Evidence) -> list[dict[str, Any]]:
    seen = {
        "typical": "rows that look like rows the model gets right on the source",
        "histogram": "predicted class mix against the prior",
        "believed": "the model's own belief, at the source's scale and with the prior met",
    }
    return [
        {"name": n, "value": evidence.estimates[n], "what": what}
        for n, what in seen.items()
        if n in evidence.estimates
    ]


def _assumptions(scene: Scene) -> list[str]:
    known = {
        "given": "The class mix of the target is the one given.",
        "about": "The class mix of the target is about the one given.",
        "range": "The class mix of the target lies in the ranges given.",
        "estimated": "Only the class mix has changed, so that it could be estimated.",
    }
    rest = ["The target has the classes of the model and no others."]
    if scene.profile is not None:
        rest.append("The source rows were not used to train the model.")
        rest.append("A shift shows in at least two of: rows unlike the source, class mix, belief.")
    else:
        rest.append("The model's logits are wrong by one factor and a class bias.")
    return [known[scene.prior.kind], *rest]


def _would_change(scene: Scene) -> list[str]:
    wishes = ["Labels of a few target rows, from the list of rows to label first."]
    if scene.profile is None:
        wishes.append("A labelled source: rows from before the shift with labels.")
    if scene.prior.kind != "given":
        wishes.append("A class mix that is known and not estimated.")
    if scene.n < 2_000:
        wishes.append("More target rows.")
    return wishes


def describe_confidence(
    scene: Scene, own: Matrix, p: Matrix, imagined: list[Matrix] | None
) -> dict[str, Any]:
    """Return class mixes, histograms of confidence, and expected risk against coverage."""
    belief = p if imagined is None else imagined[0]
    return {
        "predicted_mix": scene.mix.tolist(),
        "mix_before": own.mean(axis=0).tolist(),
        "mix_after": p.mean(axis=0).tolist(),
        "confidence_before": float(own.max(axis=1).mean()),
        "confidence_after": float(p.max(axis=1).mean()),
        "histograms": {
            "edges": unit_edges(N_BINS).tolist(),
            "target_before": _histogram(own),
            "target_after": _histogram(p),
            **_source_bins(scene),
        },
        "source": _source_facts(scene),
        "risk_coverage": {
            "coverage": COVERAGE.tolist(),
            "risk_before": _risk(own, belief),
            "risk_after": _risk(p, belief),
        },
    }


def _risk(p: Matrix, belief: Matrix) -> list[float]:
    """Expected share of wrong answers among the most confident rows, by coverage."""
    order = np.argsort(-p.max(axis=1), kind="stable")
    wrong = 1 - belief[np.arange(len(p)), p.argmax(axis=1)][order]
    answered = np.maximum(1, np.round(COVERAGE * len(p)).astype(int))
    return (np.cumsum(wrong)[answered - 1] / answered).tolist()


def _histogram(p: Matrix) -> list[int]:
    return np.bincount(bin_index(p.max(axis=1), N_BINS), minlength=N_BINS).tolist()


def _source_bins(scene: Scene) -> dict[str, Any]:
    if scene.source is None:
        return {"source": None, "source_correct": None, "source_confidence": None}
    logits, labels = scene.source
    p = probabilities(logits, 1.0)
    top, place = p.max(axis=1), bin_index(p.max(axis=1), N_BINS)
    right = (p.argmax(axis=1) == labels).astype(np.float64)
    return {
        "source": np.bincount(place, minlength=N_BINS).tolist(),
        "source_correct": np.bincount(place, right, N_BINS).tolist(),
        "source_confidence": np.bincount(place, top, N_BINS).tolist(),
    }


def _source_facts(scene: Scene) -> dict[str, Any] | None:
    if scene.source is None or scene.profile is None:
        return None
    measured = evaluate(*scene.source)
    return {
        "accuracy": measured.accuracy,
        "nll": measured.nll,
        "ece": measured.ece,
        "temperature": scene.profile.temperature,
        "confidence": confidence(scene.source[0], 1.0),
    }
