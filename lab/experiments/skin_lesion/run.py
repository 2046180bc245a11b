"""Each acquisition site of HAM10000 as the unseen clinic: what each calibrator does to it.

    python lab/experiments/skin_lesion/run.py [--logits DIR] [--out DIR] [--pictures FILE]

reads ham_{site}.npz (written by train.py; copies are kept in logits/) and writes to OUT one record
(JSON) and one figure per site, the table of all of them, the effect of the prior, and the figure of
the supplement redone: right and wrong cases with their confidences side by side. The photographs
themselves are not ours to publish; --pictures draws that figure with them, from TEMPERANCE_DATA.
The manual is built from the records.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import figures
import ham10000
import numpy as np

import temperance as tp
from temperance_skin_lesion.classes import CLASSES, MELANOMA, NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

HERE = Path(__file__).parent
REFERRAL = 0.2
METRICS: dict[str, Callable[..., float]] = {
    "nll": tp.metrics.nll,
    "brier": partial(tp.metrics.brier, per_class=False),
    "ece": tp.metrics.ece,
    "accuracy": tp.metrics.accuracy,
}


@dataclass(frozen=True, slots=True)
class Site:
    """Logits, labels and lesions of the other sites' validation rows and of the unseen site."""

    name: str
    source: tuple[NDArray[np.float64], NDArray[np.int64]]
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]
    lesions: NDArray[np.int64]
    rows: NDArray[np.int64]
    source_lesions: NDArray[np.int64]

    @property
    def mix_source(self) -> NDArray[np.float64]:
        """Class mix of the validation rows."""
        return mix(self.source[1])

    @property
    def mix_here(self) -> NDArray[np.float64]:
        """Class mix of the unseen site."""
        return mix(self.labels)


