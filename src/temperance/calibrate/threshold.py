"""At which confidence rows may be accepted, so that few enough of them are wrong.

Without labels the answer is an estimate: the expected share of wrong rows, with the differences
between the plausible maps. With labelled rows it is a guarantee. A map that has seen labels cannot
be tested with them, so the guarantee is of the map without them: candidates are fixed before the
labels are looked at, and tested one after the other, from few accepted rows to many, each by an
exact binomial bound; the first failure ends the sequence, so that all candidates before it hold at
once with the stated probability (Angelopoulos et al., Learn then Test, 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from temperance._core.arrays import Floats
from temperance._core.checks import InputError, check_number, shown
from temperance._core.stats import Interval
from temperance.calibrate.expected import Answers, answers
from temperance.io import artefact
from temperance.maps import Map

if TYPE_CHECKING:
    from temperance.calibrate.result import Calibration

STEPS = 200  # candidates without labels
TESTS = 50  # candidates with labels


@dataclass(frozen=True)
class Threshold:
    """A confidence from which rows are accepted: the answer of `Calibration.threshold`.

    Attributes
    ----------
    confidence : float or None
        Rows whose confidence by ``map`` is at least this are accepted. None: accept no row.
    coverage : float
        Share of the target that is accepted; of a threshold per class, share of the rows that are
        predicted to be of that class.
    error : Interval or None
        Share of wrong predictions among accepted rows. Where it is guaranteed, the truth lies above
        the upper end with a probability of at most 1 - level, and so below the lower end; otherwise
        it is an interval of that level, as that of every estimate.
    guaranteed : bool
        Whether labelled rows have tested it. Otherwise it is an estimate.
    map : Map
        The map whose confidence and predictions are meant: that of the calibration, or, where the
        threshold is guaranteed, that of the calibration without its labelled rows.
    """

    confidence: float | None
    coverage: float
    error: Interval | None
    guaranteed: bool
    map: Map

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able facts."""
        return {
            "confidence": self.confidence,
            "coverage": self.coverage,
            "error": None if self.error is None else list(self.error),
            "guaranteed": self.guaranteed,
            "map": artefact.describe_map(self.map),
        }


@dataclass(frozen=True, eq=False)
class Candidates:
    """Thresholds between the confidences of the target, from few accepted rows to many."""

    confidence: Floats
    accepted: NDArray[np.intp]
    wrong: Floats  # expected share among accepted rows, by plausible map and candidate
    used: Map

    @classmethod
    def of(cls, used: Map, given: Answers, steps: int) -> Candidates:
        """Return at most so many thresholds, each between two different confidences."""
        order = np.argsort(-given.confidence, kind="stable")
        c, n = given.confidence[order], len(order)
        counts = np.r_[np.flatnonzero(c[:-1] > c[1:]) + 1, n].astype(np.intp)
        wanted = np.arange(1, steps + 1) * n / steps
        counts = counts[np.unique(np.searchsorted(counts, wanted - 1e-9))]
        # The last threshold accepts every row, also one of a lower confidence than any row here.
        between = np.r_[(c[counts[:-1] - 1] + c[counts[:-1]]) / 2, 0.0]
        wrong = np.cumsum(given.wrong[:, order], axis=1)[:, counts - 1] / counts
        return cls(between, counts, wrong, used)

    def choose(self, given: Answers, demand: Demand) -> int | None:
        """Return the candidate of a coverage, or of least expected cost, which may be none."""
        shares = self.accepted / self.accepted[-1]
        if demand.prices is None:
            return int(np.abs(shares - demand.coverage).argmin())
        wrong, referred = demand.prices
        expected = shares * (given.weights @ self.wrong) * wrong + (1 - shares) * referred
        best = int(expected.argmin())
        return best if expected[best] < referred else None

    def threshold(self, at: int | None, error: Interval | None, *, guaranteed: bool) -> Threshold:
        """Return a candidate with its error; None accepts no row."""
        if at is None:
            return Threshold(None, 0.0, None, guaranteed, self.used)
        share = float(self.accepted[at] / self.accepted[-1])
        return Threshold(float(self.confidence[at]), share, error, guaranteed, self.used)


@dataclass(frozen=True)
class Demand:
    """What is asked of a threshold: at most one of ``coverage`` and ``prices`` is given."""

    max_error: float
    level: float
    coverage: float | None
    prices: tuple[float, float] | None

    @property
    def decides(self) -> bool:
        """Return whether a coverage or prices decide, in place of the largest error."""
        return self.coverage is not None or self.prices is not None

    @classmethod
    def of(
        cls, max_error: float, level: float, coverage: float | None, costs: Sequence[float] | None
    ) -> Demand:
        """Return the arguments of `Calibration.threshold`, checked."""
        max_error = check_number(max_error, "max_error", low=0, high=1, open_low=True)
        level = check_number(level, "level", low=0.5, high=0.9999, open_low=True)
        if coverage is not None and costs is not None:
            raise InputError(
                "coverage and costs must not be given together: each of them decides the "
                "threshold. Leave one of them out."
            )
        if coverage is not None:
            coverage = check_number(coverage, "coverage", low=0, high=1, open_low=True)
        return cls(max_error, level, coverage, None if costs is None else _check_prices(costs))


@dataclass(frozen=True, eq=False)
class Tested:
    """The calibration without its labelled rows, and these rows as its test."""

    map: Map
    target: Answers
    labelled: Answers
    wrong: NDArray[np.bool_]


