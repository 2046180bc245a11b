"""What the map may be: plausible maps with their weights, and the one map nearest to all of them.

A plausible map meets a class mix and an accuracy. The class mix is the stated one or, where none is
stated, that of the source, which many shifts leave alone; with the probability that this mix is
wrong, none is met (b = 0). The accuracy is near one of its estimates (`accuracy`). The map that is
used minimises the expected log score over all of them: it is the map nearest to their mixture, so
that doubt by itself lowers confidence and shrinks the bias.

Every interval is one over the plausible maps, each taken for the truth in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit, gammaln, logsumexp

from temperance._core.arrays import Floats
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
    match_mix,
    project,
    solve_confidence,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from temperance.calibrate.accuracy import Source
    from temperance.calibrate.problem import Logits, Prior, Problem

NEGLIGIBLE = 0.02  # probability of an explanation that is left out
NEAR_OWN_MEANS = 10, 100  # rows that a Dirichlet distribution of mixes near the own means counts as
TINY_SHARE = 1e-4  # added to the own means, so that no class is impossible
REPEATED = 1e-3  # distance within which a stated mix is the source's own


@dataclass(frozen=True)
class Mix:
    """A class mix, stated or else the source's, against the model's own mean probabilities.

    Attributes
    ----------
    value : array of shape (K,)
        The mix that maps meet on the sample.
    shrinkage : float
        From 0, the model's own mean probabilities, to 1, the mix itself.
    distance : float
        Total variation between the mix and the model's own mean probabilities.
    confidence_rise : float
        Change of the mean confidence by meeting the mix, per unit of distance: from -1 to 1.
    probability : float
        That the mix is right.
    rows : float
        The mix is as good as a count of that many rows.
    error : float
        Standard error of the log-odds of the accuracy that comes from counting the mix.
    """

    value: Floats
    shrinkage: float
    distance: float
    confidence_rise: float
    probability: float
    rows: float
    error: float


class Explanation(NamedTuple):
    """A class mix that may hold, None where nothing is known of it, and the accuracies then.

    Attributes
    ----------
    probability : float
    mix : array of shape (K,) or None
    estimates : Estimates
    """

    probability: float
    mix: Floats | None
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
        Whether a map meets ``mix``.
    centre : BiasAt
        The map nearest to the mixture.
    estimates : tuple of Estimates
        Behind the maps: of those that meet ``mix`` first.
    mix : Mix or None
        The stated one or, where none is stated, that of the source.
    """

    weights: Floats
    temperatures: Floats
    biases: Floats
    meets: NDArray[np.bool_]
    centre: BiasAt
    estimates: tuple[Estimates, ...] = ()
    mix: Mix | None = None

    def truths(self, rows: Logits) -> Iterator[Floats]:
        """Yield the probabilities of the rows by each map."""
        for t, b in zip(self.temperatures, self.biases, strict=True):
            yield rows.probabilities(float(t), b)

    def interval(self, values: Floats, *, sampling: float = 0.0, floor: float = 0.0) -> Interval:
        """Return the mean of a quantity over the maps, with its 90 % interval.

        ``sampling`` and ``floor`` are those of `interval_over`.
        """
        return interval_over(self.weights, values, sampling=sampling, floor=floor)


def interval_over(
    weights: Floats,
    values: Floats,
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
    mix = _mix_that_may_hold(problem, source)
    if mix is not None and trusted:
        mix = replace(mix, probability=1.0)
    explanations: list[Explanation] = []
    if mix is not None and mix.probability > NEGLIGIBLE:
        explanations.append(_explain_by_mix(sample, source, mix, mix.probability))
    doubt = 1.0 - sum(one.probability for one in explanations)
    if source is not None and doubt > NEGLIGIBLE:
        found = estimate_with_source(sample, source, None)
        explanations.append(Explanation(doubt, None, found))
    return _maps_of(problem, source, explanations, mix) if explanations else None


def allow_class_mix(problem: Problem, source: Source | None, plausible: Plausible) -> Plausible:
    """Return the maps that labels choose among: at least one in ten meets the class mix.

    Logits cannot tell whether some classes became more frequent or are predicted too often: labels
    can.
    """
    met, mix = float(plausible.weights[plausible.meets].sum()), plausible.mix
    if source is None or mix is None or mix.shrinkage == 0 or met >= FITTED.allowed_mix:
        return plausible
    meeting = plausible
    if met == 0:
        explanation = _explain_by_mix(problem.sample, source, mix, 1.0)
        meeting = _maps_of(problem, source, [explanation], mix)
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
    )


def _mix_that_may_hold(problem: Problem, source: Source | None) -> Mix | None:
    """Return the stated class mix or, where none is stated, that of the source.

    Many shifts leave the class mix alone. None: there are too few rows to meet a class mix.
    """
    if source is None:
        return None if problem.prior is None else _weigh_mix(problem, None, 1.0, problem.prior)
    if problem.n_classes > len(problem.sample):
        return None
    classes = np.arange(problem.n_classes)
    prior = problem.prior or about(source.mix, len(source.labels)).restricted(classes)
    return _weigh_mix(problem, source, source.temperature, prior)