def mix(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Class shares with one more case each: nobody states that a disease does not occur."""
    counts = np.bincount(labels, minlength=len(CLASSES)) + 1
    return counts / counts.sum()


def load(name: str, directory: Path) -> Site:
    """Read what train.py wrote."""
    with np.load(directory / f"ham_{name}.npz", allow_pickle=False) as file:
        return Site(
            name,
            (file["source_logits"].astype(float), file["source_labels"]),
            file["target_logits"].astype(float),
            file["target_labels"],
            file["target_groups"],
            file["target_rows"],
            file["source_groups"],
        )


def calibrators(site: Site) -> dict[str, Any]:
    """Every map, by name, or the sentence with which it was refused.

    None of the label-free ones sees a label of the site.
    """
    z, source = site.logits, site.source
    here, elsewhere = site.mix_here, site.mix_source
    fits = {
        "uncalibrated": lambda: tp.Temperature(1.0),
        "TS, source": lambda: tp.fit_temperature(*source),
        "ATS, source, θ = 1e-5": lambda: tp.fit_attended(*source),
        "ATS, source, θ = 0.1": lambda: tp.fit_attended(*source, threshold=0.1),
        "UTS, source mix": lambda: tp.fit_uts(z, elsewhere),
        "UTS, clinic mix": lambda: tp.fit_uts(z, here),
        "prior-matched, source mix": lambda: tp.fit_prior_matched(z, elsewhere, source),
        "prior-matched, clinic mix": lambda: tp.fit_prior_matched(z, here, source),
        "TS-Target (labels)": lambda: tp.fit_temperature(z, site.labels),
    }
    maps = {}
    for name, fit in fits.items():
        try:
            maps[name] = fit()
        except tp.NotIdentified as error:
            maps[name] = str(error)
    return maps


def melanomas_found(
    logits: NDArray[np.float64], labels: NDArray[np.int64], rate: float = REFERRAL
) -> float:
    """Share of melanomas among the ``rate`` of cases most suspected of it."""
    p = tp.Temperature(1.0).predict_proba(logits)[:, MELANOMA]
    suspected = np.argsort(-p, kind="stable")[: round(rate * len(p))]
    return float(np.sum(labels[suspected] == MELANOMA) / max(1, np.sum(labels == MELANOMA)))


def score(site: Site, fitted: Any) -> dict[str, Any]:
    """All metrics of one map on the unseen site, with 95 % intervals drawn by lesion."""
    if isinstance(fitted, str):
        return {"not_identified": fitted}
    z = fitted(site.logits)
    found = {
        name: list(tp.metrics.bootstrap(metric, z, site.labels, site.lesions))
        for name, metric in METRICS.items()
    }
    found["melanomas_found"] = list(
        tp.metrics.bootstrap(melanomas_found, z, site.labels, site.lesions, n_resamples=500)
    )
    found["aurc"] = list(
        tp.metrics.bootstrap(tp.metrics.aurc, z, site.labels, site.lesions, n_resamples=500)
    )
    curve = tp.metrics.risk_coverage(z, site.labels)
    keep = np.unique(np.linspace(0, len(curve.coverage) - 1, 80).round().astype(int))
    found["risk_coverage"] = [
        [round(float(v[i]), 4) for i in keep] for v in (curve.coverage, curve.risk)
    ]
    bins = reliability(z, site.labels)
    return {
        "temperature": float(fitted.temperature),
        "bias": [float(b) for b in fitted.bias] if hasattr(fitted, "bias") else None,
        **found,
        "reliability": bins,
    }


def reliability(z: NDArray[np.float64], labels: NDArray[np.int64]) -> list[dict[str, float]]:
    """Confidence and accuracy in ten bins of equal width."""
    p = tp.Temperature(1.0).predict_proba(z)
    top, right = p.max(axis=1), p.argmax(axis=1) == labels
    place = np.minimum((top * 10).astype(int), 9)
    return [
        {
            "rows": int((place == b).sum()),
            "confidence": float(top[place == b].mean()),
            "accuracy": float(right[place == b].mean()),
        }
        for b in range(10)
        if (place == b).sum() >= 10
    ]


def prior_sweep(site: Site) -> list[dict[str, float]]:
    """Prior-matched scaling for mixes between the source's (0) and the clinic's (1), and beyond."""
    steps = []
    for share in np.linspace(-0.25, 1.25, 13):
        prior = (1 - share) * site.mix_source + share * site.mix_here
        if prior.min() <= 0:  # beyond what a mix can be
            continue
        z = tp.fit_prior_matched(site.logits, prior, site.source)(site.logits)
        steps.append(
            {"share": float(share)}
            | {name: float(metric(z, site.labels)) for name, metric in METRICS.items()}
        )
    return steps


def record_of(site: Site) -> dict[str, Any]:
    """Everything that table and figures show of a site."""
    cal = tp.calibrate(site.logits, prior=site.mix_here, source=site.source, classes=NAMES)
    return {
        "site": site.name,
        "version": tp.__version__,
        "rows": len(site.labels),
        "lesions": len(np.unique(site.lesions)),
        "melanomas": int(np.sum(site.labels == MELANOMA)),
        "majority": float(np.bincount(site.labels).max() / len(site.labels)),
        "source_rows": len(site.source[1]),
        "source_accuracy": float(tp.metrics.accuracy(*site.source)),
        "mix_source": site.mix_source.tolist(),
        "mix_here": site.mix_here.tolist(),
        "mix_predicted": mix(site.logits.argmax(axis=1)).tolist(),
        "referral": REFERRAL,
        "verdict": cal.verdict,
        "findings": [f"{finding.code} {finding.title}" for finding in cal.findings],
        "estimated_accuracy": list(cal.accuracy),
        "calibrators": {name: score(site, fitted) for name, fitted in calibrators(site).items()},
        "prior_sweep": prior_sweep(site),
    }


EACH = 8  # right and wrong cases


def cases(site: Site) -> list[dict[str, Any]]:
    """Eight right and eight wrong cases, as the supplement shows.

    First of each diagnosis the case of median raw confidence, if there is any; then those at the
    quartiles, of the most frequent diagnoses first.
    """
    maps = calibrators(site)
    shown = {
        "raw": maps["uncalibrated"],
        "TS": maps["TS, source"],
        "ATS": maps["ATS, source, θ = 0.1"],
        "label-free": maps["prior-matched, clinic mix"],
    }
    p = {name: fitted.predict_proba(site.logits) for name, fitted in shown.items()}
    predicted = p["raw"].argmax(axis=1)
    chosen = []
    for right in (True, False):
        found = []
        for label in range(len(CLASSES)):
            rows = np.flatnonzero((site.labels == label) & ((predicted == site.labels) == right))
            order = np.argsort(p["raw"][rows].max(axis=1), kind="stable")
            found.append(rows[order])
        frequent = sorted(found, key=len, reverse=True)
        medians = [rows[len(rows) // 2] for rows in found if len(rows)]
        more = [rows[len(rows) * q // 4] for q in (1, 3) for rows in frequent if len(rows) >= 8]
        chosen += (medians + more)[:EACH]
    return [
        {
            "row": int(site.rows[row]),
            "label": int(site.labels[row]),
            "predicted": int(predicted[row]),
            "confidence": {name: float(q[row, predicted[row]]) for name, q in p.items()},
            "predicted_label_free": int(p["label-free"][row].argmax()),
        }
        for row in chosen
    ]


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logits", type=Path, default=HERE / "logits")
    parser.add_argument("--out", type=Path, default=HERE / "records")
    parser.add_argument("--pictures", type=Path, help="also draw the cases with their photographs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sites = [load(name, arguments.logits) for name in ham10000.SITES]
    records = []
    for site in sites:
        record = record_of(site)
        records.append(record)
        write(arguments.out / f"{site.name}.json", record)
        print(
            f"{site.name}: {record['verdict']}, estimated accuracy {record['estimated_accuracy']}"
        )
    shown = cases(sites[0])
    write(arguments.out / "cases.json", shown)
    if arguments.pictures:
        data = ham10000.load(Path(os.environ["TEMPERANCE_DATA"]) / "ham10000_64")
        figures.cases(shown, arguments.pictures, data.images)


def write(path: Path, facts: Any) -> None:
    """Write JSON."""
    path.write_text(json.dumps(rounded(facts), separators=(",", ":")) + "\n", "utf-8")


def rounded(value: Any) -> Any:
    """Return JSON with five significant digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
