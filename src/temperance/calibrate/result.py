"""What `temperance.calibrate` answers: a map, a verdict, and the facts behind them.

These are frozen values. All that a report or a command line shows is in `Calibration.to_dict`, as
plain numbers, strings and lists; nothing is computed from the data again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from temperance._core.checks import check_choice
from temperance._core.stats import Interval
from temperance.calibrate import audit
from temperance.io import artefact

if TYPE_CHECKING:
    import os

    from temperance._core.arrays import Array
    from temperance.data.types import LabelsLike
    from temperance.maps import Map

Verdict = Literal["improved", "no-evidence", "refused"]
VERDICTS = ("improved", "no-evidence", "refused")
MEANING = {
    "improved": "The calibrated confidence is expected to be closer to the truth than the model's.",
    "no-evidence": "Nothing shows that the model's confidence needs another map than it has.",
    "refused": "These data do not support a new map. The model's confidence is kept as it is.",
}
DOUBTS = {
    "TP401": "The estimates behind it disagree: measure it on some labelled rows before relying on "
    "it.",
    "TP107": "By the class mix that was given, the new predictions would be right less often than "
    "the model's own: check that mix before relying on it.",
}
INTERVALS = ("temperature", "accuracy", "ece_before", "ece_after")


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
        Whether the map is expected to be better than the model's own confidence.
    map : Map
        Takes logits to calibrated logits. The identity or the source temperature unless improved.
    temperature, accuracy, ece_before, ece_after : Interval
        Estimates with 90 % intervals; none of them is measured, since there are no labels.
        ``accuracy`` is that of the predictions of the map.
    findings : tuple of Finding
        Most serious first.
    facts : dict
        All other facts, JSON-able: sizes, class mix, histograms, estimates, assumptions, hashes.
    """

    verdict: Verdict
    map: Map
    temperature: Interval
    accuracy: Interval
    ece_before: Interval
    ece_after: Interval
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)  # pages of numbers

    def __str__(self) -> str:
        """Return the verdict, what it means, the estimates and the findings, a line each."""
        estimates = [f"{name:12} {getattr(self, name):.3g}" for name in INTERVALS]
        found = [f"{one.code} {one.severity}: {one.title}" for one in self.findings]
        return "\n".join([f"{self.verdict}: {self.meaning}", *estimates, *found])

    @property
    def kind(self) -> str:
        """Return the kind of artefact that this is."""
        return "calibration"

    @property
    def doubt(self) -> str:
        """Return the reservation under which a map is called improved, or nothing."""
        found = [finding.code for finding in self.findings if self.verdict == "improved"]
        return " ".join(words for code, words in DOUBTS.items() if code in found)

    @property
    def meaning(self) -> str:
        """Return what the verdict says in a sentence, and the doubt about it."""
        return f"{MEANING[self.verdict]} {self.doubt}".strip()

    def predict_proba(self, logits: object) -> Array:
        """Return calibrated class probabilities of the kind, dtype and device of ``logits``."""
        return self.map.predict_proba(logits)

    def audit(
        self, logits: object, labels: object, groups: LabelsLike | None = None
    ) -> audit.Audit:
        """Measure the calibration on labelled rows of its target.

        Thirty rows tell a wrong map from a right one, two hundred measure it. Take any random rows,
        or ``facts["label_next"]`` from its start: rows spread evenly over the confidence of the
        map, which is a sample like a random one, only less variable.

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
        >>> rows = cal.facts["label_next"][:100]
        >>> measured = cal.audit(z[rows], y[rows])
        >>> measured.nll_after.high < measured.nll_before.low, len(measured.label_next)
        (True, 100)
        """
        return audit.audit(self, logits, labels, groups)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to one JSON file; `temperance.load` gives it back."""
        artefact.save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able facts."""
        intervals = {name: list(getattr(self, name)) for name in INTERVALS}
        return {
            "verdict": self.verdict,
            "meaning": self.meaning,
            "map": artefact.describe_map(self.map),
            **intervals,
            "findings": [finding.to_dict() for finding in self.findings],
            "facts": self.facts,
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Calibration:
        """Return the calibration that `to_dict` described."""
        check_choice(facts["verdict"], VERDICTS, "verdict")
        intervals = {name: Interval(*(float(v) for v in facts[name])) for name in INTERVALS}
        for name, interval in intervals.items():
            if not np.isfinite(interval).all():
                msg = f"{name} must be finite. Got {interval} instead."
                raise ValueError(msg)
        return cls(
            verdict=facts["verdict"],
            map=artefact.build_map(facts["map"]),
            findings=tuple(Finding(**finding) for finding in facts["findings"]),
            facts=dict(facts["facts"]),
            **intervals,
        )

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one self-contained HTML page, and write it when a path is given."""
        from temperance import report  # needs the extra "report", so it is loaded when asked for

        return report.to_html(self, path)

    def _repr_html_(self) -> str:
        from temperance import report

        return report.summary_html(self)


artefact.register("calibration", Calibration.from_dict)
