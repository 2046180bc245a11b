"""The demo as a story on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temperance.cli.screen import COLOURS, say, show_findings, table
from temperance.report.words import between, percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from temperance.demo import Comparison


def show_demo(comparisons: Sequence[Comparison], written: dict[str, Path]) -> None:
    """Print what happened, why it matters, and what to do next."""
    source = comparisons[0].calibration.facts["source"]
    say("A digit reader, and digits that arrive rotated", "bold")
    say()
    say(
        f"A small network (LeNet-5) reads handwritten digits. At home, on 2,000 digits it had "
        f"never seen, it is right {percent(source['accuracy'])} of the time. Then the scanner is "
        f"mounted askew: 4,000 digits arrive rotated, first by 30 degrees, then by 60. Nobody "
        f"labels them. All that is known is how often each digit occurs."
    )
    for comparison in comparisons:
        say()
        _show_one(comparison)
    last = comparisons[-1]
    say()
    say(
        "ECE is the calibration error: how far the stated confidence is from how often the model "
        "is right. NLL and Brier judge confidence and accuracy together. Lower is better for all "
        "three."
    )
    say()
    _show_verdict(last)
    say()
    say(f"The report: {written['report']}", "bold")
    say("Try it yourself on the same files:")
    for line in (
        f"  temperance calibrate {written['target']} --source {written['source']} --out cal.json",
        f"  temperance evaluate {written['labelled']} --map cal.json",
        f"  temperance inspect {written['calibration']}",
    ):
        print(line)  # noqa: T201 - a command is copied, not wrapped


def _show_one(comparison: Comparison) -> None:
    own = comparison.outcome("uncalibrated")
    ours = comparison.outcome("prior-matched")
    say(
        f"Rotated by {comparison.degrees} degrees: the network says it is "
        f"{percent(own.confidence)} sure. In truth it is right {percent(own.accuracy)} of the "
        f"time.",
        "bold",
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
        f"{own.ece:.3f} to {ours.ece:.3f}. The last line is a limit for comparison: it may look at "
        f"the answers."
    )


def _show_verdict(comparison: Comparison) -> None:
    calibration = comparison.calibration
    truth = comparison.outcome("prior-matched").accuracy
    say(
        f"What temperance says about the {comparison.degrees}-degree digits, before anybody has "
        f"seen a label:"
    )
    say(f"Verdict: {calibration.verdict}", f"bold {COLOURS[calibration.verdict]}")
    say(
        f"Estimated accuracy {between(calibration.accuracy)}; the labels, opened afterwards, say "
        f"{percent(truth)}."
    )
    show_findings(calibration.findings)
