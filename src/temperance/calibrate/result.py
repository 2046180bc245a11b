"""What `temperance.calibrate` answers: a map, a verdict, and the details behind them.

These are frozen values. All that a report or a command line shows is in `Calibration.to_dict`, as
plain numbers, strings and lists; nothing is computed from the data again. What is not known is
None.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from temperance._core.arrays import to_numpy
from temperance._core.checks import (
    InputError,
    check_choice,
    check_integer,
    check_number,
    check_same_classes,
    names_for,
)
from temperance._core.stats import Z90, Interval
from temperance.calibrate.stored import check_stored
from temperance.data.given import as_labelled_rows, fingerprint
from temperance.io import artefact
from temperance.metrics.binned import ece
from temperance.metrics.bootstrap import bootstrap, group_numbers
from temperance.metrics.proper import accuracy, nll

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from temperance._core.arrays import Array
    from temperance.calibrate.expected import Expected
    from temperance.calibrate.problem import Problem
    from temperance.calibrate.threshold import Threshold
    from temperance.data.types import LabelsLike, LogitsLike
    from temperance.maps import Map

Verdict = Literal["improved", "no-evidence", "refused"]
VERDICTS = ("improved", "no-evidence", "refused")
MEANING = {
    "improved": "The calibrated probabilities are expected to be better than the model's own.",
    "no-evidence": "No clear gain over the model's own probabilities: it is small or not certain.",
    "refused": "These data do not support a new calibration.",
}
APPLIED = {
    "matched": "What is applied fits best all that is known: {}.",
    "labelled": "What is applied fits best all that is known, labelled rows included: {}.",
    "source temperature": "The temperature of the labelled source is applied.",
    "identity": "The model's own probabilities are kept.",
}
DOUBTS = {
    "TP401": "The estimates behind it disagree: label some rows before relying on it.",
    "TP106": "The class mix that was given is doubtful: check it before relying on the answer.",
    "TP407": "The labels contradict what was estimated without them.",
}
INTERVALS = ("temperature", "accuracy", "ece_before", "ece_after", "gain")
LEVEL = 0.9  # coverage of all intervals


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed about the data, with its numbers and what to do about it.

    Attributes
    ----------
    code : str
        ``TP`` and three digits: 1 for the class mix, 2 for the shift, 3 for the amount of data, 4
        for agreement of the estimates, 5 for the data themselves.
    title : str
        A sentence.
    evidence : dict
        The numbers, by name.
    advice : str
        What the reader can do.
    severity : {"refuse", "warn", "note"}
    """

    code: str
    title: str
    evidence: dict[str, Any]
    advice: str
    severity: str = "note"

    def to_dict(self) -> dict[str, Any]:
        """Return plain facts."""
        return {
            "code": self.code,
            "title": self.title,
            "evidence": self.evidence,
            "advice": self.advice,
            "severity": self.severity,
        }


