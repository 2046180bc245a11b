"""What `temperance.calibrate` answers: a map, a verdict, and the details behind them.

These are frozen values. All that a report or a command line shows is in `Calibration.to_dict`, as
plain numbers, strings and lists; nothing is computed from the data again. What is not known is
None.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Array, Floats, namespace, to_numpy
from temperance._core.checks import InputError
from temperance._core.stats import Interval, overlap, wilson
from temperance._version import __version__
from temperance.calibrate.accuracy import Source
from temperance.calibrate.constants import POLICY
from temperance.calibrate.expected import Expected, expect
from temperance.calibrate.problem import Logits, Problem, row_keys
from temperance.calibrate.solve import BiasAt
from temperance.calibrate.stored import INTERVALS, check_stored
from temperance.calibrate.threshold import Demand, Threshold, find_threshold, find_thresholds
from temperance.calibrate.uncertainty import Plausible
from temperance.calibrate.verdict import COVERAGE, EDGES, N_BINS, Judgement, bin_of
from temperance.data.given import as_labelled_rows, fingerprint
from temperance.data.types import LabelsLike, LogitsLike
from temperance.io import artefact
from temperance.maps import BiasedTemperature, Map, Temperature
from temperance.metrics.binned import ece
from temperance.metrics.bootstrap import bootstrap, group_numbers
from temperance.metrics.evaluation import accuracy, nll

Verdict = Literal["improved", "no-evidence", "refused"]
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
KINDS = (Temperature.kind, BiasedTemperature.kind)
GOLDEN = (5**0.5 - 1) / 2
MOST_CLASSES = 2_000  # beyond which plausible maps are not stored
WHAT = {
    "calibrated": "the model's own probabilities, at the source's temperature and the class mix",
    "rescaled": "the same, with logits as large as on the source",
    "similar": "rows that look like rows the model gets right on the source",
    "near": "rows that are near source rows in the layer before the logits",
    "shifted": "similarity, rescaled probabilities and class mix, the median of the three",
    "transported": "rows assigned to classes as often as these occur",
}
KNOWN = {
    "given": "The class mix of the target is the one given.",
    "about": "The class mix of the target is about the one given.",
    "range": "The class mix of the target lies in the ranges given.",
}
MIX = ("distance", "shrinkage", "confidence_rise", "probability")


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
        return asdict(self)


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

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(5, size=4000)
    >>> z = 9 * (2 * np.eye(5)[y] + rng.normal(size=(4000, 5)))
    >>> cal = tp.calibrate(z[:2000], source=(z[2000:], y[2000:]))
    >>> cal.threshold(max_error=0.1).guaranteed, cal.threshold(max_error=0.1).error.high <= 0.1
    (False, True)
    >>> recall = cal.expected().recall[0]
    >>> 0 < recall.low < recall.value < recall.high < 1
    True
    >>> rows = cal.label_next(100)
    >>> better = cal.update(z[rows], y[rows])
    >>> bool(np.ptp(better.accuracy[1:]) < np.ptp(cal.accuracy[1:]))
    True
    >>> cal.audit(z[rows], y[rows]).agrees
    True
    """

    verdict: Verdict
    map: Map
    temperature: Interval
    accuracy: Interval | None = None
    ece_before: Interval | None = None
    ece_after: Interval | None = None
    gain: Interval | None = None
    findings: tuple[Finding, ...] = ()
    details: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)  # pages of numbers
    _problem: Problem | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """Return the verdict, what it means, the estimates and the findings, a line each."""
        known = [(name, getattr(self, name)) for name in INTERVALS]
        estimates = [f"{n:12} {'not known' if v is None else format(v, '.3g')}" for n, v in known]
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

    def predict(self, logits: LogitsLike) -> Array:
        """Return the most probable class of each row as the number of its column.

        It can differ from that of the largest logit, because a class bias moves predictions.
        """
        p = self.predict_proba(logits)
        return namespace(p).argmax(p, axis=-1)

    def update(self, logits: LogitsLike, labels: LabelsLike) -> Calibration:
        """Return the calibration with more labelled rows of its target.

        Parameters
        ----------
        logits : array of shape (m, K) or rows
            The model's own logits of rows like those of the target, or of some of them.
        labels : array of shape (m,)
        """
        from temperance.calibrate import recalibrate  # the pipeline builds results

        return recalibrate(self._fitted_problem("update"), logits, labels)

    def _fitted_problem(self, asked: str) -> Problem:
        if self._problem is None:
            raise InputError(
                f"{asked} needs the rows that the calibration was fitted on, and a file has none "
                f"of them. Call temperance.calibrate again, with labelled=(logits, labels) where "
                f"there are labels."
            )
        return self._problem

    def label_next(self, n: int = 30) -> list[int]:
        """Return rows of the fitted target to label, best first.

        The rows are spread evenly over the confidence of the map. Each row of the target is as
        likely to be among them as any other, so that what `audit` measures on them is unbiased and
        varies less than on rows drawn at random. `update` learns as much from either.

        Parameters
        ----------
        n : int
            As many rows, or all that have no label yet where these are fewer. A calibration from a
            file lists at most 200.
        """
        n = checks.check_integer(n, "n", low=1)
        listed = self.details["label_next"]
        if n > len(listed) == POLICY.to_label:
            listed = self._list_to_label(n)
        return [int(row) for row in listed[:n]]

    def _list_to_label(self, n: int) -> list[int]:
        problem, numbers = self._problem, self.map.parameters()
        if problem is None:
            raise InputError(
                f"n must be at most {POLICY.to_label}: a calibration from a file lists no more "
                f"rows. Got {n:,}; call temperance.calibrate again for more."
            )
        bias = numbers.get("bias", np.zeros(len(problem.names)))[problem.active]
        used = BiasAt(float(numbers["temperature"]), bias)
        rows = problem.numbers[rows_to_label(problem, used, n)].tolist()
        if n > len(rows) and len(problem.target) < problem.n:
            raise InputError(
                f"n must be at most {len(rows):,}, the rows without a label among the "
                f"{len(problem.target):,} that were read of {problem.n:,}. Got {n:,}; draw more at "
                f"random."
            )
        return rows

    def labels_needed(self, width: float, of: Literal["accuracy", "ece_after"] = "accuracy") -> int:
        """Return how many more labelled rows make an interval that narrow.

        Labels are simulated: drawn for random rows of the target from the map's own probabilities,
        and used as `update` would use them, twice as many each time, until the interval is narrow
        enough.

        Parameters
        ----------
        width : float
            Between the ends of the 90 % interval.
        of : {"accuracy", "ece_after"}
        """
        from temperance.calibrate import count_labels  # the pipeline builds results

        checks.check_choice(of, ("accuracy", "ece_after"), "of")
        width = checks.check_number(width, "width", low=1e-6, high=1)
        return count_labels(self._fitted_problem("labels_needed"), width, of)

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
        """
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
            The ``confidence`` is None where no row may be accepted.
        """
        return find_threshold(self, Demand.of(max_error, level, coverage, costs))

    def thresholds(
        self,
        max_error: float = 0.05,
        level: float = 0.9,
        coverage: float | None = None,
        costs: Sequence[float] | None = None,
    ) -> dict[str, Threshold]:
        """Return a threshold of its own for the rows of each predicted class, by class.

        At most ``max_error`` of the accepted rows of each class are wrong, and the level holds for
        all classes together. A class that is never predicted has no threshold. The arguments are
        those of `threshold`.
        """
        return find_thresholds(self, Demand.of(max_error, level, coverage, costs))

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
        check_stored(facts)
        checks.check_choice(facts["verdict"], tuple(MEANING), "verdict")
        intervals: dict[str, Any] = {name: _interval(facts[name], name) for name in INTERVALS}
        if intervals["temperature"] is None:
            raise InputError("temperature must be three numbers. Got null instead.")
        details = dict(facts["details"])
        checks.check_choice(details["method"], APPLIED, "method")
        checks.check_choice(details["prior_kind"], (*KNOWN, "unknown"), "prior_kind")
        checks.check_choice(facts["map"]["kind"], KINDS, "kind of the map")
        stored = artefact.build_map(facts["map"])
        if stored.n_classes is not None:
            checks.check_same_classes(stored.n_classes, details["n_classes"], "map")
        findings = tuple(Finding(**finding) for finding in facts["findings"])
        return cls(facts["verdict"], stored, findings=findings, details=details, **intervals)

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

    def _repr_html_(self) -> str | None:
        from temperance.report import summary_html

        try:
            return summary_html(self)
        except InputError:  # without the extra report, a notebook shows the text
            return None


