"""Output for a person or a program: tables on a terminal, plain text in a pipe, JSON on demand."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from temperance.calibrate.result import Calibration
from temperance.cli.wording import in_options
from temperance.report import texts
from temperance.report.texts import percent, printable

LINE_WIDTH = 100  # characters of a line
VERDICT_COLOURS = {"improved": "green", "no-evidence": "yellow", "refused": "red"}
FINDING_COLOURS = {"refuse": "red", "warn": "yellow", "note": "cyan"}
NUMERIC = {*"0123456789-–", ""}  # how the cells of a column of numbers begin


def show_json(facts: Any) -> None:
    """Print facts for a program: JSON, and nothing but JSON, on stdout."""
    escaped = "utf" not in (sys.stdout.encoding or "").lower()
    text = json.dumps(
        facts, indent=2, ensure_ascii=escaped, allow_nan=False, default=np.ndarray.tolist
    )
    print(text)  # noqa: T201


def plain_help() -> Any:
    """Return a look for the help without frames: for pipes and files."""
    from cyclopts.help import DefaultFormatter, PanelSpec
    from rich.box import Box

    return DefaultFormatter(panel_spec=PanelSpec(box=Box("    \n" * 8), padding=(0, 0)))


def working(what: str) -> AbstractContextManager[Any]:
    """Show on a terminal that something is being done; elsewhere be silent."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def say(text: str = "", style: str | None = None, indent: int = 0) -> None:
    """Print a paragraph, as wide as the terminal allows but no wider than is easily read."""
    width = min(LINE_WIDTH, shutil.get_terminal_size((LINE_WIDTH, 24)).columns)
    margin = " " * indent
    folded = textwrap.fill(
        printable(text),
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
    )
    _print(folded, style)


