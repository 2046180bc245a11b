"""Facts in plain words: the sentences that the report and the command line share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temperance.calibrate.constants import POLICY
from temperance.calibrate.result import Calibration

HEADLINES = {
    "improved": "Use the calibrated confidence.",
    "no-evidence": "No clear gain from calibration is expected here.",
    "refused": "No calibration is possible with these data.",
}
UNSURE = "Use the calibrated confidence, but label some rows before you rely on it."
ABOUT_RIGHT = "The model's confidence is about right here."
SMALL_ERROR = 0.05  # calibration error up to which confidence is called about right
NARROW = 0.05  # width of an interval below which its ends are told apart by tenths of a per cent
WIDE_INTERVAL = 0.4  # width of the interval of the accuracy from which labels are asked for first
TO_DO = {
    "improved": "Use the calibrated probabilities in place of the model's own.",
    "no-evidence": (
        "The calibrated probabilities are applied, and whether they are better than the model's "
        "own is open: labels of a few rows would decide."
    ),
    "refused": "Do not rely on the confidence of the model on these rows.",
}
NO_GAIN = (
    "The calibrated probabilities are applied, and the model's own are estimated to be as good: "
    "labels of a few rows would decide."
)
CONTRADICTED = "Labels contradict this calibration."
UNCONFIRMED = "Labels do not confirm this calibration."
NOT_RIGHT_YET = (
    "Better than the model's own confidence, but not right yet: calibrate again with these labels."
)
ROWS_TO_AUDIT = 30  # labelled rows at which an audit finds a wrong calibration
PLAIN = {
    "the rows that label_next names": "the rows listed below",
    "those of label_next": "rows that such a page had listed",
    ": prior=, source= or labelled=.": ".",
    " (temperance.about)": "",
}
JOINERS = "\u200c\u200d"  # characters that only join or part letters


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


def between(interval: Sequence[float] | None) -> str:
    """Return a share with its interval, in per cent; None is not known.

    >>> between((0.548, 0.401, 0.687)), between(None)
    ('55% (40% to 69%)', 'not known')
    """
    if interval is None:
        return "not known"
    shown = tenths if interval[2] - interval[1] < NARROW else percent
    value, low, high = (shown(share) for share in interval)
    return f"{value} ({low} to {high})"


def meaning(calibration: Calibration, audit: dict[str, Any] | None = None) -> str:
    """Return what the verdict means for the reader, with the numbers."""
    facts = calibration.details
    answered = audit is not None and audit["n"] >= ROWS_TO_AUDIT  # by labels, what was in doubt
    n = f"{facts['n_target']:,}"
    own = percent(facts["confidence_before"])
    before, after = calibration.ece_before, calibration.ece_after
    if before is None or after is None:
        reasons = [f.title for f in calibration.findings if f.severity == "refuse"]
        return (
            f"{' '.join(reasons)} No calibration was fitted to these {n} rows. "
            f"{applied(calibration)} "
            f"Nothing is known about how far the confidence, {own} on average, can be trusted."
        ).strip()
    when = "On" if audit is None else "What was estimated without these labels: on"
    said = (
        f"{when} these {n} rows the model says it is {own} sure on average, and it is estimated to "
        f"be right for {between(facts['accuracy_before'])} of them. With the calibration its "
        f"confidence is {percent(facts['confidence_after'])} on average, and the gap between "
        f"confidence and accuracy is estimated at {percent(after.value)}, against "
        f"{percent(before.value)} before."
    )
    said += f" {gain_sentence(calibration)}"
    return f"{said} {'' if answered else calibration.doubt}".strip()


def gain_sentence(calibration: Calibration) -> str:
    """Return how probable it is that the calibrated probabilities are the better ones."""
    share = calibration.details["probability_of_gain"]
    if share is None:
        return ""
    shown = "over 99%" if share > 0.99 else "under 1%" if share < 0.01 else f"{100 * share:.0f}%"
    return (
        "The probability that the calibrated probabilities are better than the model's own is "
        f"{shown}{_why_not(calibration, share)}."
    )


def _why_not(calibration: Calibration, share: float) -> str:
    """Return why a gain of this probability is not promised, or nothing where it is."""
    gain, before, after = calibration.gain, calibration.ece_before, calibration.ece_after
    if calibration.verdict == "improved" or gain is None or before is None or after is None:
        return ""
    if share >= POLICY.improved_probability and gain.value < POLICY.improved_gain:
        return ", but the gain is expected to be small"
    if share >= POLICY.improved_without_mix and after.value >= before.value:
        return ", but the calibration error is not expected to fall"
    return ", which is not certain enough to promise a gain"


def to_do(calibration: Calibration) -> str:
    """Return what the reader should do, in a sentence."""
    known = calibration.accuracy
    if known is not None and calibration.verdict == "improved" and unsure(calibration):
        return (
            "Label some rows first: all that is known allows an accuracy from "
            f"{percent(known[1])} to {percent(known[2])}."
        )
    gain = calibration.gain
    if (most := _small_error(calibration)) is not None:
        return (
            "Use the calibrated probabilities or the model's own: either is estimated to differ "
            f"from the accuracy by {percent(most)} at most."
        )
    if calibration.verdict == "no-evidence" and gain is not None and gain.value <= 0:
        return NO_GAIN
    return TO_DO[calibration.verdict]


def about_right(calibration: Calibration) -> bool:
    """Return whether no gain is expected because nothing needs to be corrected."""
    return _small_error(calibration) is not None


def _small_error(calibration: Calibration) -> float | None:
    """Return the largest plausible calibration error, before or after, where it is small."""
    before, after = calibration.ece_before, calibration.ece_after
    if calibration.verdict != "no-evidence" or before is None or after is None:
        return None
    most = max(before.high, after.high)
    return most if most <= SMALL_ERROR else None


def unsure(calibration: Calibration) -> bool:
    """Return whether the accuracy is known so badly that labels should come first."""
    known = calibration.accuracy
    return known is not None and known[2] - known[1] > WIDE_INTERVAL


def applied_name(calibration: Calibration) -> str:
    """Return what the probabilities after the calibration are called."""
    if calibration.details["method"] == "source temperature":
        return "with the source's temperature"
    return "calibrated confidence"


def how_known(calibration: Calibration) -> str:
    """Return what the estimates rest on, as the heading of a table."""
    n = calibration.details["n_labelled"]
    return f"estimated with {n:,} labels" if n else "estimated without labels"


def applied(calibration: Calibration) -> str:
    """Return what a refused calibration leaves in use."""
    if calibration.details["method"] == "source temperature":
        t = calibration.temperature.value
        return f"The temperature of the labelled source, {t:.3g}, is applied."
    return "The model's own confidence is kept as it is."


def headline(calibration: Calibration, audit: dict[str, Any] | None) -> str:
    """Return the answer in one line: that of the labels, where they have one."""
    if audit is not None and not confirmed(audit):
        return CONTRADICTED if contradicted(audit) else UNCONFIRMED
    if audit is not None and calibration.verdict == "improved" and not_right_yet(audit):
        return NOT_RIGHT_YET
    if calibration.verdict == "improved" and unsure(calibration) and audit is None:
        return UNSURE
    if audit is None and about_right(calibration):
        return ABOUT_RIGHT
    return HEADLINES[calibration.verdict]


def contradicted(audit: dict[str, Any]) -> bool:
    """Return whether labels, enough of them, put the accuracy elsewhere than the estimate."""
    return audit["agrees"] is False and audit["n"] >= ROWS_TO_AUDIT


def confirmed(audit: dict[str, Any]) -> bool:
    """Return whether nothing that labels say speaks against a calibration, however few."""
    return audit["agrees"] is not False and not _worse(audit)


def not_right_yet(audit: dict[str, Any]) -> bool:
    """Return whether labels, enough of them, show a calibration error that is not small."""
    return audit["n"] >= ROWS_TO_AUDIT and audit["ece_after"][1] > SMALL_ERROR


def _worse(audit: dict[str, Any]) -> list[str]:
    """Return what is measured to be worse after the calibration than before."""
    names = {"ece": "gap", "nll": "NLL"}
    return [
        name for key, name in names.items() if audit[f"{key}_after"][0] > audit[f"{key}_before"][0]
    ]


def subject(calibration: Calibration) -> str:
    """Return in one line what a report is about: how many rows, compared with what."""
    facts = calibration.details
    known = f"compared with {facts['n_source']:,}" if facts["n_source"] else "without"
    source = f"{known} labelled rows from before the shift"
    n = facts["n_labelled"]
    labels = f" Labels of {n:,} target row{'' if n == 1 else 's'} were used." if n else ""
    return f"{facts['n_target']:,} rows without labels, {source}.{labels}"


def sampling(calibration: Calibration) -> str:
    """Return how many of the target rows were read, and how many the fit used."""
    facts = calibration.details
    n, read, solved = (facts[name] for name in ("n_target", "n_read", "n_solved"))
    first = (
        f"All {n:,} target rows were read"
        if read == n
        else f"{read:,} of the {n:,} target rows were read, drawn at random"
    )
    if calibration.verdict == "refused":
        return f"{first}."
    return f"{first}; the fit used {'all of them' if solved == read else f'{solved:,} of them'}."


def measured(audit: dict[str, Any]) -> str:
    """Return what labelled rows say, in a sentence or two."""
    n = f"{audit['n']:,} row{'' if audit['n'] == 1 else 's'}"
    said = (
        f"The labels of {n} put the accuracy at {between(audit['accuracy'])} and "
        f"the gap between confidence and accuracy at {between(audit['ece_after'])}, against "
        f"{between(audit['ece_before'])} before."
    )
    if audit["n"] < ROWS_TO_AUDIT:
        few = f"ewer than {ROWS_TO_AUDIT} rows are too few to tell: label more."
        if audit["agrees"] is not False:
            return f"{said} F{few}"
        return f"{said} That does not agree with the estimate, but f{few}"
    if audit["agrees"] is False:
        return f"{said} That does not agree with the estimate: trust the measurement."
    if worse := _worse(audit):
        return (
            f"{said} The interval of the estimate allows that accuracy, but on these rows the "
            f"calibration makes the {' and the '.join(worse)} worse: trust the measurement."
        )
    return f"{said} The interval of the estimate allows that." if audit["agrees"] else said


def on_the_page(sentence: str) -> str:
    """Return a sentence of the library for readers who see the page and no Python.

    >>> on_the_page("Label the rows that label_next names for a narrower answer.")
    'Label the rows listed below for a narrower answer.'
    """
    for python, plain in PLAIN.items():
        sentence = sentence.replace(python, plain)
    return sentence


def cut(text: object, length: int) -> str:
    """Return text that fits a page; the facts inside the page keep it whole.

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
    facts = calibration.details
    before, after = facts["confidence_before"], facts["confidence_after"]
    t, low, high = calibration.temperature
    return [
        ("mean confidence", percent(before), percent(after)),
        ("accuracy", between(facts["accuracy_before"]), between(calibration.accuracy)),
        (
            "calibration error (lower is better)",
            between(calibration.ece_before),
            between(calibration.ece_after),
        ),
        ("temperature", "1", f"{t:.2f} ({low:.2f} to {high:.2f})" if low < high else f"{t:.2f}"),
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
