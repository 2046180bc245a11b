"""Every method of the comparison, as a function from a scenario to a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prototype import fit_prototype
from temperance._core.sample import Sample
from temperance.methods.evidence import shrinkage
from temperance.methods.matching import match_prior

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Callable

    from scenarios import Scenario

    from temperance.maps import Map

UNIFORM = 1e4  # a temperature at which every class is as likely


def uncalibrated(s: Scenario) -> Map:
    """Return the identity."""
    del s
    return tp.Temperature(1.0)


def source_temperature(s: Scenario) -> Map:
    """Return the temperature of the labelled source."""
    return tp.fit_temperature(*s.source)


def target_temperature(s: Scenario) -> Map:
    """Return the temperature of the labelled target: the bound that regret is measured from."""
    try:
        return tp.fit_temperature(s.target, s.labels)
    except tp.NotIdentified:  # worse than chance: the likelihood rises up to the uniform answer
        return tp.Temperature(UNIFORM)


def uts(s: Scenario) -> Map:
    """UTS in its reference form; the identity where it has no answer."""
    try:
        return tp.fit_uts(s.target, s.prior)
    except tp.NotIdentified:
        return tp.Temperature(1.0)


def by_accuracy(method: str) -> Callable[[Scenario], Map]:
    """Match mean confidence to an estimate of the accuracy."""

    def fit(s: Scenario) -> Map:
        accuracy = tp.estimate_accuracy(s.target, s.prior, s.source, method=method).value
        return tp.match_confidence(s.target, max(accuracy, 1.01 / s.target.shape[1]))

    return fit


def from_source(rival: Callable[..., Map]) -> Callable[[Scenario], Map]:
    """Fit a rival that reads target logits and the source; T = 1 where it has no answer."""

    def fit(s: Scenario) -> Map:
        try:
            return rival(s.target, s.source)
        except tp.NotIdentified:
            return tp.Temperature(1.0)

    return fit


def lascal(s: Scenario) -> Map:
    """LaSCal with the class mix that every other method is told too."""
    return from_source(lambda z, source: tp.fit_lascal(z, source, s.prior))(s)


def prior_bias(s: Scenario) -> Map:
    """Return the source temperature and the whole bias at which the mean probabilities are q."""
    t = tp.fit_temperature(*s.source).temperature
    sample = Sample(s.target)
    b = match_prior(sample, t, s.prior)
    return tp.BiasedTemperature(t, shrinkage(sample.predicted, s.prior) * b)


def prototype(*, bias: bool) -> Callable[[Scenario], Map]:
    """Return the prototype of the design."""
    return lambda s: fit_prototype(s.target, s.prior, s.source, bias=bias)


def prior_matched(*, bias: bool, source: bool = True) -> Callable[[Scenario], Map]:
    """Return prior-matched scaling; the identity where it has no answer without a source."""

    def fit(s: Scenario) -> Map:
        try:
            return tp.fit_prior_matched(
                s.target, s.prior, source=s.source if source else None, bias=bias
            )
        except tp.NotIdentified:
            return tp.Temperature(1.0)

    return fit


METHODS: dict[str, Callable[[Scenario], Map]] = {
    "uncalibrated": uncalibrated,
    "TS-source": source_temperature,
    "UTS": uts,
    "COT": by_accuracy("cot"),
    "ATC": by_accuracy("atc"),
    "DoC": by_accuracy("doc"),
    "TransCal": from_source(tp.fit_transcal),
    "CPCS": from_source(tp.fit_cpcs),
    "LaSCal": lascal,
    "prior bias alone": prior_bias,
    "prototype, T only": prototype(bias=False),
    "prototype": prototype(bias=True),
    "prior-matched, no source, T only": prior_matched(bias=False, source=False),
    "prior-matched, no source": prior_matched(bias=True, source=False),
    "prior-matched, T only": prior_matched(bias=False),
    "prior-matched": prior_matched(bias=True),
    "TS-Target": target_temperature,
}
