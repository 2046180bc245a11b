"""What the accuracy on a target may be, and the map for each of it.

The log-odds of the estimated accuracy of the model's own predictions have a standard error: what
the method itself misses, more where its estimates disagree; what sampling adds; and what a prior
does that is not known exactly. The maps for both ends of the 90 % interval are those that the
evidence would have given.

A bias adds to that. Where it changes a share m of the predictions, how often the new ones are right
follows from nothing that was seen, and the log-odds of the map's mean confidence are off by another
MOVED · m: the ends are moved apart by as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance._core.sample import Sample
from temperance._core.stats import Interval
from temperance.calibrate.audit import Z90
from temperance.maps import BiasedTemperature, Map, Temperature
from temperance.methods.evidence import CHANCE, Evidence, expit, gather_evidence, log_odds
from temperance.methods.matching import Biases, match_biased_confidence, match_confidence
from temperance.methods.prior_matched import solve, solve_without_source
from temperance.methods.source import SourceProfile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.calibrate.findings import Scene

    Solution = tuple[float, NDArray[np.float64]]

MODEL_ERROR = 0.25  # standard error of the accuracy estimate in log-odds where its parts agree,
DISAGREEMENT = 0.3  # what each unit of their spread adds,
ALONE = 0.45  # its size where there is one estimate (two classes),
BLIND_ERROR = 1.0  # and without a source: what it misses on the shifts of the docs
MOVED = 1.4  # of the confidence after a bias, for each prediction that it changes: see there too


@dataclass(frozen=True)
class Beliefs:
    """Maps for the estimated accuracy and for the ends of what may be, and what each implies.

    Attributes
    ----------
    accuracy : Interval
        Of the model's own predictions.
    maps : tuple of three maps
        For ``accuracy.value``, and where the map should be the least and the most sure.
    """

    accuracy: Interval
    maps: tuple[Map, Map, Map]


def believe(
    scene: Scene, generator: np.random.Generator, *, bias: bool
) -> tuple[Evidence | None, Beliefs]:
    """Return the evidence, where there is a source, and what is believed."""
    sample, q, profile = Sample(scene.z), scene.prior.value, scene.profile
    if profile is None:
        t, b = solve_without_source(sample, q, scene.prior.worth, bias=bias, seed=generator)
        accuracy = around(sample.beliefs(t).sure, BLIND_ERROR)
        evidence = None
        ends = [(match_confidence(sample, max(a, CHANCE / len(q)), t), b) for a in accuracy]
    else:
        evidence = gather_evidence(sample, q, profile, scene.prior.worth)
        # A doubtful prior may be right all the same: its interval lies inside.
        told = evidence if scene.prior.exact else gather_evidence(sample, q, profile)
        doubt = _prior_error(sample, scene, generator)
        both = [
            around(e.accuracy, standard_error(e, profile, len(sample), doubt))
            for e in (evidence, told)
        ]
        accuracy = Interval(evidence.accuracy, min(i.low for i in both), max(i.high for i in both))
        ends = [solve(sample, q, profile, evidence.at(a), bias=bias) for a in accuracy]
        if bias and evidence.shrink > 0:
            ends = _moved_apart(Biases(sample, q), evidence.shrink, ends)
    maps = tuple(BiasedTemperature(t, b) if bias else Temperature(t) for t, b in ends)
    return evidence, Beliefs(accuracy, maps)  # pyright: ignore[reportArgumentType]


def around(accuracy: float, error: float) -> Interval:
    """Return the 90 % interval of an accuracy, by the standard error of its log-odds."""
    centre = log_odds(accuracy)
    return Interval(accuracy, expit(centre - Z90 * error), expit(centre + Z90 * error))


def standard_error(evidence: Evidence, profile: SourceProfile, n: int, doubt: float) -> float:
    """Return that of the log-odds of the accuracy: of the method, of sampling and of the prior."""
    a, e = min(max(evidence.accuracy, 0.01), 0.99), profile.error
    sampling = 1 / (n * a * (1 - a)) + 1 / (profile.effective * e * (1 - e))
    model = MODEL_ERROR if len(evidence.estimates) > 1 else ALONE
    return float(np.sqrt(model**2 + (DISAGREEMENT * evidence.spread) ** 2 + sampling + doubt**2))


def _prior_error(sample: Sample, scene: Scene, generator: np.random.Generator) -> float:
    """Of the log-odds of the accuracy, from not knowing the prior exactly."""
    assert scene.source is not None  # noqa: S101
    priors = scene.prior.plausible(generator)
    if not priors:
        return 0.0
    profiles = [(q, SourceProfile.of(*scene.source, q)) for q in priors]
    return float(np.std([log_odds(gather_evidence(sample, *pair).accuracy) for pair in profiles]))


def _moved_apart(biases: Biases, shrink: float, solutions: list[Solution]) -> list[Solution]:
    """Return the solutions, the ends less and more sure by what a bias leaves unknown.

    A calibrated map is at least as sure as one that always says the most frequent class.
    """
    sample, (t, b) = biases.sample, solutions[0]
    moved = float(((sample.z / t + b).argmax(axis=1) != sample.predicted).mean())
    if moved == 0:
        return solutions
    said = [sample.beliefs(*one) for one in solutions]
    middle, *ends = (log_odds(one.sure) for one in said)
    least = min(log_odds(float(said[0].share.max())) + np.log(CHANCE), *ends)
    further = [solutions[0]]
    for sign, (start, _), end in zip((-1, 1), solutions[1:], ends, strict=True):
        sure = middle + sign * np.hypot(end - middle, Z90 * MOVED * moved)
        t = match_biased_confidence(biases, shrink, expit(max(sure, least)), start)
        further.append((t, shrink * biases.at(t)))
    return further
