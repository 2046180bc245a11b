"""What labels would say of a calibration, computed from its probabilities without them.

Each plausible map is taken for the truth in turn: under it a row of probabilities p is of class k
with probability p_k, so that every table of true against predicted classes has an expected value.
Intervals hold the differences between the maps and the error of a sample of that many rows; those
of a class hold an error of its bias too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from temperance._core.arrays import Floats, to_numpy
from temperance._core.checks import InputError, check_number, check_same_classes
from temperance._core.stats import Interval
from temperance.calibrate.constants import FITTED, POLICY
from temperance.calibrate.problem import Logits
from temperance.calibrate.uncertainty import interval_over
from temperance.data import as_rows
from temperance.data.types import LogitsLike
from temperance.maps import BiasedTemperature, Map, Temperature

if TYPE_CHECKING:
    from temperance.calibrate.result import Calibration

LARGEST_COST = 1e100  # whose square is a number
LEAST = 1.0  # expected rows below which a share among them is not known


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows with the answers of a map, and the probabilities of the maps that may be right."""

    rows: Logits  # of the classes that can occur
    active: NDArray[np.intp]  # these classes
    n_classes: int  # of all classes
    used: Floats  # (n, K), probabilities of the map that is used
    weights: Floats  # (m,), of the plausible maps: their sum is 1
    temperatures: Floats  # (m,)
    biases: Floats  # (m, K)
    bias_error: (
        float  # standard error of the bias of a class; 0 where the maps differ by it already
    )

    @cached_property
    def predicted(self) -> NDArray[np.intp]:
        """Return the predictions of the map."""
        return self.used.argmax(axis=1)

    @cached_property
    def confidence(self) -> Floats:
        """Return the confidence of the map."""
        return self.used.max(axis=1)

    def take(self, rows: NDArray[np.intp]) -> Answers:
        """Return some of the rows."""
        return replace(self, rows=self.rows.take(rows), used=self.used[rows])

    def truths(self) -> Iterator[Floats]:
        """Yield the probabilities of the rows by each plausible map."""
        for t, b in zip(self.temperatures, self.biases, strict=True):
            yield self.rows.probabilities(float(t), b)

    @cached_property
    def wrong(self) -> Floats:
        """Return the probability that a prediction is wrong, by map and row: shape (m, n)."""
        place = np.arange(len(self.rows))
        return np.array([1 - truth[place, self.predicted] for truth in self.truths()])

    def share(
        self, values: Floats, count: float, level: float = POLICY.level, other: float = 0.0
    ) -> Interval:
        """Return a share among so many rows, given by map; ``other`` is one more standard error."""
        # Of no wrong row in ten, none in all is not sure.
        smooth = (count * float(self.weights @ values) + 1) / (count + 2)
        error = float(np.sqrt(smooth * (1 - smooth) / (count + 2)))
        return self.within(values, float(np.hypot(error, other)), level)

    def within(self, values: Floats, error: float, level: float = POLICY.level) -> Interval:
        """Return a number between 0 and 1 with its interval, given its sampling error."""
        found = interval_over(self.weights, values, sampling=error, level=level)
        value = float(np.clip(found.value, 0.0, 1.0))
        return Interval(value, max(found.low, 0.0), min(found.high, 1.0))


