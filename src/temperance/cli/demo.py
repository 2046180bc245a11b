"""A story in logits: a digit reader, and digits that arrive rotated.

A LeNet-5 was trained on MNIST (``lab/experiments/demo/make_demo_data.py``). Shipped are its logits
on 2,000 digits that it had not seen, the *source*, and on 4,000 digits rotated by 30° and by 60°,
the *target*. Labels of the target are shipped to measure what happened; no method but the last of
the table may look at them. After 60° nothing but the logits is at hand, and the calibration is
refused. Then thirty digits are labelled, and the calibration uses these labels.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from temperance.calibrate import calibrate
from temperance.calibrate.result import Calibration
from temperance.calibrate.threshold import Threshold
from temperance.cli.output import VERDICT_COLOURS, say, show_findings, table
from temperance.io.formats import Table, read, write
from temperance.maps import IDENTITY, Map
from temperance.methods.uts import fit_uts
from temperance.metrics.evaluation import evaluate
from temperance.report.texts import between, gain_sentence, percent, to_do
from temperance.supervised.temperature import fit_temperature

DEGREES = (30, 60)
LABELS = 30  # digits that somebody labels in the last part of the story
ACCEPTED_CONFIDENCE = 0.9  # confidence above which the story's clerk accepts an answer unseen
MAX_ERROR = 0.05  # share of wrong answers that the clerk may let through


class Outcome(NamedTuple):
    """Scores of a method on the rotated digits, by their labels."""

    method: str
    knows: str
    temperature: float
    confidence: float
    accuracy: float
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


class LabelledComparison(NamedTuple):
    """Calibrations of the same digits with more and more known, each with its true scores."""

    degrees: int
    rows: list[int]
    parts: dict[str, tuple[Calibration, Outcome]]  # by what is known


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
    all_known = f"{n} labels and both"
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
        seen.confidence,
        seen.accuracy,
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


def show(
    comparisons: Sequence[Comparison], labelled: LabelledComparison, written: dict[str, Path]
) -> None:
    """Print what happened, why it matters, and what to do next."""
    mild, hard = comparisons
    _show_story(mild, hard)
    say()
    _show_helped(mild, hard)
    say()
    _show_refused(hard, labelled)
    say()
    _show_labels(labelled)
    say()
    say("What to do next", "bold")
    program = _program()
    calibrate = f"  {program} calibrate {written['target']} --source {written['source']}"
    for line in (
        f"Open the report:   {written['report']}",
        f"and, with labels:  {written['report_labels']}",
        "Or do the same by hand, on the files beside it:",
        f"{calibrate} --out cal.json",
        f"{calibrate} --labelled {written['few']} --out few.json",
        f"  {program} evaluate {written['labelled']} --map few.json",
        f"  {program} inspect {written['calibration']}",
    ):
        print(line)  # noqa: T201 - a path is copied, not wrapped


def _program() -> str:
    """Return the command as a reader can type it: with its path where no shell finds it."""
    called = Path(sys.argv[0])
    if shutil.which("temperance") or called.name != "temperance":
        return "temperance"
    return os.path.relpath(called)


def _show_story(mild: Comparison, hard: Comparison) -> None:
    facts = mild.calibration.details
    say("A digit reader, and digits that arrive rotated", "bold")
    say(
        f"A small network (LeNet-5) reads handwritten digits. Of {facts['n_source']:,} upright "
        f"digits it reads {percent(facts['source']['accuracy'])} right. Then the scanner is "
        f"mounted askew, and {facts['n_target']:,} digits arrive rotated: first by {mild.degrees} "
        f"degrees, then by {hard.degrees}. Nobody labels them. How sure may one be of an answer?"
    )


def _show_helped(mild: Comparison, hard: Comparison) -> None:
    own, ours = mild.outcome("uncalibrated"), mild.outcome("temperance")
    calibration = mild.calibration
    say(f"1. Calibration without labels helps: {mild.degrees} degrees", "bold")
    say(
        f"The network says it is {percent(own.confidence)} sure. In truth it is right "
        f"{percent(own.accuracy)} of the time. Known are the labels of the upright digits (the "
        f"source), and that each digit is as frequent as any other (the class mix)."
    )
    say()
    table(
        ("method", "what it may see", "says", "is right", "ECE", "Brier"),
        [
            (
                one.method,
                one.knows,
                f"{one.confidence:.1%}",
                f"{one.accuracy:.1%}",
                f"{one.ece:.3f}",
                f"{one.brier:.4f}",
            )
            for one in mild.outcomes
        ],
        emphasis=3,
    )
    say()
    say(
        "'says' is how sure a method is on average, 'is right' how often it really is. ECE, the "
        "calibration error, is the gap between the two over all levels of confidence; the Brier "
        "score judges confidence and answers together; lower is better for both. TS is "
        "temperature scaling; TS-Target looks at all the labels, and shows what they would give. "
        "UTS is a published method."
    )
    source = "TS-source"
    say(
        f"Without one label of these digits, temperance brings the calibration error from "
        f"{own.ece:.3f} to {ours.ece:.3f}. The temperature of the upright digits (TS-source) gives "
        f"{mild.outcome(source).ece:.3f} here; at {hard.degrees} degrees it gives "
        f"{hard.outcome(source).ece:.3f}, temperance {hard.outcome('temperance').ece:.3f}."
    )
    say(
        f"Why it matters: a clerk who accepts every answer that is {percent(ACCEPTED_CONFIDENCE)} "
        f"sure would let {own.accepted_wrong:,} wrong digits through "
        f"({percent(own.accepted_wrong / own.accepted)} of those accepted); with the calibrated "
        f"confidence, {ours.accepted_wrong:,} ({percent(ours.accepted_wrong / ours.accepted)}). "
        f"The others go to a person."
    )
    accept = mild.threshold
    if accept.confidence is not None and mild.wrong is not None:
        say(
            f"And if at most {MAX_ERROR:.0%} of the accepted answers may be wrong? Without labels "
            f"the advice is careful: accept from a confidence of {accept.confidence:.3f} on, "
            f"{percent(accept.coverage)} of the digits. By the labels, {percent(mild.wrong)} of "
            f"these answers are wrong."
        )
    say()
    say(f"Verdict: {calibration.verdict}", f"bold {VERDICT_COLOURS[calibration.verdict]}")
    say(
        f"{to_do(calibration)} {gain_sentence(calibration)} Estimated accuracy: "
        f"{between(calibration.accuracy)}, a 90% interval. The labels, opened afterwards, say "
        f"{percent(ours.accuracy)}."
    )


def _show_refused(hard: Comparison, labelled: LabelledComparison) -> None:
    own = hard.outcome("uncalibrated")
    refused, _ = labelled.parts["logits alone"]
    say(f"2. Calibration is refused: {hard.degrees} degrees, and only the logits", "bold")
    say(
        f"The network says it is {percent(own.confidence)} sure. In truth it is right "
        f"{percent(own.accuracy)} of the time. Suppose that only its scores, the logits, are "
        "known: no class mix, and no label of any digit. Then any accuracy is possible, and no "
        "number is made up:"
    )
    say()
    say(f"Verdict: {refused.verdict}", f"bold {VERDICT_COLOURS[refused.verdict]}")
    show_findings([one for one in refused.findings if one.severity == "refuse"])


def _show_labels(labelled: LabelledComparison) -> None:
    n, rows = len(labelled.rows), load(f"rotated_{labelled.degrees}").n
    say(f"3. {n} labels turn 'refused' into 'known': {labelled.degrees} degrees", "bold")
    say(
        f"temperance names {n} digits to label (cal.label_next), somebody labels them, "
        f"and the calibration uses the labels (cal.update)."
    )
    say()
    table(
        ("what is known", "verdict", "accuracy", "true", "ECE", "true"),
        [
            (
                name,
                calibration.verdict,
                between(calibration.accuracy),
                percent(outcome.accuracy),
                between(calibration.ece_after),
                percent(outcome.ece),
            )
            for name, (calibration, outcome) in labelled.parts.items()
        ],
    )
    say()
    own, few = (labelled.parts[name][1] for name in ("logits alone", f"{n} labels"))
    say(
        f"Accuracy and ECE are estimates with 90% intervals; 'true' is measured with all {rows:,} "
        f"labels. Without a label the accuracy is nearly unknown. With {n} labels and "
        f"nothing else, the calibration error falls from {own.ece:.3f} to {few.ece:.3f}."
    )
