"""Improved, no-evidence or refused: what the plausible maps say of the map that is used.

refused       a finding makes any map meaningless, or nothing at all is known: the source's
temperature is used where there is one, else the model's own probabilities
improved      the Brier score falls against the model's own probabilities with a probability of at
least 90 % (95 % where neither a class mix nor a label is known), and the calibration error with one
of at least 60 %
no-evidence   neither: the map of highest expected score is used all the same, and said to be
expected to change little
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtr

from temperance._core.arrays import Floats
from temperance._core.stats import Interval, wilson
from temperance.calibrate.constants import POLICY
from temperance.calibrate.problem import Logits
from temperance.calibrate.solve import TINY, BiasAt
from temperance.metrics.binned import N_BINS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.calibrate.problem import Problem
    from temperance.calibrate.uncertainty import Plausible

Verdict = Literal["improved", "no-evidence", "refused"]
EDGES = np.arange(N_BINS + 1) / N_BINS
COVERAGE = np.linspace(0.01, 1, 100)


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the plausible maps say of the map that is used.

    Attributes
    ----------
    verdict : {"improved", "no-evidence"}
    temperature, accuracy, accuracy_before, ece_before, ece_after, gain : Interval
        ``gain`` is the fall of the Brier score (sum over classes) against the model's own.
    probability : float
        That the gain is positive.
    risk_before, risk_after : list of Interval
        Share of wrong answers among the most confident rows, at each of `COVERAGE`.
    """

    verdict: Verdict
    temperature: Interval
    accuracy: Interval
    accuracy_before: Interval
    ece_before: Interval
    ece_after: Interval
    gain: Interval
    probability: float
    risk_before: list[Interval]
    risk_after: list[Interval]


def judge(problem: Problem, plausible: Plausible) -> Judgement:
    """Return what the plausible maps say, each taken for the truth in turn."""
    sample, n = problem.sample, len(problem.sample)
    own, used = sample.probabilities(1.0), sample.probabilities(*plausible.centre)
    rows = np.arange(n)
    kinds = {"before": own, "after": used}
    predicted = {name: p.argmax(axis=1) for name, p in kinds.items()}
    right: dict[str, list[Floats]] = {"before": [], "after": []}
    gains: list[float] = []
    sharper = float(np.sum(own * own) - np.sum(used * used)) / n
    for truth in plausible.truths(sample):
        gains.append(sharper - 2 * float(np.sum((own - used) * truth)) / n)
        for name in kinds:
            right[name].append(truth[rows, predicted[name]])
    accuracy = {name: np.array([r.mean() for r in right[name]]) for name in kinds}
    errors = {name: _errors(kinds[name], right[name]) for name in kinds}
    sampling = _error_of_gain(own, used)
    gain = plausible.interval(np.array(gains), sampling=sampling)
    probability = share_above_zero(plausible.weights, np.array(gains), sampling)
    falls = share_above_zero(plausible.weights, errors["before"] - errors["after"], 0.0)
    own_map = BiasAt(1.0, np.zeros(problem.n_classes))
    # Of the log-odds of the accuracy, from a class mix that was counted; labels tell the mix anew.
    mix = None if problem.labelled is not None else plausible.mix
    from_mix = 0.0 if mix is None else mix.error

    def share(name: str) -> Interval:
        values = accuracy[name]
        mean = float(plausible.weights @ values)
        variance = max(mean * (1 - mean), 0.0)
        error = float(np.hypot(np.sqrt(variance / n), from_mix * variance))
        found = plausible.interval(values, sampling=error)
        low, high = max(found.low, 0.0), min(found.high, 1.0)
        measured = _measured(problem, own_map if name == "before" else plausible.centre)
        if measured is not None and not low <= measured <= high:
            low, high = min(low, measured), max(high, measured)
        return Interval(min(max(found.value, low), high), low, high)

    def error(name: str) -> Interval:
        found = plausible.interval(errors[name], floor=_noise(kinds[name]))
        gap = plausible.interval(accuracy[name] - float(kinds[name].max(axis=1).mean()))
        # Between two plausible accuracies, one above and one below the confidence, every accuracy
        # is plausible, and so is an error of zero.
        low = 0.0 if gap.low < 0 < gap.high else max(found.low, 0.0)
        return Interval(found.value, low, min(found.high, 1.0))

    after = share("after")
    mix_known = float(plausible.weights[plausible.meets].sum()) >= POLICY.doubted_mix
    known = mix_known or problem.labelled is not None
    improved = (
        probability >= (POLICY.improved_probability if known else POLICY.improved_without_mix)
        and gain.value >= POLICY.improved_gain
        and falls >= POLICY.error_probability
    )
    return Judgement(
        verdict="improved" if improved else "no-evidence",
        temperature=_temperatures(plausible),
        accuracy=after,
        accuracy_before=share("before"),
        ece_before=error("before"),
        ece_after=error("after"),
        gain=gain,
        probability=probability,
        risk_before=_risk(plausible, own, right["before"]),
        risk_after=_risk(plausible, used, right["after"]),
    )


