"""One window: what is estimated of it, for the map in use and for the map that would replace it.

The estimates are those of `temperance.calibrate` and `Calibration.expected`, computed from the
plausible maps of the window for the predictions and the confidence of the map in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from temperance._core.stats import Z90, Interval, overlap, wilson
from temperance.calibrate.constants import POLICY
from temperance.calibrate.expected import Answers, answers
from temperance.calibrate.findings import found
from temperance.calibrate.result import Calibration, Finding
from temperance.calibrate.uncertainty import interval_over
from temperance.maps import Map
from temperance.metrics.binned import N_BINS, bin_index

if TYPE_CHECKING:
    from temperance.monitor.alarms import Alarm

ELEMENTS_READ = 1 << 18  # rows times classes that estimates read: beyond, sampling errors are small
MOST_NAMED = 20  # classes whose recall, precision and F1 are kept, the most frequent ones
TO_LABEL = 30  # rows to label that are kept
PLAUSIBLE = 400  # numbers of plausible maps that are kept
NEW_CALIBRATION = {"improved": "would help", "no-evidence": "no clear gain", "refused": "refused"}
SHARED = ("classes", "prior", "prior_low", "prior_high", "prior_kind")  # by all windows


@dataclass(frozen=True)
class Estimates:
    """Estimates of the map in use on some rows, with 90 % intervals.

    Attributes
    ----------
    rows : int
    verdict : {"improved", "no-evidence", "refused"}
        Of a calibration of these rows.
    accuracy, ece : Interval or None
        Of the predictions and of the confidence of the map in use.
    confidence : float or None
        Mean confidence of the map in use.
    recall, precision, f1 : dict of Interval or None, by class
        Of at most twenty classes, the most frequent ones and those with a limit.
    auc : Interval or None
        Mean over the classes, each against the rest; of at most twenty classes.
    mix : dict of float
        Share of predictions by class.
    findings : tuple of Finding
    label_next : tuple of int
        Rows to label, best first.
    """

    rows: int
    verdict: str
    accuracy: Interval | None = None
    ece: Interval | None = None
    confidence: float | None = None
    recall: dict[str, Interval | None] = field(default_factory=dict[str, "Interval | None"])
    precision: dict[str, Interval | None] = field(default_factory=dict[str, "Interval | None"])
    f1: dict[str, Interval | None] = field(default_factory=dict[str, "Interval | None"])
    auc: Interval | None = None
    mix: dict[str, float] = field(default_factory=dict[str, float])
    findings: tuple[Finding, ...] = ()
    label_next: tuple[int, ...] = ()


@dataclass(frozen=True)
class Window(Estimates):
    """A window of a monitor: the answer of `Monitor.add`.

    Attributes
    ----------
    at : str
        Date, or date and time, in ISO 8601.
    n_labelled : int
        Labelled rows that were used, late ones included.
    segments : dict of Estimates
        By ``"column=value"``. Their intervals hold all together at 90 %.
    alarms : tuple of Alarm
        Loudest first.
    """

    at: str = ""
    id: str = ""
    n_labelled: int = 0
    segments: dict[str, Estimates] = field(default_factory=dict[str, Estimates])
    alarms: tuple[Alarm, ...] = ()

    @property
    def severity(self) -> str | None:
        """Return the severity of the loudest alarm."""
        return self.alarms[0].severity if self.alarms else None

    def __str__(self) -> str:
        """Return the estimates and the alarms, a line each."""
        known = {"accuracy": self.accuracy, "ece": self.ece}
        said = [f"{n} {'not known' if v is None else format(v, '.3f')}" for n, v in known.items()]
        new = f"new calibration: {NEW_CALIBRATION[self.verdict]}"
        head = f"{self.at}: {self.rows:,} rows, {', '.join(said)}, {new}"
        return "\n".join([head, *(f"  {alarm}" for alarm in self.alarms)])


def describe(
    cal: Calibration, z: NDArray[Any], used: Map, named: Sequence[str], level: float
) -> dict[str, Any]:
    """Return the facts of `Estimates`, and how the calibration compares with the map in use."""
    names: list[str] = list(cal.details["classes"])
    mix: list[float] = cal.details["predicted_mix"]
    frequent = sorted(range(len(names)), key=lambda k: (names[k] not in named, -mix[k]))
    kept = sorted(frequent[:MOST_NAMED])
    facts: dict[str, Any] = {"rows": cal.details["n_target"], "verdict": cal.verdict}
    if cal.verdict == "refused":
        return facts
    size = max(1, ELEMENTS_READ // z.shape[1])
    if len(z) > size:
        z = z[np.random.default_rng(0).choice(len(z), size, replace=False)]
    now = replace(cal, map=used)
    given, expected = answers(now, z, "monitor"), now.expected(z)
    facts |= {
        "accuracy": given.share(1 - given.wrong.mean(axis=1), len(z), level),
        "ece": _calibration_error(given, level),
        "confidence": float(given.confidence.mean()),
        "auc": expected.macro_auc if len(names) <= MOST_NAMED else None,
        **{
            name: {names[k]: getattr(expected, name)[k] for k in kept}
            for name in ("recall", "precision", "f1")
        },
    }
    proposed, other = cal.expected(z), answers(cal, z, "monitor")
    facts["proposed"] = {
        "accuracy": proposed.accuracy,
        "ece": _calibration_error(other, level),
        "recall": {names[k]: proposed.recall[k] for k in kept if names[k] in named},
        "gain": _gain(given, other.used),
    }
    return facts


def _calibration_error(given: Answers, level: float) -> Interval:
    """Return the calibration error of a map, over the plausible maps."""
    top = given.confidence
    place = bin_index(top, N_BINS)
    apart = top - 1 + given.wrong
    gaps = [np.abs(np.bincount(place, gap, N_BINS)).sum() / len(top) for gap in apart]
    chance = np.sqrt(2 / np.pi * np.bincount(place, top * (1 - top), N_BINS)).sum() / len(top)
    noise = float(np.sqrt(np.sum(top * (1 - top)))) / len(top)
    error = interval_over(
        given.weights, np.array(gaps), sampling=noise, floor=float(chance), level=level
    )
    return Interval(error.value, max(error.low, 0.0), min(error.high, 1.0))


def _gain(given: Answers, proposed: NDArray[np.float64]) -> Interval:
    """Return the fall of the Brier score from the map in use to another, over plausible maps."""
    used, n = given.used, len(given.used)
    sharper = float(np.sum(used * used) - np.sum(proposed * proposed)) / n
    falls = [sharper - 2 * float(np.sum((used - proposed) * t)) / n for t in given.truths()]
    return interval_over(given.weights, np.array(falls))


def slim(cal: Calibration) -> dict[str, Any]:
    """Return the facts of a calibration without those that are long, or the same in each window."""
    facts = cal.to_dict()
    details = {name: v for name, v in facts["details"].items() if name not in SHARED}
    plausible = details["plausible"]
    if plausible is not None and np.size(plausible["biases"]) > PLAUSIBLE:
        details["plausible"] = None
    for name in ("label_next", "label_next_keys"):
        details[name] = details[name][:TO_LABEL]
    for name in ("predicted_mix", "mix_before", "mix_after"):
        details[name] = [round(share, 5) for share in details[name]]
    return facts | {"details": details | {"risk_coverage": None}}


def restored(facts: dict[str, Any], shared: dict[str, Any]) -> Calibration:
    """Return the calibration of `slim` facts."""
    return Calibration.from_dict(facts | {"details": facts["details"] | shared})


def interval(three: Any) -> Interval | None:
    """Return three numbers of a record as an interval."""
    return None if three is None else Interval(*map(float, three))


def read(
    facts: dict[str, Any], findings: list[dict[str, Any]], label_next: list[int]
) -> dict[str, Any]:
    """Return the arguments of `Estimates`; ``facts`` are those of `describe`."""
    tables = ("recall", "precision", "f1")
    held: dict[str, Any] = {name: facts[name] for name in ("rows", "verdict")}
    held["findings"] = tuple(Finding(**one) for one in findings)
    held["label_next"] = tuple(label_next)
    held |= {name: interval(facts.get(name)) for name in ("accuracy", "ece", "auc")}
    held |= {t: {k: interval(v) for k, v in facts.get(t, {}).items()} for t in tables}
    held["confidence"] = facts.get("confidence")
    return held


def with_labels(held: dict[str, Any], labels: dict[str, Any]) -> dict[str, Any]:
    """Return estimates after labels that came when the rows were gone.

    The estimate of a share is taken for a beta distribution of the same mean and width, and the
    labels are counted on top. Labels that contradict the estimate stand alone.
    """
    n, hits = labels["n"], labels["hits"]
    before: Interval | None = held["accuracy"]
    accuracy, contradicted = _updated(before, n, hits)
    recall = {
        name: _updated(held["recall"].get(name), *counts)[0]
        for name, counts in labels["by_class"].items()
    }
    findings = [*held["findings"], found("TP408", rows=n)]
    if contradicted and before is not None:
        right = {"measured": hits / n, "rows": n, "low": before.low, "high": before.high}
        findings.insert(0, found("TP407", **right))
    return held | {
        "accuracy": accuracy,
        "ece": _error_after(held, accuracy),
        "recall": held["recall"] | recall,
        "findings": tuple(findings),
    }


def _error_after(held: dict[str, Any], accuracy: Interval) -> Interval | None:
    """Return the calibration error that goes with a new accuracy.

    The error is at least the distance of mean confidence and accuracy; what it was estimated to be
    beyond that distance stays.
    """
    before, ece, confidence = held["accuracy"], held["ece"], held["confidence"]
    if before is None or ece is None:
        return ece
    beyond = max(ece.value - abs(confidence - before.value), 0.0)
    value, *ends = (abs(confidence - share) for share in accuracy)
    low = 0.0 if accuracy.low < confidence < accuracy.high else min(ends)
    return Interval(min(value + beyond, 1.0), low, min(max(ends) + beyond, 1.0))


def _updated(before: Interval | None, n: int, hits: int) -> tuple[Interval, bool]:
    contradicted = before is not None and not overlap(wilson(hits / n, n), before)
    a = b = 1.0
    if before is not None and not contradicted:
        mean = min(max(before.value, 0.01), 0.99)
        error = max((before.high - before.low) / (2 * Z90), 1e-3)
        strength = max(mean * (1 - mean) / error**2 - 1, 2.0)
        a, b = mean * strength, (1 - mean) * strength
    a, b, tail = a + hits, b + n - hits, (1 - POLICY.level) / 2
    low, high = (float(betaincinv(a, b, q)) for q in (tail, 1 - tail))
    return Interval(a / (a + b), low, high), contradicted
