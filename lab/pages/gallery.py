"""Figures of the page docs/gallery.md that no other page draws, from the shipped digits.

`build` writes them; lab/pages/build.py calls it. The page's other figures are made from records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

import temperance as tp
from temperance import demo
from temperance_lab.displays import ObjectiveDisplay, ShiftCurveDisplay, TemperatureDisplay

if TYPE_CHECKING:
    from pathlib import Path

    from temperance.calibrate.result import Calibration

LABELS = (0, 10, 30, 100, 200)
DEGREES = (0, 30, 60)


def build(out: Path) -> None:
    """Write all figures into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    source, target = demo.load("source"), demo.load("rotated_60")
    prior = tp.about(demo.class_mix(), rows=source.n)
    pair = source.logits, source.labels
    cal = tp.calibrate(target.logits, prior=prior, source=pair, classes=source.classes)
    labelled = target.logits, target.labels
    shown = tp.display
    figures: dict[str, Any] = {
        "reliability": shown.ReliabilityDisplay.from_logits(*labelled, cal),
        "confidence": shown.ConfidenceDisplay.from_calibration(cal),
        "class-mix": shown.ClassMixDisplay.from_calibration(cal),
        "risk-estimated": shown.RiskCoverageDisplay.from_calibration(cal),
        "risk-measured": shown.RiskCoverageDisplay.from_logits(*labelled, cal),
        "temperatures": TemperatureDisplay(temperatures(cal, labelled)),
        "objective": ObjectiveDisplay.from_logits(target.logits, demo.class_mix()),
        "few-labels": few_labels(cal, *labelled),
        "shift-curve": shift_curve(pair),
    }
    for name, display in figures.items():
        display.to_svg(out / f"{name}.svg")
    two_worlds(out / "two-worlds.png")


def temperatures(cal: Calibration, labelled: tuple[Any, Any]) -> dict[str, Any]:
    """Return what different knowledge makes of the temperature of the rotated digits."""
    z, y = labelled
    rows = cal.label_next(100)
    assert cal.details["source"] is not None  # noqa: S101 - the demo has one
    return {
        "labels of the source": cal.details["source"]["temperature"],
        "no labels": cal.temperature,
        "100 labels": cal.update(z[rows], y[rows]).temperature,
        "all 4,000 labels": tp.fit_temperature(z, y).temperature,
    }


def few_labels(cal: Calibration, z: Any, y: Any) -> ShiftCurveDisplay:
    """Return the estimated accuracy against the number of labels, beside the truth."""
    found = [
        cal if n == 0 else cal.update(z[r], y[r]) for n in LABELS for r in [cal.label_next(n or 1)]
    ]
    curves = {
        "estimated": [one.accuracy for one in found],
        "by all labels": [
            float(np.mean(one.predict_proba(z).argmax(axis=1) == y)) for one in found
        ],
    }
    return ShiftCurveDisplay(LABELS, curves, metric="accuracy", shift="labelled rows")


def shift_curve(source: tuple[Any, Any]) -> ShiftCurveDisplay:
    """Return the calibration error against the rotation, of three ways to calibrate."""
    curves: dict[str, list[float]] = {"model's own": [], "TS-source": [], "temperance": []}
    prior = tp.about(demo.class_mix(), rows=len(source[1]))
    fitted = tp.fit_temperature(*source)
    for degrees in DEGREES:
        rows = demo.load("source" if degrees == 0 else f"rotated_{degrees}")
        cal = tp.calibrate(rows.logits, prior=prior, source=source)
        maps = (lambda z: z, fitted, cal.map)
        for name, one in zip(curves, maps, strict=True):
            curves[name].append(tp.metrics.ece(one(rows.logits.astype(np.float64)), rows.labels))
    return ShiftCurveDisplay(
        DEGREES, curves, metric="calibration error", shift="rotation in degrees"
    )


def two_worlds(path: Path) -> None:
    """Draw the reliability of the same logits in the two worlds of docs/concepts/limits.md."""
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(20_000, 4))
    figure, axes = plt.subplots(figsize=(4.4, 3.9), layout="constrained")
    for t, marker in ((1.0, "o"), (4.0, "s")):
        labels = (logits / t + rng.gumbel(size=logits.shape)).argmax(axis=1)
        bins = tp.metrics.evaluate(logits, labels).bins
        seen = bins.counts > 0
        x, y = (values[seen] / bins.counts[seen] for values in (bins.confidence, bins.correct))
        axes.plot(x, y, marker=marker, markersize=4, label=f"labels drawn at T = {t:g}")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence, the same in both", ylabel="accuracy")
    axes.legend(loc="upper left")
    axes.set_title("One set of logits, two truths", fontsize=10)
    figure.savefig(path, dpi=130)
    plt.close(figure)
