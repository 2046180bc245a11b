"""The demo as a story on the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from temperance.cli.demo import ACCEPTED_CONFIDENCE, MAX_ERROR, Comparison, LabelledComparison
from temperance.cli.output import VERDICT_COLOURS, say, show_findings, table
from temperance.report.texts import between, gain_sentence, percent, to_do


def show_demo(
    comparisons: Sequence[Comparison], labelled: LabelledComparison, written: dict[str, Path]
) -> None:
    """Print what happened, why it matters, and what to do next."""
    mild, hard = comparisons
    _show_story(mild, hard, len(labelled.rows))
    say()
    say(f"1. Calibration without labels helps: {mild.degrees} degrees", "bold")
    _show_one(mild)
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


def _show_story(mild: Comparison, hard: Comparison, n: int) -> None:
    facts = mild.calibration.details
    say("A digit reader, and digits that arrive rotated", "bold")
    say(
        f"A small network (LeNet-5) reads handwritten digits. On {facts['n_source']:,} upright "
        f"digits that it had never seen, it is right {percent(facts['source']['accuracy'])} of the "
        f"time. Then the scanner is mounted askew: {facts['n_target']:,} digits arrive rotated, "
        f"first by {mild.degrees} degrees, then by {hard.degrees} degrees. Nobody labels them, but "
        f"each digit is known to be as frequent as any other. "
        f"At the end somebody labels {n} digits."
    )
    say()
    say("How to read the tables", "bold")
    say(
        "'says' is how sure a method is on average, 'is right' how often it really is: they should "
        "be the same. ECE is their distance over all levels of confidence; NLL and Brier judge "
        "confidence and accuracy together; lower is better for all three. T is the temperature "
        "that divides the network's scores: above 1, less sure. TS is temperature scaling, UTS a "
        "published way to do it without labels, temperance what 'temperance calibrate' does. "
        "TS-Target may look at all answers, and is there as a limit."
    )


def _show_one(comparison: Comparison) -> None:
    own, ours = comparison.outcome("uncalibrated"), comparison.outcome("temperance")
    calibration = comparison.calibration
    say(
        f"The network says it is {percent(own.confidence)} sure. In truth it is right "
        f"{percent(own.accuracy)} of the time."
    )
    rows = [
        (
            outcome.method,
            outcome.knows,
            f"{outcome.temperature:.2f}",
            f"{outcome.confidence:.1%}",
            f"{outcome.accuracy:.1%}",
            f"{outcome.nll:.3f}",
            f"{outcome.ece:.3f}",
            f"{outcome.brier:.4f}",
        )
        for outcome in comparison.outcomes
    ]
    header = ("method", "what it may see", "T", "says", "is right", "NLL", "ECE", "Brier")
    table(header, rows, emphasis=3)
    say(
        f"Without one label of these digits, temperance brings the calibration error from "
        f"{own.ece:.3f} to {ours.ece:.3f}. Why it matters: a clerk who accepts every answer that "
        f"is {percent(ACCEPTED_CONFIDENCE)} sure would let {own.accepted_wrong:,} wrong digits "
        f"through "
        f"({percent(own.accepted_wrong / own.accepted)} of those accepted); with the calibrated "
        f"confidence, {ours.accepted_wrong:,} ({percent(ours.accepted_wrong / ours.accepted)}). "
        f"The others go to a person."
    )
    accept = comparison.threshold
    if accept.confidence is not None and comparison.wrong is not None:
        say(
            f"And if at most {MAX_ERROR:.0%} of the accepted answers may be wrong? "
            f"cal.threshold(max_error={MAX_ERROR:g}) advises to accept from a confidence of "
            f"{accept.confidence:.3f} on, {percent(accept.coverage)} of the digits. By the labels, "
            f"{percent(comparison.wrong)} of these answers are wrong."
        )
    say(f"Verdict: {calibration.verdict}", f"bold {VERDICT_COLOURS[calibration.verdict]}")
    say(
        f"{gain_sentence(calibration)} Estimated accuracy {between(calibration.accuracy)}, a 90% "
        f"interval; the labels, opened afterwards, say {percent(ours.accuracy)}. The advice: "
        f"{to_do(calibration)}"
    )


def _show_refused(hard: Comparison, labelled: LabelledComparison) -> None:
    own = hard.outcome("uncalibrated")
    refused, _ = labelled.parts["logits alone"]
    say(f"2. Calibration is refused: {hard.degrees} degrees, and only the logits", "bold")
    say(
        f"The network says it is {percent(own.confidence)} sure. In truth it is right "
        f"{percent(own.accuracy)} of the time. Suppose that neither the class mix nor labelled "
        "upright digits are at hand. Any accuracy fits the logits then, and no number is made up:"
    )
    say(f"Verdict: {refused.verdict}", f"bold {VERDICT_COLOURS[refused.verdict]}")
    show_findings([one for one in refused.findings if one.severity == "refuse"])


def _show_labels(labelled: LabelledComparison) -> None:
    n = len(labelled.rows)
    say(f"3. {n} labels turn 'refused' into 'known': {labelled.degrees} degrees", "bold")
    say(
        f"temperance names {n} digits to label (cal.label_next), somebody labels them, "
        f"and the calibration uses the labels (cal.update)."
    )
    table(
        ("what is known", "verdict", "accuracy, estimated", "in truth", "ECE, estimated", "truth"),
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
    own, few = (labelled.parts[name][1] for name in ("logits alone", f"{n} labels"))
    say(
        f"The numbers in brackets are 90% intervals. With {n} labels and nothing else, the "
        f"calibration error falls from {own.ece:.3f} to {few.ece:.3f}, measured with all labels."
    )
