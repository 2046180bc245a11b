"""What is believed of the accuracy on a shifted target before a map is fitted.

How often the model's own predictions ŷ are right is estimated in three ways that fail for different
reasons:

    typical    share of rows that look like rows the model knows (`SourceProfile.typicality`)
    histogram  (1 - g)(1 - e) + g/K: a share g of rows is broken and predicted from a distribution r
               that does not depend on the class, so that the predicted mix is P = (1 - g) m + g r
               and |P - m| = g |r - m|, where m is the mix predicted on the source for classes as
               frequent as in q; r is read off the least typical rows
    believed   mean p_{ŷ} of softmax(z/T + b) with the source temperature, after the logits are
               given back the scale they have on the source, and with b such that mean p = q; less
               what a model under shift does not admit (STRETCH)

and the median of the three is taken: no estimate rules alone. With two classes only the last is
left: a row of two centred logits has no shape, only a length. How many of the rows look typical
once scale and class offset are undone is kept too: it says what the undoing has mended. Where these
are as many as on the source, the undoing explains the shift, and has deceived the first two: then
the accuracy is the belief that goes with it, without a stretch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from temperance.methods.matching import match_prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance._core.sample import Means, Sample
    from temperance.methods.source import SourceProfile

    Matrix = NDArray[np.float64]

STRETCH = 1.4
"""A model loses this much more log-odds of accuracy than its confidence admits, the class mix once
set right. See ``experiments/labelfree/leave_one_out.py`` for how little it depends on the shifts
that are left out."""
TWICE = 2.0
"""The share of mended rows misses the accuracy after a bias by so many times the log-odds by which
the accuracy before it is missed; their errors correlate by 0.5 to 0.9. See the same study."""
NEAR = 0.3
"""Log-odds by which the share of mended rows may miss the accuracy on the source where scale and
offset explain the shift: sampling, and what the profile does not know."""
CHANCE = 1.2  # times 1/K is the lowest accuracy that is believed, so that T stays finite
NOISE = 1.5  # the predicted mix is within noise up to this multiple of its expected distance
LEAST_TYPICAL = (0.1, 0.2)  # shares of rows from which the predictions of broken rows are read


@dataclass(frozen=True)
class Evidence:
    """Everything that is believed of a target before a map is fitted.

    ``allowed`` is the most that the accuracy can be if the prior is right: the share of predictions
    that would have to change class to meet it is wrong. ``mended`` is the share of rows that look
    like rows the model gets right once scale and class offset are undone, where there is an offset,
    ``undone`` the temperature at which they are, and ``explained`` how far the two account for the
    shift, from 0 to 1.
    """

    accuracy: float
    estimates: dict[str, float]
    allowed: float
    mended: float | None
    undone: float
    explained: float
    shrink: float
    confidence: float

    @property
    def spread(self) -> float:
        """Return the log-odds between the largest and the smallest estimate, if not explained."""
        odds = [log_odds(a) for a in self.estimates.values()]
        return (1 - self.explained) * (max(odds) - min(odds))

    def at(self, accuracy: float) -> Evidence:
        """Return the same evidence with another belief about the accuracy.

        What is mended moves along, and further: both are wrong together, that one by more.
        """
        if self.mended is None:
            return replace(self, accuracy=accuracy)
        moved = log_odds(accuracy) - log_odds(self.accuracy)
        return replace(self, accuracy=accuracy, mended=expit(log_odds(self.mended) + TWICE * moved))


def total_variation(predicted: NDArray[np.intp], q: Matrix) -> float:
    """Return ½ Σ |P_k - q_k| between the predicted mix and the prior."""
    return 0.5 * float(np.abs(np.bincount(predicted, minlength=len(q)) / len(predicted) - q).sum())


def noise_floor(q: Matrix, n: float) -> float:
    """Return the expected `total_variation` of n draws from q itself."""
    variance = q * np.maximum(1 - q, 0) / n  # a share of 1 may be a rounding above it
    return float(np.sqrt(variance / (2 * np.pi)).sum())


def jointly(*rows: float) -> float:
    """Return the number of rows that has the noise of samples of these sizes together."""
    return 1 / sum(1 / n for n in rows)


def shrinkage(predicted: NDArray[np.intp], q: Matrix, worth: float = np.inf) -> float:
    """Return how much of a bias to keep: none while the predicted mix is within noise of q.

    ``worth`` is the number of rows that the prior is worth.
    """
    floor = noise_floor(q, jointly(len(predicted), worth))
    distance = total_variation(predicted, q)
    return max(0.0, 1 - (NOISE * floor / distance) ** 2) if distance > floor else 0.0


def gather_evidence(
    sample: Sample, q: Matrix, source: SourceProfile, worth: float = np.inf
) -> Evidence:
    """Return the estimates of accuracy and what they are made of."""
    k, predicted = len(q), sample.predicted
    shrink = shrinkage(predicted, q, worth)
    sure = _from_mix(predicted, source, worth, NOISE)
    t, b = undo(sample, q, shrink, source)
    said = sample.beliefs(t, b)
    estimates = {"believed": believe(said, source)}
    mended = None
    if k > 2:
        scores = source.typicality(sample.z)
        estimates["typical"] = source.share_typical(scores)
        estimates["histogram"] = _from_histogram(predicted, scores, source, worth)
        if shrink > 0:
            mended = source.share_typical(source.typicality(sample.z, t * b))
    accuracy, explained = float(np.median(list(estimates.values()))), 0.0
    if mended is not None:
        explained = _explained(mended, source)
        accuracy = expit(explained * log_odds(said.kept) + (1 - explained) * log_odds(accuracy))
    return Evidence(
        accuracy=float(np.clip(accuracy, CHANCE / k, 1 - 1e-4)),
        estimates=estimates,
        allowed=_broken(sure, source),
        mended=mended,
        undone=t,
        explained=explained,
        shrink=shrink,
        confidence=sample.beliefs(source.temperature).sure,
    )


def _explained(mended: float, source: SourceProfile) -> float:
    """Return 1 where mended rows are as typical as those of the source, and less the fewer are."""
    gap = max(0.0, log_odds(1 - source.error) - log_odds(mended))
    return float(np.exp(-0.5 * (gap / NEAR) ** 2))


def log_odds(p: float) -> float:
    """Return log p/(1 - p), for p kept away from 0 and 1."""
    p = min(max(p, 1e-3), 1 - 1e-3)
    return float(np.log(p / (1 - p)))


def expit(x: float) -> float:
    """Return the p of which x is the log-odds."""
    return float(1 / (1 + np.exp(-x)))


def _from_mix(
    predicted: NDArray[np.intp], source: SourceProfile, worth: float, noise: float = 1.0
) -> float:
    """Distance of the predicted mix from that of the source, above the noise of both."""
    distance = total_variation(predicted, source.mix)
    floor = noise * noise_floor(source.mix, jointly(len(predicted), source.effective, worth))
    return float(np.sqrt(max(0.0, distance**2 - floor**2)))


def _broken(g: float, source: SourceProfile) -> float:
    """Accuracy where a share g of the rows is predicted at random."""
    return (1 - g) * (1 - source.error) + g / len(source.mix)


def _from_histogram(
    predicted: NDArray[np.intp], scores: Matrix, source: SourceProfile, worth: float
) -> float:
    """Accuracy from the share g of broken rows.

    A stratum of the least typical rows, a share f of all, holds (1 - g) F rows that are not broken,
    where F is the share of source rows as untypical as that; so with ρ = |P - m| / |P_f - m| and
    φ = F / f, g = ρ (1 - (1 - g) φ), i.e. g = ρ (1 - φ) / (1 - ρ φ).
    """
    order = np.argsort(scores, kind="stable")
    n = len(order)
    seen = _from_mix(predicted, source, worth)
    broken = [0.0]
    for share in LEAST_TYPICAL if seen > 0 else ():
        least = order[: max(30, int(share * n))]
        ratio = seen / max(_from_mix(predicted[least], source, worth), seen)
        ordinary = min(1.0, source.share_below(float(scores[least[-1]])) * n / len(least))
        # A stratum as typical as on the source says nothing of r; as |r - m| ≤ 1, g ≥ |P - m|.
        both = ratio * ordinary
        broken.append(seen if ordinary == 1 else max(seen, (ratio - both) / (1 - both)))
    g = float(np.mean(broken[1:])) if seen > 0 else 0.0
    return _broken(g, source)


def undo(sample: Sample, q: Matrix, shrink: float, source: SourceProfile) -> tuple[float, Matrix]:
    """Return the map that would be right if the shift were a scale and a class offset."""
    t = source.temperature * rescaling(sample, source)
    return t, shrink * match_prior(sample, t, q) if shrink > 0 else np.zeros(len(q))


def believe(said: Means, source: SourceProfile, stretch: float = STRETCH) -> float:
    """Return the accuracy if the shift were what ``undo`` undoes, but for the stretch.

    The mean confidence c of that map is what its predictions deserve, its mean belief in the
    predictions before it what those deserve. A shift costs more than that, so the log-odds of c are
    stretched away from the source; the step from c to the belief is the bias's own and stays as it
    is.
    """
    sure, belief, home = log_odds(said.sure), log_odds(said.kept), log_odds(1 - source.error)
    return expit(home + stretch * (sure - home) + belief - sure)


def rescaling(sample: Sample, source: SourceProfile) -> float:
    """Return how much larger the logits are than on the source, whatever offset they have."""
    return sample.spread / source.spread