def answers(cal: Calibration, logits: LogitsLike | None, name: str) -> Answers:
    """Return rows with the answers of a calibration, for the method ``name``."""
    plausible: dict[str, Any] | None = cal.details["plausible"]
    if cal.verdict == "refused":
        raise InputError(
            f"{name} needs a calibration that was not refused: the data support no map, and "
            "nothing is expected of its answers. Follow the advice of its findings, or give "
            "labelled=(logits, labels) to temperance.calibrate."
        )
    if plausible is None:
        raise InputError(
            f"{name} needs at most 2,000 classes. Got {cal.details['n_classes']:,}: take the "
            "accuracy of the calibration, which is known for any number of classes."
        )
    problem, k = cal._problem, int(cal.details["n_classes"])  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if logits is None and problem is None:
        way_out = "Pass logits." if name == "expected" else "Call temperance.calibrate again."
        raise InputError(
            f"{name} needs the rows that the calibration was fitted on, and a file has none of "
            f"them. {way_out}"
        )
    if problem is not None:
        active = problem.active
    else:  # a class that cannot occur is given no probability
        active = np.flatnonzero(np.array(cal.details["mix_after"]) > 0)
    if logits is None and problem is not None:
        z, rows = problem.raw, problem.target
    else:
        given = as_rows(logits)
        check_same_classes(given.n_classes, k, "logits")
        z = to_numpy(given.take(np.arange(given.n)).logits)
        rows = Logits.of(z[:, active])
    weights = np.array(plausible["weights"], dtype=np.float64)
    return Answers(
        rows=rows,
        active=active,
        n_classes=k,
        used=_probabilities(cal.map, z, rows, active),
        weights=weights / weights.sum(),
        temperatures=np.array(plausible["temperatures"], dtype=np.float64),
        biases=np.array(plausible["biases"], dtype=np.float64)[:, active],
        bias_error=0.0 if cal.details["n_labelled"] else FITTED.bias_error,
    )


