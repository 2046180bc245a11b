"""What the map may be: plausible maps with their weights, and the one map nearest to all of them.

A plausible map meets a class mix and an accuracy. The class mix is the stated one, or, with the
probability that the stated one is wrong, none (b = 0); the accuracy is near one of its estimates
(`accuracy`). The map that is used minimises the expected log score over all of them: it is the map
nearest to their mixture, so that doubt by itself lowers confidence and shrinks the bias.

Every interval is one over the plausible maps, each taken for the truth in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from temperance._core.stats import Z90, Interval
from temperance.calibrate.accuracy import (
    Estimates,
    estimate_with_source,
    estimate_without_source,
    log_odds,
    share_similar,
)
from temperance.calibrate.constants import FITTED, NUMERICAL, POLICY
from temperance.calibrate.problem import about
from temperance.calibrate.solve import (
    BiasAt,
    match_accuracy,
    match_confidence,
    match_mix,
    project,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from temperance.calibrate.accuracy import Source
    from temperance.calibrate.problem import Logits, Prior, Problem

    Matrix = NDArray[np.float64]

NEGLIGIBLE = 0.02  # probability of an explanation that is left out
REPEATED = 1e-3  # distance within which a stated mix is the source's own


@dataclass(frozen=True)
class Mix:
    """The stated class mix against the model's own mean probabilities.

    Attributes
    ----------
    value : array of shape (K,)
        The mix that maps meet on the sample.
    shrinkage : float
        From 0, the model's own mean probabilities, to 1, the stated mix.
    distance : float
        Total variation between the stated mix and the model's own mean probabilities.
    confidence_rise : float
        Change of the log-odds of the mean confidence by meeting the mix, per unit of distance.
    probability : float
        That the stated mix is right.
    rows : float
        The stated mix is as good as a count of that many rows.
    """

    value: Matrix
    shrinkage: float
    distance: float
    confidence_rise: float
    probability: float
    rows: float


class Explanation(NamedTuple):
    """A class mix that may hold, None where nothing is known of it, and the accuracies then.

    Attributes
    ----------
    probability : float
    mix : array of shape (K,) or None
    estimates : Estimates
    """

    probability: float
    mix: Matrix | None
    estimates: Estimates


@dataclass(frozen=True, eq=False)
class Plausible:
    """Maps that may be right, with their weights.

    Attributes
    ----------
    weights : array of shape (m,)
    temperatures : array of shape (m,)
    biases : array of shape (m, K)
    meets : array of shape (m,)
        Whether a map meets the stated class mix.
    centre : BiasAt
        The map nearest to the mixture.
    estimates : tuple of Estimates
        Behind the maps: with the stated mix first, where there is one.
    mix : Mix or None
    """

    weights: Matrix
    temperatures: Matrix
    biases: Matrix
    meets: NDArray[np.bool_]
    centre: BiasAt
    estimates: tuple[Estimates, ...] = ()
    mix: Mix | None = None

    def truths(self, rows: Logits) -> Iterator[Matrix]:
        """Yield the probabilities of the rows by each map."""
        for t, b in zip(self.temperatures, self.biases, strict=True):
            yield rows.probabilities(float(t), b)

    def interval(self, values: Matrix, *, sampling: float = 0.0, floor: float = 0.0) -> Interval:
        """Return the mean of a quantity over the maps, with its 90 % interval.

        ``sampling`` and ``floor`` are those of `interval_over`.
        """
        return interval_over(self.weights, values, sampling=sampling, floor=floor)


def interval_over(
    weights: Matrix,
    values: Matrix,
    *,
    sampling: float = 0.0,
    floor: float = 0.0,
    level: float = POLICY.level,
) -> Interval:
    """Return the weighted mean of values with an interval of their quantiles.

    ``sampling`` is a standard error that comes on top, ``floor`` a bias of the measurement that
    only the upper end has to hold.
    """
    order = np.argsort(values, kind="stable")
    weight = weights[order] / weights.sum()
    at = np.cumsum(weight) - weight / 2
    tail = (1 - level) / 2
    low, high = np.interp([tail, 1 - tail], at, values[order])
    value = float(weight @ values[order])
    normal = Z90 if level == POLICY.level else NormalDist().inv_cdf(1 - tail)
    reach = normal * sampling
    return Interval(
        value,
        min(value, value - float(np.hypot(max(value - low, 0), reach))),
        max(value, value + float(np.hypot(max(high - value, 0) + floor, reach))),
    )


def plausible_maps(
    problem: Problem, source: Source | None, *, trusted: bool = False
) -> Plausible | None:
    """Return the maps that may be right without labels; None where nothing is known.

    A ``trusted`` class mix is taken as right.
    """
    sample = problem.sample
    _ = sample.scale  # raises NotIdentified where logits are constant
    start = 1.0 if source is None else source.temperature
    mix = None if problem.prior is None else _weigh_mix(problem, source, start, problem.prior)
    if mix is not None and trusted:
        mix = replace(mix, probability=1.0)
    if mix is not None and source is not None and problem.n_classes > len(sample):
        mix = replace(mix, probability=0.0)  # fewer rows than classes cannot meet a class mix
    explanations: list[Explanation] = []
    if mix is not None and (source is None or mix.probability > NEGLIGIBLE):
        found = (
            estimate_without_source(sample, mix.value)
            if source is None
            else estimate_with_source(sample, source, mix.value)
        )
        share = 1.0 if source is None else mix.probability
        explanations.append(Explanation(share, mix.value, found))
    doubt = 1.0 - sum(one.probability for one in explanations)
    if source is not None and doubt > NEGLIGIBLE:
        found = estimate_with_source(sample, source, None)
        explanations.append(Explanation(doubt, None, found))
    return _maps_of(problem, source, explanations, mix) if explanations else None


def allow_class_mix(problem: Problem, source: Source | None, plausible: Plausible) -> Plausible:
    """Return the maps that labels choose among: at least one in ten meets a class mix.

    Logits cannot tell whether some classes became more frequent or are predicted too often: labels
    can. The mix is the stated one or, where none is stated, that of the source.
    """
    met = float(plausible.weights[plausible.meets].sum())
    if source is None or met >= FITTED.allowed_mix or problem.n_classes > len(problem.sample):
        return plausible
    mix, meeting = plausible.mix, plausible
    if met == 0:
        if mix is None:
            counted = about(source.mix, len(source.labels)).restricted(np.arange(len(source.mix)))
            mix = _weigh_mix(problem, source, source.temperature, counted)
        if mix.shrinkage == 0:
            return plausible
        found = estimate_with_source(problem.sample, source, mix.value)
        meeting = _maps_of(problem, source, [Explanation(1.0, mix.value, found)], mix)
    parts = [
        (FITTED.allowed_mix, meeting, meeting.meets),
        (1 - FITTED.allowed_mix, plausible, ~plausible.meets),
    ]
    return replace(
        plausible,
        weights=np.concatenate(
            [share * of.weights[some] / of.weights[some].sum() for share, of, some in parts]
        ),
        temperatures=np.concatenate([of.temperatures[some] for _, of, some in parts]),
        biases=np.concatenate([of.biases[some] for _, of, some in parts]),
        meets=np.concatenate([of.meets[some] for _, of, some in parts]),
        mix=mix,
    )


def _maps_of(
    problem: Problem, source: Source | None, explanations: list[Explanation], mix: Mix | None
) -> Plausible:
    """Return the maps of some explanations."""
    start = 1.0 if source is None else source.temperature
    sharpest = NUMERICAL.sharpest_without_source if source is None else NUMERICAL.sharpest
    maps: list[BiasAt] = []
    weights: list[float] = []
    meets: list[bool] = []
    for weight, met, estimates in explanations:
        least = sharpest * min(1.0, estimates.scale_ratio)
        limits = start * least, start * NUMERICAL.widest
        for a, mass in zip(*estimates.nodes(problem.n_classes), strict=True):
            maps.append(_solve(problem.sample, float(a), met, start, limits, maps))
            weights.append(weight * float(mass))
            meets.append(met is not None)
    return Plausible(
        weights=np.array(weights) / sum(weights),
        temperatures=np.array([one.temperature for one in maps]),
        biases=np.array([one.bias for one in maps]),
        meets=np.array(meets),
        centre=nearest_map(problem, weights, maps),
        estimates=tuple(one.estimates for one in explanations),
        mix=mix,
    )


def _solve(
    sample: Logits,
    accuracy: float,
    mix: Matrix | None,
    start: float,
    limits: tuple[float, float],
    before: list[BiasAt],
) -> BiasAt:
    """Return the map of an accuracy and a mix, looked for from the last one that was found."""
    if mix is None:
        t = match_confidence(sample, accuracy, start, limits)
        return BiasAt(t, np.zeros(sample.n_classes))
    first = before[-1] if before else BiasAt(start, np.zeros(sample.n_classes))
    return match_accuracy(sample, accuracy, mix, first, limits)


def nearest_map(problem: Problem, weights: Sequence[float], maps: Sequence[BiasAt]) -> BiasAt:
    """Return the map nearest to a mixture of maps; it moves predictions only where it may."""
    sample = problem.sample
    probabilities = np.zeros_like(sample.z)
    for weight, one in zip(weights, maps, strict=True):
        probabilities += weight / sum(weights) * sample.probabilities(*one)
    moves = problem.bias and any(one.bias.any() for one in maps)
    start = maps[int(np.argmax(weights))]
    if not moves:
        start = BiasAt(start.temperature, np.zeros(problem.n_classes))
    return project(sample, probabilities, start, bias=moves)


def _weigh_mix(problem: Problem, source: Source | None, temperature: float, prior: Prior) -> Mix:
    """Return how probable the stated mix is, and the mix that maps meet.

    A mix that was counted on few rows, or that differs from the model's own mean probabilities by
    no more than chance, is drawn towards these (positive-part James-Stein). A mix that makes the
    model less sure of its predictions cuts through rows that lie together, and is likely wrong.
    """
    k, whole = problem.n_classes, problem.target.probabilities(temperature).mean(axis=0)
    distance = prior.value - whole
    chi2 = float(np.sum(distance**2 / (prior.value + whole + 1e-12))) * 2
    rows = 1 / (1 / prior.equivalent_sample_size + 1 / len(problem.target))
    noise = (k - 1) / rows
    shrinkage = max(0.0, 1 - NUMERICAL.label_shrinkage * noise / max(chi2, 1e-12))
    own = problem.sample.probabilities(temperature)
    value = np.maximum(own.mean(axis=0) + shrinkage * distance, POLICY.excluded)
    value /= value.sum()
    variation = 0.5 * float(np.abs(distance).sum())
    if source is None or shrinkage == 0:
        return Mix(value, shrinkage, variation, 0.0, 1.0, rows)
    _, met = match_mix(problem.sample, temperature, value, np.zeros(k))
    rise = log_odds(float(met.max(axis=1).mean())) - log_odds(float(own.max(axis=1).mean()))
    rise /= max(shrinkage * variation, 0.02)
    odds = FITTED.mix_odds + FITTED.mix_slope * rise
    odds += FITTED.mix_shift * _fall_of_similarity(problem.sample, source)
    if prior.exact and 0.5 * float(np.abs(prior.value - source.mix).sum()) < REPEATED:
        odds -= FITTED.repeated_mix
    return Mix(value, shrinkage, variation, rise, float(expit(odds)), rows)


def _fall_of_similarity(sample: Logits, source: Source) -> float:
    """Return the fall of the log-odds of `similar` since the source, from 0 to 3.

    The model's own class means are a witness against a stated mix only as far as its rows are such
    as it knows.
    """
    if sample.n_classes == 2:
        return 0.0
    weight = source.weights(None)
    error = source.error(weight)
    here = log_odds(share_similar(sample, source, weight, error))
    return float(np.clip(log_odds(1 - error) - here, 0.0, 3.0))