def find_threshold(cal: Calibration, demand: Demand) -> Threshold:
    """Return a threshold of a calibration; see `Calibration.threshold`."""
    return _search(cal.map, answers(cal, None, "threshold"), _tested(cal), demand)


def find_thresholds(cal: Calibration, demand: Demand) -> dict[str, Threshold]:
    """Return a threshold for the rows of each predicted class; see `Calibration.threshold`."""
    given, tested = answers(cal, None, "threshold"), _tested(cal)
    present = np.unique(given.predicted)
    demand = replace(demand, level=1 - (1 - demand.level) / len(present))
    found: dict[str, Threshold] = {}
    for k in present:
        rows = given.take(np.flatnonzero(given.predicted == k))
        name = str(cal.details["classes"][given.active[k]])
        found[name] = _search(cal.map, rows, tested and _of_class(tested, k), demand)
    return found


def _of_class(tested: Tested, k: int) -> Tested | None:
    """Return the part of a test that is predicted to be of one class; None where that is empty."""
    there = np.flatnonzero(tested.target.predicted == k)
    seen = np.flatnonzero(tested.labelled.predicted == k)
    if not (len(there) and len(seen)):
        return None
    target, labelled = tested.target.take(there), tested.labelled.take(seen)
    return Tested(tested.map, target, labelled, tested.wrong[seen])


def _search(used: Map, given: Answers, tested: Tested | None, demand: Demand) -> Threshold:
    """Return the threshold that labelled rows guarantee, or, where they do not, an estimate."""
    guaranteed = None if tested is None else _guarantee(tested, demand)
    if guaranteed is not None:
        return guaranteed
    among = Candidates.of(used, given, STEPS)

    def estimated(at: int) -> Interval:
        return given.share(among.wrong[:, at], int(among.accepted[at]), demand.level)

    if demand.decides:
        found = among.choose(given, demand)
    else:
        most_first = reversed(range(len(among.accepted)))
        found = next((at for at in most_first if estimated(at).high <= demand.max_error), None)
    return among.threshold(found, None if found is None else estimated(found), guaranteed=False)


def _tested(cal: Calibration) -> Tested | None:
    """Return the calibration without its labelled rows, to be tested by them; None without any."""
    from temperance.calibrate import solve_problem  # the pipeline builds results

    problem = cal._problem  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if problem is None or problem.labelled is None:
        return None
    without = solve_problem(replace(problem, labelled=None))
    if without.verdict == "refused":  # its map is taken as it is
        numbers = without.map.parameters()
        k = len(problem.names)
        one = {
            "weights": [1.0],
            "temperatures": [float(numbers.get("temperature", 1.0))],
            "biases": [numbers.get("bias", np.zeros(k)).tolist()],
        }
        without = replace(
            without, verdict="no-evidence", details=without.details | {"plausible": one}
        )
    shown = np.zeros((len(problem.labelled.logits), len(problem.names)))
    shown[:, problem.active] = problem.labelled.logits
    labelled = answers(without, shown, "threshold")
    wrong = labelled.predicted != problem.labelled.labels
    return Tested(without.map, answers(without, None, "threshold"), labelled, wrong)


def _guarantee(tested: Tested, demand: Demand) -> Threshold | None:
    """Return a threshold that the labelled rows have tested; None where they are too few."""
    given, seen, wrong = tested.target, tested.labelled, tested.wrong
    among = Candidates.of(tested.map, given, TESTS)

    def measured(at: int) -> Interval | None:
        reached = seen.confidence >= among.confidence[at]
        return exact_interval(int(wrong[reached].sum()), int(reached.sum()), demand.level)

    if demand.decides:
        found = among.choose(given, demand)
        error = None if found is None else measured(found)
        untested = found is not None and error is None
        return None if untested else among.threshold(found, error, guaranteed=True)
    # The bound needs that many rows without any error; some more are asked for.
    needed = np.log(1 - demand.level) / np.log1p(-min(demand.max_error, 1 - 1e-12))
    if len(wrong) < needed:
        return None
    enough = min(1.0, (needed + 2 * np.sqrt(needed)) / len(wrong))
    best = among.threshold(None, None, guaranteed=True)
    for at in np.flatnonzero(among.accepted / among.accepted[-1] >= enough - 1e-12):
        error = measured(int(at))
        if error is None or error.high > demand.max_error:
            break
        best = among.threshold(int(at), error, guaranteed=True)
    return best


def exact_interval(wrong: int, n: int, level: float) -> Interval | None:
    """Return a share with its exact binomial bounds (Clopper and Pearson), each of that level.

    >>> print(f"{exact_interval(0, 45, 0.9):.3f}")
    0.000 [0.000, 0.050]
    """
    if n == 0:
        return None
    low = 0.0 if wrong == 0 else float(betaincinv(wrong, n - wrong + 1, 1 - level))
    high = 1.0 if wrong == n else float(betaincinv(wrong + 1, n - wrong, level))
    return Interval(wrong / n, low, high)


def _check_prices(costs: Sequence[float]) -> tuple[float, float]:
    try:
        wrong, referred = costs
    except (TypeError, ValueError):
        raise InputError(
            "costs must be two numbers, the cost of an accepted wrong row and that of a row that "
            f"is referred. Got {shown(costs)} instead."
        ) from None
    return (
        check_number(wrong, "cost of a wrong row", low=0, open_low=True),
        check_number(referred, "cost of a referred row", low=0),
    )