def _probabilities(
    used: Map, z: NDArray[Any], rows: Logits, active: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the probabilities that a map gives the classes that can occur."""
    if isinstance(used, (Temperature, BiasedTemperature)):
        bias = used.bias[active] if isinstance(used, BiasedTemperature) else 0.0
        return rows.probabilities(used.temperature, bias)
    p = to_numpy(used.predict_proba(z)).astype(np.float64)[:, active]
    return p / p.sum(axis=1, keepdims=True)


class Accepted(NamedTuple):
    """Rows whose confidence reaches a threshold."""

    share: Interval  # of all rows
    wrong: Interval | None  # share of wrong predictions among them; None where there are none


@dataclass(frozen=True, eq=False)
class Expected:
    """What labels are expected to say of a calibration: the answer of `Calibration.expected`.

    Every interval has a level of 90 %. It holds the differences between the plausible maps, and the
    error of a sample of that many rows; that of a class holds an error of its bias too. What is not
    known is None.

    Attributes
    ----------
    n : int
        Rows.
    classes : list of str
    confusion : array of shape (K, K)
        Expected share of all rows by true class (row) and predicted class (column).
    accuracy : Interval
        Of the predictions of the map.
    precision, recall, f1 : tuple of K Interval or None
        By class. The precision of a class that is never predicted is not known, nor is the recall
        of a class of which less than one row is expected.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 5 * (2 * np.eye(3)[y] + rng.normal(size=(3000, 3)))
    >>> expected = tp.calibrate(z[:1500], source=(z[1500:], y[1500:])).expected()
    >>> right = np.mean(z[:1500].argmax(axis=1) == y[:1500])
    >>> bool(expected.accuracy.low < right < expected.accuracy.high)
    True
    >>> expected.confusion.shape, len(expected.recall)
    ((3, 3), 3)
    >>> one_for_each_error = 1 - np.eye(3)
    >>> bool(np.isclose(expected.cost(one_for_each_error).value, 1 - expected.accuracy.value))
    True
    >>> sure, all_rows = expected.above(0.95), expected.above(0.0)
    >>> sure.share.value < all_rows.share.value, sure.wrong.value < all_rows.wrong.value
    (True, True)
    """

    n: int
    classes: list[str]
    confusion: Floats = field(repr=False)
    accuracy: Interval
    precision: tuple[Interval | None, ...] = field(repr=False)
    recall: tuple[Interval | None, ...] = field(repr=False)
    f1: tuple[Interval | None, ...] = field(repr=False)
    _answers: Answers = field(repr=False)

    @cached_property
    def auc(self) -> tuple[Interval | None, ...]:
        """Return the area under the ROC curve of each class against the rest.

        None for a class of which less than one row, or all rows but one, are expected. The sampling
        error is that of Hanley and McNeil (1982).
        """
        found = [
            None if np.isnan(error) else self._answers.within(column, float(error))
            for column, error in zip(self._areas[0].T, self._areas[1], strict=True)
        ]
        return _widen(self._answers, found)

    @cached_property
    def macro_auc(self) -> Interval | None:
        """Return the mean of the known `auc`; its sampling error is the mean of theirs."""
        values, errors = self._areas
        known = ~np.isnan(errors)
        if not known.any():
            return None
        return self._answers.within(values[:, known].mean(axis=1), float(errors[known].mean()))

    @cached_property
    def _areas(self) -> tuple[Floats, Floats]:
        return _areas(self._answers)

    def cost(self, matrix: ArrayLike) -> Interval:
        """Return the expected cost of a row.

        Parameters
        ----------
        matrix : array of shape (K, K)
            Cost by true class (row) and predicted class (column).
        """
        given = self._answers
        costs = _check_costs(matrix, given.n_classes)[np.ix_(given.active, given.active)]
        chosen = costs.T[given.predicted]  # by row and true class
        sums = [(np.sum(truth * chosen), np.sum(truth * chosen**2)) for truth in given.truths()]
        means, squares = np.array(sums).T / self.n
        variance = max(float(given.weights @ squares - (given.weights @ means) ** 2), 0.0)
        return interval_over(given.weights, means, sampling=float(np.sqrt(variance / self.n)))

    def above(self, threshold: float) -> Accepted:
        """Return the share of rows whose confidence reaches a threshold, and how many are wrong.

        Parameters
        ----------
        threshold : float
            Confidence of the map, from 0 to 1.
        """
        threshold = check_number(threshold, "threshold", low=0, high=1)
        given = self._answers
        reached = given.confidence >= threshold
        share = given.share(np.full(len(given.weights), reached.mean()), self.n)
        if not reached.any():
            return Accepted(share, None)
        wrong = given.wrong[:, reached].mean(axis=1)
        return Accepted(share, given.share(wrong, int(reached.sum())))


def expect(cal: Calibration, logits: LogitsLike | None) -> Expected:
    """Return what labels are expected to say; see `Calibration.expected`."""
    given = answers(cal, logits, "expected")
    (n, k), m = given.used.shape, len(given.weights)
    order = np.argsort(given.predicted, kind="stable")
    present, starts = np.unique(given.predicted[order], return_index=True)
    predicted = np.bincount(given.predicted, minlength=k) / n
    confusion, hits, mixes = np.zeros((k, k)), np.empty((m, k)), np.empty((m, k))
    mean = np.zeros((n, k))
    for i, (weight, truth) in enumerate(zip(given.weights, given.truths(), strict=True)):
        mean += weight * truth
        table = np.zeros((k, k))
        table[:, present] = np.add.reduceat(truth[order], starts, axis=0).T / n
        confusion += weight * table
        hits[i], mixes[i] = np.diag(table), table.sum(axis=1)
    full = np.zeros((given.n_classes, given.n_classes))
    full[np.ix_(given.active, given.active)] = confusion
    errors = _bias_errors(given, mean, predicted)
    found: dict[str, list[Interval | None]] = {name: [None] * k for name in errors}
    for j, (p, q) in enumerate(zip(predicted, given.weights @ mixes, strict=True)):
        hit, mix = hits[:, j], mixes[:, j]
        wrong, missed, error = (float(errors[name][j]) for name in errors)
        if n * p >= LEAST:
            found["precision"][j] = given.share(hit / p, n * p, other=wrong)
        if n * q >= LEAST:
            found["recall"][j] = given.share(hit / mix, n * q, other=missed)
        if n * max(p, q) >= LEAST:
            error = float(np.hypot(error, _f1_error(float(given.weights @ hit), float(p + q), n)))
            found["f1"][j] = given.within(2 * hit / (p + mix), error)
    return Expected(
        n=n,
        classes=list(cal.details["classes"]),
        confusion=full,
        accuracy=given.share(hits.sum(axis=1), n),
        **{name: _widen(given, intervals) for name, intervals in found.items()},
        _answers=given,
    )


def _bias_errors(given: Answers, mean: Floats, predicted: Floats) -> dict[str, Floats]:
    """Return the errors of precision, recall and F1 of each class that an error of its bias makes.

    Half the difference between the bias of the class one standard error higher and lower, with the
    mean probabilities of the plausible maps.
    """
    n, k = mean.shape
    own = given.predicted
    found: dict[str, list[Floats]] = {"precision": [], "recall": [], "f1": []}
    for side in (1, -1):
        factor = np.exp(side * given.bias_error)
        moved = mean * factor / (1 + mean * (factor - 1))
        hit = np.bincount(own, moved[np.arange(n), own], k) / n
        there = moved.sum(axis=0) / n
        found["precision"].append(hit / np.maximum(predicted, 1 / n))
        found["recall"].append(hit / np.maximum(there, 1e-300))
        found["f1"].append(2 * hit / np.maximum(predicted + there, 1e-300))
    return {name: np.abs(high - low) / 2 for name, (high, low) in found.items()}


def _f1_error(hit: float, both: float, n: int) -> float:
    """Return the standard error of F1 = 2 t / (2 t + e), by the delta method.

    t and e, the shares of hits and of errors, are smoothed by one row each.
    """
    t, e = hit + 1 / n, both - 2 * hit + 1 / n
    return float(np.sqrt(4 * t * e * (t + e) / n)) / (2 * t + e) ** 2


def _areas(given: Answers) -> tuple[Floats, Floats]:
    """Return the areas by map and class, and their sampling errors: NaN where not known.

    Expected pairs of a row of the class and another row that are in the right order, over all such
    pairs; pairs of equal scores count one half, and a row makes no pair with itself.
    """
    n, k = given.used.shape
    order = np.argsort(given.used, axis=0, kind="stable")
    scores = np.take_along_axis(given.used, order, axis=0)
    first = np.empty((n, k), dtype=np.intp)
    last = np.empty((n, k), dtype=np.intp)
    for j in range(k):
        first[:, j] = np.searchsorted(scores[:, j], scores[:, j], side="left")
        last[:, j] = np.searchsorted(scores[:, j], scores[:, j], side="right")
    m = len(given.weights)
    areas, positive = np.empty((m, k)), np.empty((m, k))
    for i, truth in enumerate(given.truths()):
        p = np.take_along_axis(truth, order, axis=0)
        below = np.concatenate([np.zeros((1, k)), np.cumsum(1 - p, axis=0)])
        middle = np.take_along_axis(below, first, axis=0) + np.take_along_axis(below, last, axis=0)
        itself = np.sum(p * (1 - p), axis=0)
        positive[i] = p.sum(axis=0)
        pairs = positive[i] * (n - positive[i]) - itself
        right = np.sum(p * middle, axis=0) / 2 - itself / 2
        areas[i] = np.where(pairs > 0, right / np.maximum(pairs, 1e-300), 0.5)
    a, ones = np.clip(given.weights @ areas, 0.0, 1.0), given.weights @ positive
    zeros = n - ones
    known = (ones >= LEAST) & (zeros >= LEAST)
    one, two = a / (2 - a) - a**2, 2 * a**2 / (1 + a) - a**2
    variance = a * (1 - a) + np.maximum(ones - 1, 0) * one + np.maximum(zeros - 1, 0) * two
    variance /= np.where(known, ones * zeros, 1.0)
    return areas, np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.nan)


def _widen(given: Answers, found: list[Interval | None]) -> tuple[Interval | None, ...]:
    """Return the numbers of all classes; those of classes that cannot occur are not known."""
    full: list[Interval | None] = [None] * given.n_classes
    for j, one in zip(given.active, found, strict=True):
        full[int(j)] = one
    return tuple(full)


def _check_costs(matrix: ArrayLike, k: int) -> Floats:
    try:
        costs = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = f"matrix must be {k} x {k} numbers. Got {type(matrix).__name__} instead."
        raise InputError(msg) from None
    if costs.shape != (k, k):
        raise InputError(
            f"matrix must be {k} x {k}, true classes by predicted classes. Got shape "
            f"{costs.shape} instead."
        )
    if not (np.abs(costs) <= LARGEST_COST).all():
        raise InputError(
            f"matrix must hold finite costs within ±{LARGEST_COST:g}. Got NaN, infinity or larger "
            "ones: put 0 where a pair costs nothing."
        )
    return costs