def _interval(numbers: Any, name: str) -> Interval | None:
    if numbers is None:
        return None
    interval = Interval(*(float(v) for v in numbers))
    if not (np.isfinite(interval).all() and interval.low <= interval.value <= interval.high):
        raise InputError(f"{name} must be finite and inside its interval. Got {interval} instead.")
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
    rows = as_labelled_rows(
        logits, labels, classes=checks.names_for(labels, cal.details["classes"])
    )
    checks.check_same_classes(rows.n_classes, int(cal.details["n_classes"]), "logits")
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
        return bootstrap(metric, u, y, groups, level=POLICY.level)

    right = interval(accuracy, mapped)
    if right.low == right.high:  # no error, or no success, to draw again
        right = wilson(right.value, int(group_numbers(groups, rows.n).max()) + 1)
    expected, seen = cal.accuracy, set(row_keys(z).tolist())
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


# ------------------------------------------------------------------------------- the details


def describe(
    problem: Problem,
    source: Source | None,
    used: BiasAt,
    method: str,
    plausible: Plausible | None,
    judgement: Judgement | None,
    before_labels: Judgement | None,
) -> dict[str, Any]:
    """Return all details of a calibration."""
    prior, sample = problem.prior, problem.sample
    rough = None if prior is None or prior.exact else prior
    own, mapped = sample.probabilities(1.0), sample.probabilities(*used)
    mix = None if plausible is None or prior is None else plausible.mix
    chosen = rows_to_label(problem, used, POLICY.to_label)

    def wide(shares: Floats) -> list[float]:
        return problem.widen(shares, 0.0).tolist()

    return {
        "n_target": problem.n,
        "n_read": len(problem.target),
        "n_solved": len(sample),
        "n_source": 0 if problem.source is None else len(problem.source.labels),
        "n_labelled": 0 if problem.labelled is None else len(problem.labelled.labels),
        "n_classes": len(problem.names),
        "classes": problem.names,
        "prior": None if prior is None else wide(prior.value),
        "prior_kind": "unknown" if prior is None else prior.kind,
        "prior_low": None if rough is None else wide(rough.low),
        "prior_high": None if rough is None else wide(rough.high),
        "mix": None if mix is None else {name: getattr(mix, name) for name in MIX},
        "accuracy_before": None if judgement is None else list(judgement.accuracy_before),
        "probability_of_gain": None if judgement is None else judgement.probability,
        "estimates": _estimates(problem, plausible),
        "plausible": _plausible(problem, plausible),
        "assumptions": _assumptions(problem),
        "would_change": _would_change(problem),
        "guarantee": "None: every number about the target is an estimate under the assumptions.",
        "fitted_on": {
            "target": fingerprint(problem.raw),
            "source": None if problem.source is None else fingerprint(*problem.source),
        },
        "versions": {
            "temperance": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "predicted_mix": wide(problem.predicted_mix),
        "mix_before": wide(own.mean(axis=0)),
        "mix_after": wide(mapped.mean(axis=0)),
        "confidence_before": float(own.max(axis=1).mean()),
        "confidence_after": float(mapped.max(axis=1).mean()),
        "histograms": {
            "edges": EDGES.tolist(),
            "target_before": _histogram(own.max(axis=1)),
            "target_after": _histogram(mapped.max(axis=1)),
            **_source_bins(source),
        },
        "source": _source_facts(source),
        "labelled": _labelled_facts(problem, before_labels),
        "risk_coverage": None if judgement is None else _risks(judgement),
        "method": method,
        "label_next": problem.numbers[chosen].tolist(),
        "label_next_keys": row_keys(problem.raw[chosen]).tolist(),
        "seed": problem.seed,
    }


def rows_to_label(problem: Problem, used: BiasAt, n: int) -> NDArray[np.intp]:
    """Return the places of at most n target rows without a label, spread evenly over confidence.

    Steps of the golden ratio through the rows in order of confidence, from a random start: every
    row is equally likely to be taken, and every beginning of the list is spread evenly. No gap
    between 4 m steps is as wide as one of m rows, so that m rows are all found.
    """
    unlabelled = np.arange(len(problem.raw))
    if problem.labelled is not None:
        labelled = row_keys(problem.labelled.logits)
        known = np.isin(row_keys(problem.raw[:, problem.active]), labelled)
        unlabelled = np.flatnonzero(~known)
    confidence = problem.target.probabilities(*used).max(axis=1)[unlabelled]
    order, m = np.argsort(confidence, kind="stable"), len(unlabelled)
    start = np.random.default_rng(problem.seed or 0).random()
    steps = (start + GOLDEN * np.arange(4 * min(m, n))) % 1.0
    _, first = np.unique(place := (steps * m).astype(np.intp), return_index=True)
    return unlabelled[order[place[np.sort(first)]][:n]]


def _estimates(problem: Problem, plausible: Plausible | None) -> list[dict[str, Any]]:
    if plausible is None or not plausible.estimates:
        return []
    shown = plausible.estimates[-1 if problem.prior is None else 0]
    return [{"name": n, "value": v, "what": WHAT[n]} for n, v in shown.values.items()]


def _plausible(problem: Problem, plausible: Plausible | None) -> dict[str, Any] | None:
    if plausible is None or len(problem.names) > MOST_CLASSES:
        return None
    return {
        "weights": plausible.weights.tolist(),
        "temperatures": plausible.temperatures.tolist(),
        "biases": [problem.widen(b, 0.0).tolist() for b in plausible.biases],
    }


def _assumptions(problem: Problem) -> list[str]:
    if problem.prior is not None:
        first = KNOWN[problem.prior.kind]
    elif problem.source is not None:
        first = "The class mix is not known; that of the source is one possibility."
    else:
        first = "The class mix is not known."
    rest = ["The target has the classes of the model and no others."]
    if problem.source is not None:
        rest.append("The source rows were not used to train the model.")
        rest.append("One of the estimates of the accuracy is near the truth.")
    else:
        rest.append("The model's logits are wrong by one factor and a class bias.")
    if problem.labelled is not None:
        rest.append("The labelled rows are random rows of the target, or those of label_next.")
    return [first, *rest]


def _would_change(problem: Problem) -> list[str]:
    wishes = ["Labels of a few target rows, from the list of rows to label first."]
    if problem.source is None:
        wishes.append("A labelled source: rows from before the shift with labels.")
    if problem.prior is None:
        wishes.append("The class mix of the target, even a rough one.")
    elif problem.prior.kind != "given":
        wishes.append("A class mix that is known exactly.")
    if problem.n < 2_000:
        wishes.append("More target rows.")
    return wishes


def _histogram(confidence: Floats, weights: Floats | None = None) -> list[float]:
    return np.bincount(bin_of(confidence), weights, N_BINS).tolist()


def _source_bins(source: Source | None) -> dict[str, Any]:
    if source is None:
        return {"source": None, "source_correct": None, "source_confidence": None}
    top, right = source.confidence, source.rows.predicted == source.labels
    return {
        "source": _histogram(top),
        "source_correct": _histogram(top, right.astype(np.float64)),
        "source_confidence": _histogram(top, top),
    }


def _source_facts(source: Source | None) -> dict[str, Any] | None:
    """Return what the labels of the source measure of the model's own probabilities."""
    if source is None:
        return None
    z, y, n = source.rows.finite, source.labels, len(source.labels)
    surprise: Floats = z.max(axis=1) - z[np.arange(n), y] - np.log(source.confidence)
    bins = _source_bins(source)
    right, confidence = np.array(bins["source_correct"]), np.array(bins["source_confidence"])
    return {
        "accuracy": float(right.sum()) / n,
        "nll": float(surprise.mean()),
        "ece": float(np.abs(right - confidence).sum()) / n,
        "temperature": source.temperature,
        "confidence": float(confidence.sum()) / n,
    }


def _labelled_facts(problem: Problem, before: Judgement | None) -> dict[str, Any] | None:
    """Return what the labels measure of the model's own predictions, and what was expected."""
    if problem.labelled is None:
        return None
    rows, labels = Logits.of(problem.labelled.logits), problem.labelled.labels
    return {
        "accuracy": list(wilson(float((rows.predicted == labels).mean()), len(labels))),
        "confidence": float(rows.probabilities(1.0).max(axis=1).mean()),
        "expected": None if before is None else list(before.accuracy_before),
    }


def _risks(judgement: Judgement) -> dict[str, Any]:
    """Return the expected share of wrong answers by coverage, with its band."""
    before, after = judgement.risk_before, judgement.risk_after
    return {
        "coverage": COVERAGE.tolist(),
        "risk_before": [r.value for r in before],
        "risk_after": [r.value for r in after],
        "risk_after_low": [r.low for r in after],
        "risk_after_high": [r.high for r in after],
    }
