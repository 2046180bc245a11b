"""The demo as a story on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temperance.cli.demo import SURE
from temperance.cli.output import COLOURS, say, show_findings, table
from temperance.report.texts import between, percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from temperance.cli.demo import Comparison


def show_demo(comparisons: Sequence[Comparison], written: dict[str, Path]) -> None:
    """Print what happened, why it matters, and what to do next."""
    _show_story(comparisons)
    for comparison in comparisons:
        say()
        _show_one(comparison)
    say()
    _show_verdict(comparisons[-1])
    say()
    say("What to do next", "bold")
    print(f"Open the report:  {written['report']}")  # noqa: T201 - a path is copied, not wrapped
    say("Or do the same by hand, on the files beside it:")
    for line in (
        f"  temperance calibrate {written['target']} --source {written['source']} --out cal.json",
        f"  temperance evaluate {written['labelled']} --map cal.json",
        f"  temperance inspect {written['calibration']}",
    ):
        print(line)  # noqa: T201


def _show_story(comparisons: Sequence[Comparison]) -> None:
    facts = comparisons[0].calibration.details
    mild, hard = (f"{comparison.degrees} degrees" for comparison in comparisons)
    say("A digit reader, and digits that arrive rotated", "bold")
    say(
        f"A small network (LeNet-5) reads handwritten digits. At home, on {facts['n_source']:,} "
        f"digits it had never seen, it is right {percent(facts['source']['accuracy'])} of the "
        f"time. Then the scanner is mounted askew: {facts['n_target']:,} digits arrive rotated, "
        f"first by {mild}, then by {hard}. Nobody labels them. All that is known is how often each "
        f"digit occurs."
    )
    say()
    say("How to read the tables", "bold")
    say(
        "'says' is how sure a method is on average, 'is right' how often it really is: they should "
        "be the same. ECE is their distance over all levels of confidence; NLL and Brier judge "
        "confidence and accuracy together; lower is better for all three. T is the temperature "
        "that divides the network's scores: above 1, less sure. TS is temperature scaling, UTS the "
        "published way to do it without labels, prior-matched what 'temperance calibrate' does. "
        "TS-Target may look at the answers, and is there as a limit."
    )


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
        f"{own.ece:.3f} to {ours.ece:.3f}. Why it matters: a clerk who accepts every answer that "
        f"is {percent(SURE)} sure would let {own.accepted_wrong:,} wrong digits through "
        f"({percent(own.accepted_wrong / own.accepted)} of those accepted); with the calibrated "
        f"confidence, {ours.accepted_wrong:,} ({percent(ours.accepted_wrong / ours.accepted)}). "
        f"The others go to a person."
    )


def _show_verdict(comparison: Comparison) -> None:
    calibration = comparison.calibration
    truth = comparison.outcome("prior-matched").accuracy
    say(
        f"What temperance says about the {comparison.degrees}-degree digits, before anybody has "
        f"seen a label:",
        "bold",
    )
    say(f"Verdict: {calibration.verdict}", f"bold {COLOURS[calibration.verdict]}")
    say(
        f"Estimated accuracy {between(calibration.accuracy)}, a 90% interval; the labels, opened "
        f"afterwards, say {percent(truth)}."
    )
    show_findings(calibration.findings)
