"""Facts in plain words: the sentences that the report and the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance.calibrate.result import Calibration

HEADLINES = {
    "improved": "Use the calibrated confidence.",
    "no-evidence": "No evidence that this model needs a new calibration here.",
    "refused": "No calibration is possible with these data.",
}
LEANING = "Not enough evidence for a new calibration here."
CONTRADICTED = "Labels contradict this calibration."
UNCONFIRMED = "Labels do not confirm this calibration."
ENOUGH = 30  # labelled rows that tell a wrong map from a right one
JOINERS = "\u200c\u200d"  # they shape letters, and no more


def percent(share: float) -> str:
    """Return a share in per cent, with a digit more where it is small or nearly all.

    >>> percent(0.5481), percent(0.923), percent(0.997), percent(0.0241), percent(1.0)
    ('55%', '92%', '99.7%', '2.4%', '100%')
    """
    digits = 1 if 0 < share < 0.0995 or 0.985 < share < 1 else 0
    return f"{100 * share:.{digits}f}%"


def tenths(share: float) -> str:
    """Return a share in per cent with one decimal, for columns that are compared."""
    return f"{100 * share:.1f}%"


def known(interval: Sequence[float]) -> bool:
    """Return whether an interval of a share says anything: not when it is all of [0, 1]."""
    return not (interval[1] <= 0 and interval[2] >= 1)


def between(interval: Sequence[float]) -> str:
    """Return a share with its interval, in per cent.

    >>> between((0.548, 0.401, 0.687)), between((0.5, 0.0, 1.0))
    ('55% (40% to 69%)', 'not known')
    """
    if not known(interval):
        return "not known"
    return f"{percent(interval[0])} ({percent(interval[1])} to {percent(interval[2])})"


def meaning(calibration: Calibration, audit: dict[str, Any] | None = None) -> str:
    """Return what the verdict means for the reader, with the numbers."""
    facts = calibration.facts
    answered = audit is not None and audit["n"] >= ENOUGH  # by labels, what was in doubt
    n = f"{facts['n_target']:,}"
    sure = percent(facts["confidence_before"])
    if calibration.verdict == "refused":
        reasons = [f.title for f in calibration.findings if f.severity == "refuse"]
        return (
            f"{' '.join(reasons)} No map was fitted to these {n} rows: the model's own confidence, "
            f"{sure} on average, is kept as it is, and nothing is known about how far it can be "
            f"trusted."
        ).strip()
    right = between(facts["accuracy_before"])
    if calibration.verdict == "no-evidence":
        return (
            f"On these {n} rows the model is {sure} sure on average and estimated to be right for "
            f"{right} of them. {_why_no_more(calibration)}"
        )
    before, after = calibration.ece_before.value, calibration.ece_after.value
    gap = (
        f"The gap between confidence and accuracy is estimated at {percent(after)}, against "
        f"{percent(before)} before."
    )
    if after >= before:  # possible where the interval is wide: better over all of it, not inside
        gap = "Over all that the accuracy may be, that is closer than the model's own."
    return (
        f"On these {n} rows the model says it is {sure} sure on average, and it is estimated to be "
        f"right for {right} of them. The calibrated confidence is "
        f"{percent(facts['confidence_after'])} on average. {gap} "
        f"{'' if answered else calibration.doubt}"
    ).strip()


def _leaning(calibration: Calibration) -> str:
    """Return on which side of the interval of the accuracy the model's confidence lies, or ''."""
    _, low, high = calibration.facts["accuracy_before"]
    sure = calibration.facts["confidence_before"]
    return "modest" if sure < low else "sure" if sure > high else ""


def _why_no_more(calibration: Calibration) -> str:
    """Return why a calibration without evidence goes no further, and what it does."""
    by_source = calibration.facts["method"] == "source temperature"
    if not (side := _leaning(calibration)):
        kept = "the model's own confidence is kept"
        if by_source:
            kept = "the temperature of the labelled source is applied"
        return f"Its confidence and its accuracy do not differ enough to act on, so {kept}."
    so = "to act on, so the model's own confidence is kept"
    if by_source:
        so = "for more than the temperature of the labelled source, which is applied"
    return f"It may be too {side} here, but that is not certain enough {so}."


