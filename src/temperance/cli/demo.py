"""A story in logits: a digit reader, and digits that arrive rotated.

A LeNet-5 was trained on MNIST (``lab/experiments/demo/make_demo_data.py``). Shipped are its logits
on 2,000 digits that it had not seen, the *source*, and on 4,000 digits rotated by 30° and by 60°,
the *target*. Labels of the target are shipped to measure what happened; no method but the last of
the table may look at them. After 60° nothing but the logits is at hand, and the calibration is
refused. Then thirty digits are labelled, and the calibration uses these labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from temperance.calibrate import calibrate
from temperance.calibrate.result import Calibration
from temperance.calibrate.threshold import Threshold
from temperance.io.formats import Table, read, write
from temperance.maps import IDENTITY, Map
from temperance.methods.uts import fit_uts
from temperance.metrics.evaluation import evaluate
from temperance.supervised.temperature import fit_temperature

DEGREES = (30, 60)
LABELS = 30  # digits that somebody labels in the last part of the story
ACCEPTED_CONFIDENCE = 0.9  # confidence above which the story's clerk accepts an answer unseen
MAX_ERROR = 0.05  # share of wrong answers that the clerk may let through


@dataclass(frozen=True)
class Outcome:
    """Scores of a method on the rotated digits, by their labels."""

    method: str
    knows: str
    temperature: float
    accuracy: float
    confidence: float
    nll: float
    ece: float
    brier: float
    accepted: int
    accepted_wrong: int


@dataclass(frozen=True)
class Comparison:
    """All methods on the digits of one rotation, and the calibration that was chosen.

    ``wrong`` is the share of wrong answers that ``threshold`` lets through, by the labels.
    """

    degrees: int
    calibration: Calibration
    outcomes: tuple[Outcome, ...]
    threshold: Threshold
    wrong: float | None

    def outcome(self, method: str) -> Outcome:
        """Return what one method did."""
        return next(o for o in self.outcomes if o.method == method)

    def to_dict(self) -> dict[str, Any]:
        """Return plain facts."""
        return {
            "degrees": self.degrees,
            "verdict": self.calibration.verdict,
            "methods": [vars(outcome) for outcome in self.outcomes],
            "threshold": self.threshold.to_dict() | {"measured": self.wrong},
        }


@dataclass(frozen=True)
class LabelledComparison:
    """Calibrations of the same digits with more and more known, each with its true scores."""

    degrees: int
    rows: list[int]
    parts: dict[str, tuple[Calibration, Outcome]]  # by what is known

    def to_dict(self) -> dict[str, Any]:
        """Return plain facts."""
        facts = {
            name: {
                "verdict": calibration.verdict,
                "accuracy": calibration.accuracy,
                "ece": calibration.ece_after,
                "measured": vars(outcome),
            }
            for name, (calibration, outcome) in self.parts.items()
        }
        return {"degrees": self.degrees, "labels": len(self.rows), "known": facts}


@cache
def load(name: str) -> Table:
    """Return shipped rows: ``"source"``, ``"rotated_30"`` or ``"rotated_60"``.

    >>> load("source").logits.shape
    (2000, 10)
    """
    with as_file(files("temperance.cli") / "demo_data" / f"mnist_{name}.npz") as path:
        return read(path)


def class_mix() -> np.ndarray[Any, Any]:
    """Return the share of each digit that the clerk expects: all are equally frequent."""
    return np.full(10, 0.1)


def _labels(table: Table) -> Any:
    assert table.labels is not None  # noqa: S101 - the shipped rows are labelled
    return table.labels


def compare(degrees: int) -> Comparison:
    """Calibrate on digits rotated by so many degrees, in five ways, and measure each.

    >>> compare(60).calibration.verdict
    'improved'
    """
    source, target, prior = load("source"), load(f"rotated_{degrees}"), class_mix()
    z, y = target.logits, _labels(target)
    labelled = (source.logits, _labels(source))
    calibration = calibrate(z, prior, labelled, classes=source.classes)
    maps: dict[str, tuple[str, Map]] = {
        "uncalibrated": ("nothing", IDENTITY),
        "TS-source": ("source labels", fit_temperature(*labelled)),
        "UTS": ("class mix", fit_uts(z, prior)),
        "temperance": ("class mix, source labels", calibration.map),
        "TS-Target": ("the target's labels", fit_temperature(z, y)),
    }
    outcomes = [_measure(name, knows, fitted, z, y) for name, (knows, fitted) in maps.items()]
    threshold, wrong = calibration.threshold(MAX_ERROR), None
    if threshold.confidence is not None:
        p = threshold.map.predict_proba(z)
        wrong = float((p.argmax(axis=1) != y)[p.max(axis=1) >= threshold.confidence].mean())
    return Comparison(degrees, calibration, tuple(outcomes), threshold, wrong)


def add_labels(comparison: Comparison, n: int = LABELS) -> LabelledComparison:
    """Calibrate with the logits alone, then label the digits that the answer asks for."""
    target = load(f"rotated_{comparison.degrees}")
    z, y = target.logits, _labels(target)
    refused, unlabelled = calibrate(z, classes=target.classes), comparison.calibration
    rows = refused.label_next(n)
    all_known = f"{n} labels, class mix and source"
    calibrations = {
        "logits alone": refused,
        "class mix and source": unlabelled,
        f"{n} labels": refused.update(z[rows], y[rows]),
        all_known: unlabelled.update(z[rows], y[rows]),
    }
    parts = {
        knows: (one, _measure("temperance", knows, one.map, z, y))
        for knows, one in calibrations.items()
    }
    return LabelledComparison(comparison.degrees, rows, parts)


def _measure(name: str, knows: str, fitted: Map, z: Any, y: Any) -> Outcome:
    seen = evaluate(fitted(z), y)
    p = fitted.predict_proba(z)
    accepted = p.max(axis=1) >= ACCEPTED_CONFIDENCE
    return Outcome(
        name,
        knows,
        float(fitted.parameters()["temperature"]),
        seen.accuracy,
        seen.confidence,
        seen.nll,
        seen.ece,
        seen.brier,
        accepted=int(accepted.sum()),
        accepted_wrong=int((accepted & (p.argmax(axis=1) != y)).sum()),
    )


def write_files(directory: Path, labelled: LabelledComparison) -> dict[str, Path]:
    """Write the reports, and the files that they were made of, to try commands on."""
    directory.mkdir(parents=True, exist_ok=True)
    target = replace(load(f"rotated_{labelled.degrees}"), prior=class_mix())
    few = target.logits[labelled.rows], _labels(target)[labelled.rows]
    paths = {
        "report": directory / "report.html",
        "report_labels": directory / f"report_{len(labelled.rows)}_labels.html",
        "few": directory / f"labelled_{len(labelled.rows)}.npz",
        "calibration": directory / "calibration.json",
        "target": directory / "target.npz",
        "source": directory / "source.npz",
        "labelled": directory / "labelled.npz",
    }
    title = f"Digits rotated by {labelled.degrees} degrees"
    _, unlabelled, _, best = (calibration for calibration, _ in labelled.parts.values())
    for name, calibration in (("report", unlabelled), ("report_labels", best)):
        calibration.to_html(paths[name], title=title, model="LeNet-5, trained on MNIST")
    unlabelled.save(paths["calibration"])
    write(paths["few"], Table(*few, classes=target.classes))
    write(paths["target"], replace(target, labels=None))
    write(paths["labelled"], target)
    write(paths["source"], load("source"))
    return paths
