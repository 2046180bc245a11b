r"""Change against the reference, without labels, with a stated time between false alarms.

A row gives three numbers: the rank of its confidence and of its similarity to the prototype of its
class among the source rows (from 0 to 1; the latter for more than two classes), and its predicted
class. A window of n rows has the means of the ranks and the counts of the classes.

Each mean is compared with that of all rows before it, the source included, and each table of counts
likewise by a chi-square test, whose p-value is that of a standard normal number:

    z_t = (m_t - M_{t-1}) / (s \sqrt{1/n_t + 1/N_{t-1}})

Without a change these residuals are independent and standard normal, however few rows the source
has (Hawkins, "Self-starting CUSUM charts", 1987); a comparison with the source alone would repeat
the error of the source in every window. A CUSUM of each, S_t = max(0, S_{t-1} + z_t - 1), rings
above h and starts again, unless the window differs by too little to matter. h follows from the
demanded time between false alarms by the formula of Siegmund (1985), (e^{2b} - 2b - 1) / 2 = time
with b = h + 1.166, shared by all sums. A window that rings is no part of the reference. The time
holds for windows of independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtri

from temperance.calibrate.accuracy import Source
from temperance.calibrate.problem import Logits
from temperance.data.given import LabelledSample

Vector = NDArray[np.float64]

ALLOWED = 1.0  # standard errors per window that are let pass: changes of interest are larger
TOLERATED = 0.01  # change of a mean rank (0.5 at home) that does not matter, however certain
TOLERATED_MIX = 0.05  # change of a class mix that does not matter: Cohen's w (0.1 is small)
OVERSHOOT = 1.166  # of Siegmund's formula
SIEGMUND_SHORTFALL = 1.1  # the formula gives 6 % too little time at k = 1, by simulation
LEAST_COUNT = 5  # expected rows of a class; rarer classes count together
CLASSES_RANKED = 100  # for which ranks are kept by class
NOTABLE = 2.0  # standard errors from which a class is named


@dataclass
class Tally:
    """Sums over rows: of one window, or of the reference."""

    n: float = 0.0
    ranks: dict[str, float] = field(default_factory=dict[str, float])
    """Sum of the ranks by name."""
    counts: Vector = field(default_factory=lambda: np.zeros(0))
    """Rows by predicted class; empty for a segment of a model with many classes."""
    by_class: Vector = field(default_factory=lambda: np.zeros(0))
    """Sum of the ranks of the confidence by predicted class; empty for many classes."""

    def __add__(self, other: Tally) -> Tally:
        """Return the sums over both."""
        if not self.n or not other.n:
            return self if self.n else other
        return Tally(
            self.n + other.n,
            {name: value + other.ranks[name] for name, value in self.ranks.items()},
            self.counts + other.counts,
            self.by_class + other.by_class,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain facts: means and counts."""
        return {
            "n": int(self.n),
            "ranks": {name: value / self.n for name, value in self.ranks.items()},
            "counts": [int(count) for count in self.counts],
            "by_class": [round(float(value), 2) for value in self.by_class],
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Tally:
        """Return the sums that `to_dict` described."""
        n = float(facts["n"])
        ranks = {name: n * mean for name, mean in facts["ranks"].items()}
        return cls(n, ranks, np.array(facts["counts"], float), np.array(facts["by_class"], float))


class Ranks:
    """The ranks of rows among those of the source.

    A third of the source gives the prototypes and the temperature, the rest the ranks: to the
    prototypes, the rows of a window are then as new as the rows that they are ranked among.
    """

    def __init__(self, sample: LabelledSample) -> None:
        order = np.random.default_rng(0).permutation(len(sample.labels))
        few, rest = order[: len(order) // 3], order[len(order) // 3 :]
        self._source = Source.of(LabelledSample(sample.logits[few], sample.labels[few]))
        self.temperature = self._source.temperature
        rows = Logits.of(sample.logits[rest])
        own = self._numbers(rows)
        self._sorted = {name: np.sort(values) for name, values in own.items()}
        self.own = self._tally(own, rows.predicted)
        ranked = {name: self._rank(name, values) for name, values in own.items()}
        self.variance = {name: max(float(np.var(u)), 1e-6) for name, u in ranked.items()}

    def tally(self, z: NDArray[Any]) -> Tally:
        """Return the sums over the rows of a window."""
        rows = Logits.of(z)
        return self._tally(self._numbers(rows), rows.predicted)

    def _numbers(self, rows: Logits) -> dict[str, Vector]:
        p = rows.probabilities(self.temperature)
        found = {"confidence": np.round(p.max(axis=1), 12)}
        if rows.n_classes > 2:
            found["similarity"] = self._source.similarity_of(rows)
        return found

    def _rank(self, name: str, values: Vector) -> Vector:
        known = self._sorted[name]
        below = np.searchsorted(known, values, side="left")
        return (below + np.searchsorted(known, values, side="right")) / (2 * len(known))

    def _tally(self, numbers: dict[str, Vector], predicted: NDArray[np.intp]) -> Tally:
        k = self._source.rows.n_classes
        ranks = {name: self._rank(name, values) for name, values in numbers.items()}
        by_class = np.bincount(predicted, ranks["confidence"], k) if k <= CLASSES_RANKED else []
        return Tally(
            float(len(predicted)),
            {name: float(u.sum()) for name, u in ranks.items()},
            np.bincount(predicted, minlength=k).astype(np.float64),
            np.asarray(by_class, dtype=np.float64),
        )


@dataclass(frozen=True)
class Change:
    """A sum that rang: what moved, which way, and for which predicted classes."""

    what: str
    direction: int
    before: float
    now: float
    classes: tuple[int, ...]


@lru_cache
def threshold(time: float) -> float:
    """Return h of a sum of standard normal numbers less 1 that rings once in that many windows."""

    def short_of(b: float) -> float:
        return (np.exp(2 * b) - 2 * b - 1) / 2 - SIEGMUND_SHORTFALL * time

    return max(float(brentq(short_of, 1e-3, 40.0)) - OVERSHOOT, 0.0)  # pyright: ignore[reportArgumentType]


class Chart:
    """The CUSUMs of one series of windows.

    The reference are the rows before the first window; none for a segment, whose first window is
    its reference. The variance is that of the rank of a row.
    """

    def __init__(self, reference: Tally, variance: dict[str, float]) -> None:
        self.reference, self._variance = reference, variance
        self._sums: dict[tuple[str, int], float] = {}
        self._pending = Tally()

    def step(self, window: Tally, time: float, least: int) -> list[Change]:
        """Return what rings at a window; a window of fewer rows is pooled with the next."""
        window = self._pending + window
        if window.n < least:
            self._pending = window
            return []
        self._pending = Tally()
        found: list[Change] = []
        if self.reference.n:
            h = threshold(time * (2 * len(self._variance) + 1))  # all sums share the false alarms
            for name in self._variance:
                z, error = residual(name, window, self.reference, self._variance[name])
                found += [
                    self._change(name, side, window)
                    for side in (-1, 1)
                    if self._rings((name, side), side * z, side * z * error > TOLERATED, h)
                ]
            z, distance = _mix_residual(window, self.reference)
            if self._rings(("class mix", 0), z, distance > TOLERATED_MIX**2, h):
                found.append(self._change("class mix", 0, window))
        if not found:
            self.reference = self.reference + window
        return found

    def _rings(self, key: tuple[str, int], z: float, matters: bool, h: float) -> bool:
        total = max(0.0, self._sums.get(key, 0.0) + z - ALLOWED)
        rings = total > h and matters
        self._sums[key] = 0.0 if rings else total
        return rings

    def _change(self, what: str, direction: int, window: Tally) -> Change:
        before = self.reference
        if what == "class mix":
            pooled = (window.counts + before.counts) / (window.n + before.n)
            noise = pooled * (1 - pooled) * (1 / window.n + 1 / before.n)
            gap = window.counts / window.n - before.counts / before.n
            classes = _largest(gap / np.sqrt(np.maximum(noise, 1e-12)))
            return Change(what, 0, 0.0, 0.5 * float(np.abs(gap).sum()), classes)
        classes: tuple[int, ...] = ()
        if len(window.by_class):
            with np.errstate(invalid="ignore", divide="ignore"):
                gap = window.by_class / window.counts - before.by_class / before.counts
                noise = self._variance["confidence"] * (1 / window.counts + 1 / before.counts)
                apart = np.nan_to_num(gap / np.sqrt(noise), nan=0.0, posinf=0.0, neginf=0.0)
            classes = _largest(direction * np.maximum(direction * apart, 0.0))
        old, new = before.ranks[what] / before.n, window.ranks[what] / window.n
        return Change(what, direction, old, new, classes)


def residual(name: str, window: Tally, before: Tally, variance: float) -> tuple[float, float]:
    """Return the change of a mean rank in standard errors, and the standard error."""
    error = float(np.sqrt(variance * (1 / window.n + 1 / before.n)))
    gap = window.ranks[name] / window.n - before.ranks[name] / before.n
    return gap / error, error


def _largest(apart: Vector) -> tuple[int, ...]:
    """Return the three classes that moved most, if they moved notably."""
    order = np.argsort(-np.abs(apart), kind="stable")[:3]
    return tuple(int(k) for k in order if abs(apart[k]) > NOTABLE)


def _mix_residual(window: Tally, before: Tally) -> tuple[float, float]:
    """Return the distance of two tables of counts as a normal number, and as Cohen's w²."""
    n, m = window.n, before.n
    if not len(window.counts):
        return 0.0, 0.0
    rare = (window.counts + before.counts) / (n + m) * min(n, m) < LEAST_COUNT
    c, r = (np.r_[x.counts[~rare], x.counts[rare].sum()] for x in (window, before))
    p = (c + r) / (n + m)
    c, r, p = (x[p > 0] for x in (c, r, p))
    if len(p) < 2:
        return 0.0, 0.0
    distance = float(np.sum((c / n - r / m) ** 2 / p))
    chance = chdtrc(len(p) - 1, distance / (1 / n + 1 / m))
    return float(-ndtri(max(chance, 1e-300))), distance
