"""Silent studies at the three unseen clinics: what the assistant's report would have said.

    python lab/experiments/skin_lesion/study.py [--repeats 20]

Each acquisition site of HAM10000 is a clinic that the network has not seen (the logits are those of
``train.py``). Its lesions are judged with the assistant's rules and the temperature of the labelled
sites, one picture of each. The report estimates four shares of lesions: without any diagnosis,
without any but with the mix of diagnoses stated roughly, and with 10, 30, 100 and 300 diagnoses of
lesions drawn at random. Beside each stands what these diagnoses measure alone. All labels are known
here, so every interval can be compared with the truth. The record holds, over repeated draws, the
share of 90 % intervals that hold the truth, their mean width, and the mean distance of the estimate
from the truth.

It also holds what the rules of a new installation would do with a calibration made for the clinic:
the share of the melanomas that they answer as something else, on the labelled sites and at the
clinic, and what the agreement objects.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ham10000
import numpy as np
from run import HERE, load, write

import temperance as tp
from temperance_skin_lesion import study, thresholds
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Judged
from temperance_skin_lesion.classes import MALIGNANT, MELANOMA
from temperance_skin_lesion.decision import ORIENTATIONS, Policy, examine
from temperance_skin_lesion.store import Case

LABELS = (0, 10, 30, 100, 300)
SHARES = ("sensitivity", "malignant_referral", "accuracy", "gap")


def known_of(site: Any, prior: Any) -> study.Knowledge:
    """Return what is known before the study: the mix, if any, and the labelled sites."""
    z, labels = site.source
    said = examine(tp.fit_temperature(z, labels).predict_proba(z), Policy())
    return study.Knowledge(prior, site.source, study.home_shares(said, labels, site.source_lesions))


def lesions_of(site: Any) -> list[study.Lesion]:
    """Return the lesions of a clinic, judged, with their diagnoses."""
    _, first = np.unique(site.lesions, return_index=True)
    z, labels = site.logits[first], site.labels[first]
    p = tp.fit_temperature(*site.source).predict_proba(z)
    found = examine(p, Policy())
    lesions = []
    for i in range(len(z)):
        case = Case(
            logits=z[i].tolist(),
            probabilities=p[i].tolist(),
            predicted=int(found.predicted[i]),
            decision="answer" if found.answered[i] else "refer",
        )
        lesions.append(study.Lesion(case, [case], int(labels[i])))
    return lesions


def truth_of(lesions: list[study.Lesion]) -> dict[str, float]:
    """Return the shares that all labels give."""
    melanomas = [x for x in lesions if x.label == MELANOMA]
    malignant = [x for x in lesions if x.label in MALIGNANT]
    p = np.array([x.first.probabilities for x in lesions])
    labels = np.array([x.label for x in lesions])
    return {
        "sensitivity": float(np.mean([not x.missed for x in melanomas])),
        "malignant_referral": float(np.mean([x.referred for x in malignant])),
        "accuracy": float(np.mean(p.argmax(axis=1) == labels)),
        "gap": float(tp.metrics.ece(tp.from_probabilities(p), labels)),
    }


def calibrated(site: Any, prior: Any) -> dict[str, Any]:
    """Return what the rules of a new installation do with a calibration for the clinic."""
    cal = tp.calibrate(site.logits, prior=prior, source=site.source)

    def judged(z: Any) -> Judged:
        # These logits are of upright pictures: all orientations agree.
        return Judged(cal.map.predict_proba(z), np.full(len(z), ORIENTATIONS), np.empty(0))

    known = thresholds.measured(judged(site.source[0]), site.source[1], Policy())
    here = thresholds.measured(judged(site.logits), site.labels, Policy())
    expected = thresholds.expected(judged(site.logits), Policy())
    agreed = Agreement()
    return {
        "verdict": cal.verdict,
        "missed_before": known.missed[0],
        "missed_expected": expected.missed[0],
        "missed_here": here.missed[0],
        "objection": agreed.objection_to_map(cal.map, len(site.logits))
        or agreed.objection_to_missed(known, expected),
    }


def replay(name: str, repeats: int) -> dict[str, Any]:
    """Return how estimates and measurements of one clinic compare with the truth."""
    site = load(name, HERE / "logits")
    lesions = lesions_of(site)
    truth = truth_of(lesions)
    record: dict[str, Any] = {
        "lesions": len(lesions),
        "melanomas": sum(x.label == MELANOMA for x in lesions),
        "referral": float(np.mean([x.referred for x in lesions])),
        "truth": truth,
        "steps": [],
    }
    nothing = known_of(site, None)
    stated = known_of(site, tp.about(site.mix_here, rows=100))
    found = study.estimate(lesions, [], stated).shares
    record["mix_stated"] = compared([found], truth)
    record["calibrated"] = {
        "roughly": calibrated(site, tp.about(site.mix_here, rows=100)),
        "counted": calibrated(site, site.mix_here),
        "not known": calibrated(site, None),
    }
    for n in LABELS:
        kept: dict[str, list[Any]] = {"estimated": [], "measured": []}
        for seed in range(repeats if n else 1):
            order = np.random.default_rng(seed).permutation(len(lesions))[:n]
            some = [lesions[i] for i in order]
            kept["estimated"].append(study.estimate(lesions, some, nothing).shares)
            kept["measured"].append(study.measured_shares(some))
        sides = {
            side: compared(found, truth) for side, found in kept.items() if n or side[0] == "e"
        }
        record["steps"].append({"labels": n, **sides})
    return record


def compared(found: list[study.Shares], truth: dict[str, float]) -> dict[str, Any]:
    """Return coverage, width and distance of each share over the draws where it is known."""
    result = {}
    for name in SHARES:
        known = [getattr(shares, name) for shares in found if getattr(shares, name) is not None]
        if not known:
            result[name] = None
            continue
        value, low, high = np.array(known).T
        result[name] = {
            "known": len(known) / len(found),
            "mean": round(float(value.mean()), 4),
            "holds": round(float(((low <= truth[name]) & (truth[name] <= high)).mean()), 3),
            "width": round(float((high - low).mean()), 4),
            "distance": round(float(np.abs(value - truth[name]).mean()), 4),
        }
    return result


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=HERE / "records" / "study.json")
    arguments = parser.parse_args()
    found = {name: replay(name, arguments.repeats) for name in ham10000.SITES}
    write(arguments.out, {"repeats": arguments.repeats, "clinics": found})


if __name__ == "__main__":
    main()
