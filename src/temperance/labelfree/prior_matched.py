"""Prior-matched scaling: a temperature and a class bias from unlabelled logits and a class prior.

The map is ``z / T + b``. With a labelled source, the accuracy a of the model's predictions ŷ on the
target is estimated in three ways that fail for different reasons:

    typical    share of rows that look like rows the model knows (`SourceProfile.typicality`)
    histogram  (1 - g)(1 - e) + g/K: a share g of rows is broken and predicted from a distribution r
               that does not depend on the class, so that the predicted mix is P = (1 - g) m + g r
               and |P - m| = g |r - m|, where m is the mix predicted on the source for classes as
               frequent as in q; r is read off the least typical rows
    believed   mean p_{ŷ} of softmax(z/T + b) with the source temperature, after the logits are
               given back the scale they have on the source, and with b such that mean p = q; less
               what a model under shift does not admit (STRETCH)

and the median of the three is taken: no estimate rules alone. With two classes only the last is
left: a row of two centred logits has no shape, only a length. Then T and b solve (`matching`)

    mean_i p_ik = q_k,      mean_i p_{i, ŷ_i} = a,

b shrunk by how far the predicted mix exceeds its noise, that of the rows and that of a prior which
is only known as well as a count of so many rows; with ``bias=False`` only T is fitted, to mean
confidence a. Where the evidence of a shift is within noise, T is the source's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._checks import NotIdentified, check_seed
from temperance.labelfree.matching import (
    beliefs,
    confidence,
    match_belief,
    match_confidence,
    match_prior,
)
from temperance.labelfree.profile import (
    SourceProfile,
    mean_length,
    read_profile,
    sample_size,
)
from temperance.labelfree.uts import fit_uts
from temperance.maps import BiasedTemperature, Temperature
from temperance.prior import exactly
from temperance.rows import as_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

STRETCH = 1.4
"""A model loses this much more log-odds of accuracy than its confidence admits, the class mix once
set right. See ``experiments/labelfree/leave_one_out.py`` for how little it depends on the shifts
that are left out."""
CHANCE = 1.2  # times 1/K is the lowest accuracy that is believed, so that T stays finite
FACTOR = 3.3  # a bias changes the temperature that is right without it by no more than this
NOISE = 1.5  # the predicted mix is within noise up to this multiple of its expected distance
LEAST_TYPICAL = (0.1, 0.2)  # shares of rows from which the predictions of broken rows are read


def fit_prior_matched(
    target_logits: object,
    prior: object = None,
    source: object = None,
    *,
    bias: bool = True,
    seed: int | np.random.Generator = 0,
) -> BiasedTemperature | Temperature:
    r"""Fit a temperature and a class bias from unlabelled target logits and their class prior.

    .. math:: \frac1n \sum_i p_{ik} = q_k, \quad \frac1n \sum_i p_{i \hat y_i} = \hat a,
              \quad p_i = \mathrm{softmax}(z_i / T + b)

    where :math:`\hat a` is the estimated accuracy of the predictions :math:`\hat y` of the model.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
        From the shifted data; no labels.
    prior : array of shape (K,) or (K, 2), or `about`
        Class probabilities of the *target*. Numbers are taken as known, and a wrong prior makes the
        bias harmful; ``temperance.about(q, rows=100)`` or a range (low, high) for each class
        corrects only what exceeds the doubt.
    source : pair (logits, labels), optional
        Labelled rows from before the shift that the model was not trained on. Without them the
        accuracy is what `fit_uts` implies.
    bias : bool
        Whether the map has a bias, which moves predictions, usually for the better. Without it the
        ranking of the classes and the accuracy stay as they are.
    seed : int or Generator
        Of the rows that are read when there are more than enough.

    Returns
    -------
    BiasedTemperature, or Temperature with ``bias=False``

    Notes
    -----
    Guarantee: none without its assumptions: the prior is right, the classes are those of the
    source, and the shift shows in at least two of three ways (rows unlike the source, a distorted
    class mix, low belief). `temperance.calibrate` says when they fail.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y, y_old = rng.integers(5, size=4000), rng.integers(5, size=2000)
    >>> z_old = 3 * (2 * np.eye(5)[y_old] + rng.normal(size=(2000, 5)))
    >>> z = 3 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # shifted to class 0
    >>> fitted = tp.fit_prior_matched(z, np.full(5, 0.2), source=(z_old, y_old))
    >>> bool(fitted.bias.argmin() == 0)
    True
    """
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    known = exactly(prior, rows.n_classes)
    q = known.value
    z = rows.take(rows.draw(sample_size(rows), generator)).logits
    if source is None:
        t, b = solve_without_source(z, q, known.worth, bias=bias, seed=generator)
    else:
        profile = read_profile(source, q, generator)
        t, b = solve(z, q, profile, gather_evidence(z, q, profile, known.worth), bias=bias)
    return BiasedTemperature(t, b) if bias else Temperature(t)


@dataclass(frozen=True)
class Evidence:
    """Everything that is believed of a target before a map is fitted.

    ``allowed`` is the most that the accuracy can be if the prior is right: the share of predictions
    that would have to change class to meet it is wrong.
    """

    accuracy: float
    estimates: dict[str, float]
    allowed: float
    shrink: float
    confidence: float

    @property
    def spread(self) -> float:
        """Return the log-odds between the largest and the smallest estimate."""
        return log_odds(max(self.estimates.values())) - log_odds(min(self.estimates.values()))

    def at(self, accuracy: float) -> Evidence:
        """Return the same evidence with another belief about the accuracy."""
        return replace(self, accuracy=accuracy)


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
    z: NDArray[Any], q: Matrix, source: SourceProfile, worth: float = np.inf
) -> Evidence:
    """Return the estimates of accuracy and what they are made of."""
    k = len(q)
    predicted = z.argmax(axis=1)
    shrink = shrinkage(predicted, q, worth)
    sure = _from_mix(predicted, source, worth, NOISE)
    estimates = {"believed": believe(z, q, shrink, source)}
    if k > 2:
        scores = source.typicality(z)
        estimates["typical"] = source.share_typical(scores)
        estimates["histogram"] = _from_histogram(predicted, scores, source, worth)
    accuracy = float(np.clip(np.median(list(estimates.values())), CHANCE / k, 1 - 1e-4))
    return Evidence(
        accuracy=accuracy,
        estimates=estimates,
        allowed=_broken(sure, source),
        shrink=shrink,
        confidence=confidence(z, source.temperature),
    )


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


def believe(
    z: NDArray[Any], q: Matrix, shrink: float, source: SourceProfile, stretch: float = STRETCH
) -> float:
    """Return the accuracy if the shift were a scale and a class offset, but for the stretch.

    The mean confidence c of the map that undoes them is what its predictions deserve, its mean
    belief in the predictions before it what those deserve. A shift costs more than that, so the
    log-odds of c are stretched away from the source; the step from c to the belief is the bias's
    own and stays as it is.
    """
    t = source.temperature * rescaling(z, source)
    b = shrink * match_prior(z, t, q, np.zeros(len(q))) if shrink > 0 else 0.0
    said = beliefs(z, t, b)
    sure, belief, home = log_odds(said.sure), log_odds(said.kept), log_odds(1 - source.error)
    return expit(home + stretch * (sure - home) + belief - sure)


def rescaling(z: NDArray[Any], source: SourceProfile) -> float:
    """Return how much longer the centred logits are than on the source."""
    length = mean_length(z)
    if length == 0:
        msg = "target logits are constant in every row, so no temperature changes anything."
        raise NotIdentified(msg)
    return length / source.norm


def solve(
    z: NDArray[Any], q: Matrix, source: SourceProfile, evidence: Evidence, *, bias: bool
) -> tuple[float, Matrix]:
    """Return the temperature and the bias of the map."""
    start = source.temperature
    t = match_confidence(z, evidence.accuracy, start)
    t = _towards_source(t, evidence, source, len(z))
    if bias and evidence.shrink > 0:
        return _believe(z, q, evidence.shrink, evidence.accuracy, t)
    return t, np.zeros(len(q))


def _believe(
    z: NDArray[Any], q: Matrix, shrink: float, accuracy: float, start: float
) -> tuple[float, Matrix]:
    """`match_belief`, but not far from the temperature without bias."""
    t, b = match_belief(z, q, shrink, accuracy, start)
    nearest = min(max(t, start / FACTOR), start * FACTOR)
    if nearest != t:
        t, b = nearest, shrink * match_prior(z, nearest, q, b / shrink)
    return t, b


def _towards_source(t: float, evidence: Evidence, source: SourceProfile, n: int) -> float:
    """Shrink log T towards the source's by the sampling error of the evidence for leaving it."""
    a, e = evidence.accuracy, source.error
    gap = log_odds(evidence.confidence) - log_odds(a)
    variance = 1 / (source.effective * e * (1 - e)) + 1 / (n * a * (1 - a))
    weight = gap**2 / (gap**2 + variance)
    return float(np.exp(weight * np.log(t) + (1 - weight) * np.log(source.temperature)))


def solve_without_source(
    z: NDArray[Any], q: Matrix, worth: float, *, bias: bool, seed: np.random.Generator
) -> tuple[float, Matrix]:
    """Return the map for the accuracy that `fit_uts` implies, less what the class mix misses.

    At least the total variation between predicted mix and prior is wrong. A bias mends a part of
    it, and no source says which: half of the rise of log T is kept.
    """
    predicted = z.argmax(axis=1)
    start = fit_uts(z, q, seed=seed).temperature
    floor = noise_floor(q, jointly(len(z), worth))
    missing = max(0.0, total_variation(predicted, q) - floor)
    accuracy = max(confidence(z, start) * (1 - missing), CHANCE / len(q))
    t = match_confidence(z, accuracy, start)
    b = np.zeros(len(q))
    shrink = shrinkage(predicted, q, worth)
    if not bias or shrink == 0:
        return t, b
    t = float(np.sqrt(start * t))
    return t, shrink * match_prior(z, t, q, b)