def _measured(problem: Problem, used: BiasAt) -> float | None:
    """Return the accuracy that the labelled rows show by themselves; None without labels.

    Where labels contradict all maps, no map of this form fits, and the interval has to hold both.
    The accuracy is the centre of Wilson's interval: one wrong label does not make it 0.
    """
    if problem.labelled is None:
        return None
    rows = Logits.of(problem.labelled.logits)
    predicted = rows.probabilities(used.temperature, used.bias).argmax(axis=1)
    found = wilson(float((predicted == problem.labelled.labels).mean()), len(predicted))
    return (found.low + found.high) / 2


def _error_of_gain(own: Floats, used: Floats) -> float:
    """Return the standard error of the gain on so many rows, if the map that is used were right."""
    n, times = len(own), "ij,ij->i"
    sharper = np.einsum(times, own, own) - np.einsum(times, used, used)
    once = np.einsum(times, used, own) - np.einsum(times, used, used)
    twice = sum(
        factor * np.einsum("ij,ij,ij->i", used, a, b)
        for factor, a, b in ((1, own, own), (-2, own, used), (1, used, used))
    )
    mean = sharper - 2 * once
    square = sharper**2 - 4 * sharper * once + 4 * twice
    return float(np.sqrt(max(float(square.mean()) - float(mean.mean()) ** 2, 0.0) / n))


def share_above_zero(weights: Floats, values: Floats, sampling: float) -> float:
    """Return the probability that a quantity is positive.

    Each value stands for a normal distribution: its variance is that of an even spread from half
    way to the next smaller value to half way to the next larger one, plus that of ``sampling``, a
    standard error.
    """
    order = np.argsort(values, kind="stable")
    place, weight = values[order], weights[order] / weights.sum()
    between = (place[1:] + place[:-1]) / 2
    ends = np.concatenate([2 * place[:1] - between[:1], between, 2 * place[-1:] - between[-1:]])
    width = np.diff(ends) if len(place) > 1 else np.zeros(1)
    error = np.sqrt(width**2 / 12 + sampling**2 + TINY**2)  # never zero
    return float(weight @ ndtr(place / error))


def _temperatures(plausible: Plausible) -> Interval:
    t, found = plausible.centre.temperature, plausible.interval(np.log(plausible.temperatures))
    low, high = float(np.exp(found.low)), float(np.exp(found.high))
    return Interval(t, min(t, low), max(t, high))


def _errors(p: Floats, right: list[Floats]) -> Floats:
    """Return the calibration error of ``p`` if each of the truths held."""
    top = p.max(axis=1)
    place = bin_of(top)
    gaps = [np.abs(np.bincount(place, top - r, N_BINS)).sum() for r in right]
    return np.array(gaps) / len(p)


def bin_of(confidence: Floats) -> NDArray[np.intp]:
    """Return the bin of each confidence: (0, 1/15], (1/15, 2/15] and so on."""
    return np.searchsorted(EDGES[1:-1], confidence)


def _noise(p: Floats) -> float:
    """Return the calibration error that a calibrated model shows by chance on so many rows."""
    top = p.max(axis=1)
    variance = np.bincount(bin_of(top), top * (1 - top), N_BINS)
    return float(np.sqrt(2 / np.pi * variance).sum()) / len(p)


def _risk(plausible: Plausible, p: Floats, right: list[Floats]) -> list[Interval]:
    """Return the share of wrong answers among the most confident rows, by coverage."""
    order = np.argsort(-p.max(axis=1), kind="stable")
    answered = np.maximum(1, np.round(COVERAGE * len(p)).astype(int))
    risks = np.array([(np.cumsum(1 - r[order])[answered - 1]) / answered for r in right])
    out: list[Interval] = []
    for column, count in zip(risks.T, answered, strict=True):
        mean = float(plausible.weights @ column)
        found = plausible.interval(column, sampling=float(np.sqrt(mean * (1 - mean) / count)))
        out.append(Interval(found.value, max(found.low, 0.0), min(found.high, 1.0)))
    return out