def _explain_by_mix(
    sample: Logits, source: Source | None, mix: Mix, probability: float
) -> Explanation:
    """Return the explanation that a class mix holds."""
    found = (
        estimate_without_source(sample, mix.value)
        if source is None
        else estimate_with_source(sample, source, mix.value)
    )
    return Explanation(probability, mix.value, found)


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
    mix: Floats | None,
    start: float,
    limits: tuple[float, float],
    before: list[BiasAt],
) -> BiasAt:
    """Return the map of an accuracy and a mix, looked for from the last one that was found."""
    if mix is None:
        t = solve_confidence(sample, accuracy, start, limits)
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
    model less sure of its predictions cuts through rows that lie together, and is likely wrong; a
    mix that makes the model surer may only favour the class that is predicted most.
    """
    k, whole = problem.n_classes, problem.target.probabilities(temperature).mean(axis=0)
    if source is not None and problem.prior is not None and not prior.exact:
        prior = _with_source_mix(prior, source, whole)
    distance = prior.value - whole
    chi2 = float(np.sum(distance**2 / (prior.value + whole + 1e-12))) * 2
    rows = 1 / (1 / prior.equivalent_sample_size + 1 / len(problem.target))
    noise = (k - 1) / rows
    shrinkage = max(0.0, 1 - NUMERICAL.label_shrinkage * noise / max(chi2, 1e-12))
    own = problem.sample.probabilities(temperature)
    value = np.maximum(own.mean(axis=0) + shrinkage * distance, POLICY.excluded)
    value /= value.sum()
    variation = 0.5 * float(np.abs(distance).sum())
    met = own
    if shrinkage > 0:
        _, met = match_mix(problem.sample, temperature, value, np.zeros(k))
    error = 0.0 if prior.exact else _error_from_mix(met, problem.sample.predicted, prior)
    if shrinkage == 0 or source is None:
        # The source's mix that differs from the own means by chance alone asks for no bias.
        stated = float(problem.prior is not None)
        return Mix(value, shrinkage, variation, 0.0, stated, rows, error)
    rise = float(met.max(axis=1).mean() - own.max(axis=1).mean())
    rise /= max(shrinkage * variation, 0.02)
    odds = FITTED.mix_odds + FITTED.mix_slope * min(rise, 0.0)
    likeness = _likeness(problem.sample, source)
    odds += FITTED.mix_shift * min(-float(np.log(likeness)), 3.0)
    odds -= FITTED.mix_distance * (variation * likeness) ** 3
    repeated = prior.exact and 0.5 * float(np.abs(prior.value - source.mix).sum()) < REPEATED
    if repeated or problem.prior is None:
        odds -= FITTED.repeated_mix
    return Mix(value, shrinkage, variation, rise, float(expit(odds)), rows, error)


def _with_source_mix(prior: Prior, source: Source, own: Floats) -> Prior:
    """Return a rough mix after the source's mix was compared with it.

    A count of few rows that agrees with the mix of the source confirms that mix, which is known
    from many rows; a count that differs keeps its own shares. The weight of the source's mix is its
    probability, given the count, against three others of equal odds: a mix near the model's own
    class means, a mix loosely near them, and any mix (Dirichlet distributions of mixes).
    """
    m, n, k = prior.equivalent_sample_size, len(source.labels), len(own)
    count, same = m * prior.value, (n * source.mix + 0.5) / (n + 0.5 * k)
    near: Floats = (own + TINY_SHARE) / (1 + k * TINY_SHARE)
    others = [_log_evidence(count, rows * near) for rows in NEAR_OWN_MEANS]
    others.append(_log_evidence(count, np.ones(k)))
    agrees = float(np.sum(count * np.log(same)))
    against = float(logsumexp(others)) - float(np.log(len(others)))
    weight = float(expit(agrees - against))
    value = weight * same + (1 - weight) * prior.value
    return replace(prior, value=value, rows=1 / ((1 - weight) / m + weight / n))


def _log_evidence(count: Floats, alpha: Floats) -> float:
    """Return the log probability of counts whose mix is drawn from a Dirichlet distribution."""
    rows, rows_before = float(count.sum()), float(alpha.sum())
    parts = gammaln(alpha + count) - gammaln(alpha)
    return lgamma(rows_before) - lgamma(rows_before + rows) + float(parts.sum())


def _error_from_mix(met: Floats, predicted: NDArray[np.intp], prior: Prior) -> float:
    """Return the standard error of the log-odds of the accuracy that counting the mix leaves.

    ``met`` are probabilities whose mean is the mix. Meeting another mix moves the bias, and the
    bias moves the probability of the predictions (delta method). Beyond `newton_classes` classes
    the largest error that a count can leave is returned.
    """
    n, k = met.shape
    own = met[np.arange(n), predicted]
    accuracy = float(np.clip(own.mean(), 1e-3, 1 - 1e-3))
    per_log_odds = accuracy * (1 - accuracy)  # change of the accuracy
    if k > NUMERICAL.newton_classes:
        return float(1 / np.sqrt(prior.equivalent_sample_size * per_log_odds))
    mean = met.mean(axis=0)
    slope = np.bincount(predicted, own, k) / n - own @ met / n
    curvature = np.diag(mean + 1e-9) - met.T @ met / n
    gradient = cast("Floats", np.linalg.solve(curvature, slope))
    variance = float(mean @ gradient**2 - (mean @ gradient) ** 2)
    return float(np.sqrt(max(variance, 0.0) / prior.equivalent_sample_size) / per_log_odds)


def _likeness(sample: Logits, source: Source) -> float:
    """Return the odds of `similar` over those at the source, at most 1; 1 for two classes.

    The model's own class means are a witness against a class mix only as far as the rows are such
    as the model knows.
    """
    if sample.n_classes == 2:
        return 1.0
    weight = source.weights(None)
    error = source.error(weight)
    here = log_odds(share_similar(sample, source, weight, error))
    return float(np.exp(min(here - log_odds(1 - error), 0.0)))