def _print(text: str, style: str | None) -> None:
    if not sys.stdout.isatty():
        print(text)  # noqa: T201
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=True).print(Text(text, style or ""))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], emphasis: int = -1) -> None:
    """Print rows under a header, numbers to the right; on a terminal one row is bold too."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    columns = zip(*lines[1:], strict=True) if rows else [()] * len(header)
    numeric = [{cell[:1] for cell in column} <= NUMERIC and any(column) for column in columns]
    for i, line in enumerate(lines):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        _print("  ".join(cells).rstrip(), "bold" if i in (0, emphasis + 1) else None)
        if i == 0 and sys.stdout.isatty():
            _print("─" * (sum(widths) + 2 * len(widths) - 2), None)


def show_calibration(calibration: Any) -> None:
    """Print the verdict, what it means, the estimates and the findings."""
    say(f"Verdict: {calibration.verdict}", f"bold {VERDICT_COLOURS[calibration.verdict]}")
    say(texts.to_do(calibration))
    say(texts.meaning(calibration))
    say(texts.sampling(calibration))
    say()
    columns = 2 if calibration.details["method"] == "identity" else 3  # where there is an after
    rows = [(texts.how_known(calibration), "before", "after"), *texts.estimate_rows(calibration)]
    header, *rows = (row[:columns] for row in rows)
    table(header, rows)
    show_findings(calibration.findings)


def show_findings(findings: Sequence[Any]) -> None:
    """Print findings with advice, the most serious first."""
    if not findings:
        return
    say()
    for finding in findings:
        title = in_options(finding.title)
        say(f"{finding.code} {finding.severity}: {title}", FINDING_COLOURS[finding.severity])
        say(in_options(finding.advice), indent=6)


def show_threshold(threshold: Any, max_error: float) -> None:
    """Print from which confidence rows may be accepted, and how far that is certain."""
    say()
    if threshold.confidence is None:
        say(f"Accept no row: no confidence keeps the share of wrong rows at {percent(max_error)}.")
        return
    error = threshold.error
    kind = "are guaranteed" if threshold.guaranteed else "are estimated"
    say(
        f"Accept rows of a confidence of at least {threshold.confidence:.4f}: that is "
        f"{percent(threshold.coverage)} of the rows. At most {percent(error.high)} of them "
        f"{kind} to be wrong (most likely {percent(error.value)}), at a level of 90%."
    )
    if threshold.guaranteed:
        say(
            "The guarantee is of the calibration without the labelled rows: a calibration that has "
            "used labels cannot be tested with the same labels. Run calibrate without --labelled "
            "to save that calibration."
        )
    else:
        say("Labelled rows of the target (--labelled) turn the estimate into a guarantee.")


def show_files(written: dict[str, Any]) -> None:
    """Say on stderr what was written where."""
    for what, path in written.items():
        if path is not None:
            print(printable(f"wrote {what}: {path}"), file=sys.stderr)  # noqa: T201


def show_missed(missed: Sequence[str]) -> None:
    """Print which gates were missed, and by how much."""
    for reason in missed:
        say(f"Gate missed: {reason}.", "bold red")


def note_doubts(gates: Sequence[Gate]) -> None:
    """Say on stderr which gates lie inside an interval."""
    for gate in gates:
        if gate.open:
            note(gate.doubt())


def note(sentence: str) -> None:
    """Say on stderr what a person should know about the result, in one line."""
    print(f"temperance: {printable(sentence)}", file=sys.stderr)  # noqa: T201


def note_columns(prefix: str, classes: list[str] | None) -> None:
    """Say on stderr which column of a table is which class, where the classes have names."""
    if classes is None or classes == [str(k) for k in range(len(classes))]:
        return
    shown = ", ".join(name[:40] for name in classes[:20]) + (", …" if len(classes) > 20 else "")
    note(f"{prefix}_0 to {prefix}_{len(classes) - 1} are the classes {shown}.")


def scores(evaluation: Any) -> dict[str, float]:
    """Return the numbers of an evaluation by name."""
    names = ("accuracy", "confidence", "nll", "brier", "ece")
    return {name: getattr(evaluation, name) for name in names}


def show_fit(method: str, fitted: Any, n: int, before: Any, after: Any) -> None:
    """Print a fitted map and what it does to the rows it was fitted on."""
    say(f"{method}, fitted on {n:,} rows", "bold")
    t = fitted.parameters().get("temperature")
    if t is not None:
        side = "smaller" if t > 1 else "larger"
        say(f"Temperature {float(t):.4g}: the confidence of the model becomes {side}.")
    say()
    one, two = scores(before), scores(after)
    table(
        ("on the rows of the fit", "before", "after"),
        [(NAMES[name], f"{one[name]:.4f}", f"{two[name]:.4f}") for name in one],
    )


NAMES = {
    "accuracy": "accuracy (higher is better)",
    "confidence": "mean confidence",
    "nll": "NLL (lower is better)",
    "brier": "Brier, mean over classes (lower is better)",
    "ece": "ECE (lower is better)",
}


def show_measured(
    n: int, groups: int | None, before: dict[str, Any], after: dict[str, Any] | None
) -> None:
    """Print measured metrics with their intervals."""
    columns = [before] if after is None else [before, after]
    names = ["value"] if after is None else ["before", "after"]
    rows = [
        (NAMES[name], *("{:.4f} [{:.4f}, {:.4f}]".format(*column[name]) for column in columns))
        for name in before
    ]
    among = "" if groups is None else f" in {groups:,} groups"
    table((f"measured on {n:,} labelled rows{among}", *names), rows)


def show_artefact(held: Any, facts: dict[str, Any]) -> None:
    """Print what an artefact holds."""
    say(f"{facts['kind']}, format {facts['version']}, by temperance {facts['package']}", "bold")
    fitted = held.map if isinstance(held, Calibration) else held
    parts = [
        f"{name} {float(value):.6g}" if value.ndim == 0 else f"{name} of shape {value.shape}"
        for name, value in fitted.parameters().items()
    ]
    say(f"map: {fitted.kind}, {', '.join(parts)}")
    about = facts.get("details", facts)
    if about.get("classes"):
        mix = about.get("prior") or [None] * len(about["classes"])
        shown = [
            str(c)[:40] + ("" if q is None else f" {percent(q)}")
            for c, q in zip(about["classes"], mix, strict=True)
        ]
        say(f"classes: {', '.join(shown[:20])}{', …' if len(shown) > 20 else ''}")
    hashes = about["fitted_on"] or "not recorded"
    if isinstance(hashes, dict):
        hashes = ", ".join(f"{name} {value}" for name, value in hashes.items() if value)
    say(f"fitted on: {hashes}")
    say("sha256: matches the content")
    if isinstance(held, Calibration):
        say()
        show_calibration(held)


class Gate(NamedTuple):
    """A limit of a metric beside the value that was measured or estimated."""

    name: str
    found: Sequence[float] | None  # value, low, high; None where nothing is known
    limit: float
    largest: bool  # whether the limit is the largest value that passes, or the smallest

    @property
    def missed(self) -> bool:
        """Return whether the value is on the wrong side, or not known."""
        if self.found is None:
            return True
        value = self.found[0]
        return value > self.limit if self.largest else value < self.limit

    @property
    def open(self) -> bool:
        """Return whether the interval has values on both sides: the rows cannot tell."""
        return self.found is not None and self.found[1] < self.limit < self.found[2]

    def says(self) -> str:
        """Return why the gate was missed."""
        side = "above" if self.largest else "below"
        if self.found is None:
            return f"{self.name} is not known, and {self.limit:g} was demanded"
        return f"{self.name} {self.found[0]:.4f} is {side} {self.limit:g}"

    def doubt(self) -> str:
        """Return why the gate might have ended otherwise."""
        _, low, high = self.found or (0, 0, 0)
        return (
            f"the interval of the {self.name}, {low:.4f} to {high:.4f}, spans the gate "
            f"{self.limit:g}: these rows cannot tell on which side it lies."
        )


def gates(
    found: Mapping[str, Sequence[float] | None], max_ece: float | None, min_accuracy: float | None
) -> list[Gate]:
    """Return what was demanded, beside what was found."""
    demanded: list[Gate] = []
    for name, limit, largest in (("ECE", max_ece, True), ("accuracy", min_accuracy, False)):
        if limit is not None:
            value = found[name.lower()]
            every = value is not None and value[1] <= 0 and value[2] >= 1  # nothing is known then
            demanded.append(Gate(name, None if every else value, limit, largest))
    return demanded