def headline(calibration: Calibration, audit: dict[str, Any] | None) -> str:
    """Return the answer in one line: that of the labels, where they have one."""
    if audit is not None and not confirmed(audit):
        return CONTRADICTED if contradicted(audit) else UNCONFIRMED
    if calibration.verdict == "no-evidence" and _leaning(calibration):
        return LEANING
    return HEADLINES[calibration.verdict]


def contradicted(audit: dict[str, Any]) -> bool:
    """Return whether labels, enough of them, put the accuracy elsewhere than the estimate."""
    return not audit["agrees"] and audit["n"] >= ENOUGH


def confirmed(audit: dict[str, Any]) -> bool:
    """Return whether nothing that labels say speaks against a calibration, however few."""
    return audit["agrees"] and not _worse(audit)


def _worse(audit: dict[str, Any]) -> list[str]:
    """Return what is measured to be worse after the calibration than before."""
    names = {"ece": "gap", "nll": "NLL"}
    return [
        name for key, name in names.items() if audit[f"{key}_after"][0] > audit[f"{key}_before"][0]
    ]


def subject(calibration: Calibration) -> str:
    """Return in one line what a report is about: how many rows, held against what."""
    facts = calibration.facts
    source = f"{facts['n_source']:,} labelled rows" if facts["n_source"] else "no labelled rows"
    return f"{facts['n_target']:,} rows without labels, held against {source}."


def measured(audit: dict[str, Any]) -> str:
    """Return what labelled rows say, in a sentence or two."""
    n = f"{audit['n']:,} row{'' if audit['n'] == 1 else 's'}"
    said = (
        f"The labels of {n} put the accuracy at {between(audit['accuracy'])} and "
        f"the gap between confidence and accuracy at {percent(audit['ece_after'][0])}, against "
        f"{percent(audit['ece_before'][0])} before."
    )
    if audit["n"] < ENOUGH:
        few = f"ewer than {ENOUGH} rows are too few to tell: label more."
        if audit["agrees"]:
            return f"{said} F{few}"
        return f"{said} That does not agree with the estimate, but f{few}"
    if not audit["agrees"]:
        return f"{said} That does not agree with the estimate: trust the measurement."
    if worse := _worse(audit):
        return (
            f"{said} The accuracy is as estimated, but on these rows the calibration makes the "
            f"{' and the '.join(worse)} worse: trust the measurement."
        )
    return f"{said} That agrees with the estimate."


def cut(text: object, length: int) -> str:
    """Return text that a page has room for; the facts inside the page keep it whole.

    >>> cut("melanoma", 5)
    'mela…'
    """
    text = printable(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def printable(text: object) -> str:
    r"""Return text without the characters that steer a terminal or turn the text around.

    >>> printable("mole\x1b[31m\u202e")
    'mole [31m '
    """
    return "".join(c if c.isprintable() or c in JOINERS else " " for c in str(text))


def estimate_rows(calibration: Calibration) -> list[tuple[str, str, str]]:
    """Return the estimates as rows of (what, before, after)."""
    facts = calibration.facts
    before, after = facts["confidence_before"], facts["confidence_after"]
    return [
        ("mean confidence", percent(before), percent(after)),
        ("accuracy", between(facts["accuracy_before"]), between(calibration.accuracy)),
        (
            "calibration error (lower is better)",
            between(calibration.ece_before),
            between(calibration.ece_after),
        ),
        ("temperature", "1", "{:.2f} ({:.2f} to {:.2f})".format(*calibration.temperature)),
    ]


def evidence_text(evidence: dict[str, Any]) -> str:
    """Return the numbers of a finding in one line, long lists cut short.

    >>> evidence_text({"rows": 12, "p_value": 3.5e-128, "low": [0.1, 0.2]})
    'rows = 12, p_value = 3.5e-128, low = 0.1, 0.2'
    """
    return ", ".join(f"{name} = {_plain(value)}" for name, value in evidence.items())


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        more = ", …" if len(value) > 8 else ""
        return ", ".join(_plain(v) for v in value[:8]) + more
    text = str(value)
    return text if len(text) <= 120 else text[:119] + "…"