@dataclass(frozen=True)
class Calibration:
    """A calibration map with its verdict: the answer of `temperance.calibrate`.

    Attributes
    ----------
    verdict : {"improved", "no-evidence", "refused"}
        Whether the map is expected to be better than the model's own probabilities.
    map : Map
        Takes logits to calibrated logits: the map of highest expected score; where the verdict is
        "refused", the temperature of the source, or the identity without one.
    temperature : Interval
        With a 90 % interval, as all estimates below.
    accuracy : Interval or None
        Share of right predictions of the map.
    ece_before, ece_after : Interval or None
        Calibration error of the model's own probabilities, and of the map's.
    gain : Interval or None
        Fall of the Brier score (sum over classes) against the model's own probabilities.
    findings : tuple of Finding
        Most serious first.
    details : dict
        All else, JSON-able: sizes, class mix, histograms, estimates, assumptions, hashes.
    """

    verdict: Verdict
    map: Map
    temperature: Interval
    accuracy: Interval | None
    ece_before: Interval | None
    ece_after: Interval | None
    gain: Interval | None = None
    findings: tuple[Finding, ...] = ()
    details: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)  # pages of numbers
    _problem: Problem | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """Return the verdict, what it means, the estimates and the findings, a line each."""
        known = {name: getattr(self, name) for name in INTERVALS}
        estimates = [
            f"{name:12} {'not known' if value is None else format(value, '.3g')}"
            for name, value in known.items()
        ]
        found = [f"{one.code} {one.severity}: {one.title}" for one in self.findings]
        return "\n".join([f"{self.verdict}: {self.meaning}", *estimates, *found])

    @property
    def kind(self) -> str:
        """Return the kind of artefact that this is."""
        return "calibration"

    @property
    def doubt(self) -> str:
        """Return the reservations about the answer, or nothing."""
        codes = [finding.code for finding in self.findings if self.verdict != "refused"]
        return " ".join(words for code, words in DOUBTS.items() if code in codes)

    @property
    def meaning(self) -> str:
        """Return what the verdict says, what is applied, and the doubt about it."""
        bias = "bias" in self.map.parameters()
        words = "a temperature and a class bias" if bias else "a temperature"
        applied = APPLIED[self.details.get("method", "matched")].format(words)
        return " ".join(filter(None, [MEANING[self.verdict], applied, self.doubt]))

    def predict_proba(self, logits: LogitsLike) -> Array:
        """Return calibrated class probabilities of the kind, dtype and device of ``logits``."""
        return self.map.predict_proba(logits)

    def update(self, logits: LogitsLike, labels: LabelsLike) -> Calibration:
        """Return the calibration with more labelled rows of its target.

        Parameters
        ----------
        logits : array of shape (m, K) or rows
            The model's own logits of rows like those of the target, or of some of them.
        labels : array of shape (m,)

        Examples
        --------
        >>> import numpy as np, temperance as tp
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(5, size=4000)
        >>> z = 9 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])
        >>> cal = tp.calibrate(z, prior=np.full(5, 0.2))
        >>> rows = cal.label_next(100)
        >>> better = cal.update(z[rows], y[rows])
        >>> bool(np.ptp(better.accuracy[1:]) < np.ptp(cal.accuracy[1:]))
        True
        """
        from temperance.calibrate import recalibrate  # the pipeline builds results

        if self._problem is None:
            msg = (
                "update needs the rows that the calibration was fitted on, and a file has none of "
                "them. Call temperance.calibrate again with labelled=(logits, labels)."
            )
            raise InputError(msg)
        return recalibrate(self._problem, logits, labels)

    def label_next(self, n: int = 30) -> list[int]:
        """Return rows of the fitted target to label, best first.

        The rows are spread evenly over the confidence of the map. Each row of the target is as
        likely to be among them as any other, so that what is measured on them is unbiased, and it
        varies less than on rows drawn at random.

        Parameters
        ----------
        n : int
            At most as many as are listed: 200, or all rows of a smaller target.
        """
        n = check_integer(n, "n", low=1)
        return [int(row) for row in self.details["label_next"][:n]]

    def labels_needed(self, width: float) -> int:
        """Return how many more labelled rows make the interval of the accuracy that narrow.

        Parameters
        ----------
        width : float
            Between the ends of the 90 % interval.

        Notes
        -----
        With a standard error s of the accuracy a now, m labels leave
        1 / (1 / s² + m / (a (1 - a))) of its variance.
        """
        width = check_number(width, "width", low=0, high=1, open_low=True)
        if self.accuracy is None:
            value, error = 0.5, 0.5 / Z90
        else:
            value = float(np.clip(self.accuracy.value, 0.02, 0.98))
            error = max((self.accuracy.high - self.accuracy.low) / (2 * Z90), 1e-6)
        wanted = width / (2 * Z90)
        more = value * (1 - value) * (1 / wanted**2 - 1 / error**2)
        return max(0, int(np.ceil(more)))

    def audit(self, logits: LogitsLike, labels: LabelsLike, groups: Any = None) -> Audit:
        """Measure the calibration on labelled rows of its target.

        Thirty rows tell a wrong map from a right one, two hundred measure it. Take random rows, or
        those of `label_next`.

        Parameters
        ----------
        logits : array of shape (n, K) or rows
            The model's own logits.
        labels : array of shape (n,)
        groups : array of shape (n,), optional
            Patients, videos, sites: drawn as a whole by the bootstrap.

        Returns
        -------
        Audit

        Examples
        --------
        >>> import numpy as np, temperance as tp
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(5, size=4000)
        >>> z = 9 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])
        >>> cal = tp.calibrate(z, prior=np.full(5, 0.2))
        >>> rows = cal.label_next(100)
        >>> measured = cal.audit(z[rows], y[rows])
        >>> measured.nll_after.high < measured.nll_before.low, len(measured.label_next)
        (True, 100)
        """
        return measure(self, logits, labels, groups)

    def expected(self, logits: LogitsLike | None = None) -> Expected:
        """Return what labels are expected to say: confusions, recall, F1, AUC, cost.

        Parameters
        ----------
        logits : array of shape (n, K) or rows, optional
            The model's own logits of rows like those of the target. Without them the rows that the
            calibration was fitted on are taken; a calibration from a file has none.

        Returns
        -------
        Expected
            With 90 % intervals.

        Examples
        --------
        >>> import numpy as np, temperance as tp
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(5, size=4000)
        >>> z = 9 * (2 * np.eye(5)[y] + rng.normal(size=(4000, 5)))
        >>> cal = tp.calibrate(z[:2000], source=(z[2000:], y[2000:]))
        >>> predicted = cal.predict_proba(z[:2000]).argmax(axis=1)
        >>> measured = np.mean(predicted[y[:2000] == 0] == 0)
        >>> recall = cal.expected().recall[0]
        >>> bool(recall.low < measured < recall.high)
        True
        """
        from temperance.calibrate.expected import expect  # which reads results

        return expect(self, logits)

    def threshold(
        self,
        max_error: float = 0.05,
        level: float = 0.9,
        coverage: float | None = None,
        costs: Sequence[float] | None = None,
    ) -> Threshold:
        """Return the confidence from which rows may be accepted.

        Without labels the answer is an estimate. With labelled rows in the calibration it is a
        guarantee, which holds with a probability of at least ``level`` if these are random rows of
        the target: the guarantee is of the map without the labels, ``Threshold.map``. Where the
        labelled rows are too few for any guarantee, the answer is an estimate again.

        Parameters
        ----------
        max_error : float
            Largest share of wrong predictions among accepted rows. As many rows are accepted as
            this allows.
        level : float
            Of the interval of the error, above 0.5; with labelled rows, of its upper end.
        coverage : float, optional
            Share of rows to accept, in place of ``max_error``.
        costs : pair of float, optional
            Cost of an accepted row that is wrong, and of a row that is referred to a person, in
            place of ``max_error``: the threshold is that of least expected cost.

        Returns
        -------
        Threshold
            Its ``confidence`` is None where no row may be accepted.

        Examples
        --------
        >>> import numpy as np, temperance as tp
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(5, size=4000)
        >>> z = 9 * (2 * np.eye(5)[y] + rng.normal(size=(4000, 5)))
        >>> cal = tp.calibrate(z[:2000], source=(z[2000:], y[2000:]))
        >>> found = cal.threshold(max_error=0.1)
        >>> found.guaranteed, found.error.high <= 0.1
        (False, True)
        >>> tested = cal.update(z[:300], y[:300]).threshold(max_error=0.1)
        >>> tested.guaranteed, tested.map == cal.map
        (True, True)
        """
        from temperance.calibrate.threshold import find_threshold  # which reads results

        return find_threshold(self, max_error, level, coverage, costs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to one JSON file; `temperance.load` gives it back."""
        artefact.save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able details; what is not known is None."""
        known = {name: getattr(self, name) for name in INTERVALS}
        return {
            "verdict": self.verdict,
            "meaning": self.meaning,
            "map": artefact.describe_map(self.map),
            **{name: None if value is None else list(value) for name, value in known.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Calibration:
        """Return the calibration that `to_dict` described."""
        check_choice(facts["verdict"], VERDICTS, "verdict")
        check_stored(facts)
        intervals = {name: _interval(facts[name], name) for name in INTERVALS}
        temperature = intervals.pop("temperature")
        if temperature is None:
            msg = "temperature must be three numbers. Got null instead."
            raise ValueError(msg)
        return cls(
            verdict=facts["verdict"],
            map=artefact.build_map(facts["map"]),
            findings=tuple(Finding(**finding) for finding in facts["findings"]),
            details=dict(facts["details"]),
            temperature=temperature,
            accuracy=intervals["accuracy"],
            ece_before=intervals["ece_before"],
            ece_after=intervals["ece_after"],
            gain=intervals["gain"],
        )

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        model: str | None = None,
        date: str | None = None,
    ) -> str:
        """Return the report as one self-contained HTML page, and write it when a path is given.

        Parameters
        ----------
        path : path of the file, optional
        title : str, optional
            "Calibration report" without it.
        model : str, optional
            Name of the model, as readers know it.
        date : str, optional
            Today without it.
        """
        from temperance.report import to_html

        return to_html(self, path, title=title, model=model, date=date)

    def _repr_html_(self) -> str:
        from temperance.report import summary_html

        return summary_html(self)


def _interval(numbers: Any, name: str) -> Interval | None:
    if numbers is None:
        return None
    interval = Interval(*(float(v) for v in numbers))
    if not (np.isfinite(interval).all() and interval.low <= interval.value <= interval.high):
        msg = f"{name} must be finite and inside its interval. Got {interval} instead."
        raise ValueError(msg)
    return interval


artefact.register("calibration", Calibration.from_dict)


# ---------------------------------------------------------------------- measured with labels


@dataclass(frozen=True)
class Audit:
    """What labels say about a calibration: the answer of `Calibration.audit`.

    Attributes
    ----------
    n : int
        Labelled rows.
    accuracy, nll_before, nll_after, ece_before, ece_after : Interval
        Measured, with 90 % bootstrap intervals; before is the model's own confidence, after the
        map's. ``accuracy`` is that of the predictions of the map.
    agrees : bool
        Whether the measured and the estimated interval of the accuracy overlap; None where nothing
        was estimated.
    label_next : list of int
        Rows of the fitted target that were not among these, most useful first.
    """

    n: int
    accuracy: Interval
    nll_before: Interval
    nll_after: Interval
    ece_before: Interval
    ece_after: Interval
    agrees: bool | None
    label_next: list[int]

    def __str__(self) -> str:
        """Return what was measured, a line each."""
        known = {True: "agrees", False: "does not agree", None: "cannot be compared"}[self.agrees]
        lines = [f"{self.n} labelled rows; the measured accuracy {known} with the estimate"]
        lines += [f"{k:12} {v:.3g}" for k, v in vars(self).items() if isinstance(v, Interval)]
        return "\n".join([*lines, f"label next   {len(self.label_next)} rows, in label_next"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able facts."""
        return {k: list(v) if isinstance(v, Interval) else v for k, v in asdict(self).items()}


def measure(cal: Calibration, logits: Any, labels: Any, groups: Any) -> Audit:
    """Measure a calibration; see `Calibration.audit`."""
    rows = as_labelled_rows(logits, labels, classes=names_for(labels, cal.details["classes"]))
    check_same_classes(rows.n_classes, int(cal.details["n_classes"]), "logits")
    block = rows.take(np.arange(rows.n))
    if fingerprint(block.logits, block.labels) == cal.details["fitted_on"]["source"]:
        raise InputError(
            "logits must be labelled rows of the target. These are the source that the calibration "
            "was fitted with, and say nothing about the shift; measure a map on them with "
            "temperance.metrics."
        )
    z, y = to_numpy(block.logits).astype(np.float64), block.labels
    mapped = np.asarray(cal.map(z))

    def interval(metric: Callable[..., float], u: NDArray[np.float64]) -> Interval:
        return bootstrap(metric, u, y, groups, level=LEVEL)

    right = interval(accuracy, mapped)
    if right.low == right.high:  # no error, or no success, to draw again
        right = wilson(right.value, int(group_numbers(groups, rows.n).max()) + 1)
    expected, seen = cal.accuracy, set(row_keys(z))
    keyed = zip(cal.details["label_next"], cal.details["label_next_keys"], strict=True)
    return Audit(
        n=rows.n,
        accuracy=right,
        nll_before=interval(nll, z),
        nll_after=interval(nll, mapped),
        ece_before=interval(ece, z),
        ece_after=interval(ece, mapped),
        agrees=None if expected is None else overlap(right, expected),
        label_next=[int(row) for row, key in keyed if key not in seen],
    )


def overlap(one: Interval, other: Interval) -> bool:
    """Return whether two intervals have a point in common."""
    return one.low <= other.high and other.low <= one.high


def row_keys(z: NDArray[Any]) -> list[int]:
    """Return a checksum of each row, by which labelled rows are known again."""
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(z, dtype=np.float32)
    return [zlib.crc32(row.tobytes()) for row in rows]


def wilson(share: float, n: int) -> Interval:
    """Interval of a share of n independent rows (Wilson, 1927); it has a width at 0 and 1."""
    middle = (share + Z90**2 / (2 * n)) / (1 + Z90**2 / n)
    half = Z90 / (1 + Z90**2 / n) * np.sqrt(share * (1 - share) / n + (Z90 / (2 * n)) ** 2)
    return Interval(share, float(max(0.0, middle - half)), float(min(1.0, middle + half)))
