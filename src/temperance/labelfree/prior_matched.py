"""Prior-matched scaling: a temperature and a class bias from unlabelled logits and a class prior.

The map is ``z / T + b``. With a labelled source, the accuracy a of the model's predictions ŷ on the
target is estimated three ways that fail for different reasons:

    typical    share of rows that look like rows the model knows (`SourceProfile.typicality`)
    histogram  (1 - g)(1 - e) + g/K: a share g of rows is broken and predicted from a distribution r
               that does not depend on the class, so that the predicted mix is P = (1 - g) q + g r
               and |P - q| = g |r - q|; r is read off the least typical rows
    believed   mean p_{ŷ} of softmax(z/T + b) with the source temperature, after the logits are
               given back the scale they have on the source, and with b such that mean p = q

and joined in log-odds around the source accuracy. Then T and b solve (`matching`)

    mean_i p_ik = q_k,      mean_i p_{i, ŷ_i} = a,

b shrunk by how far the predicted mix exceeds its sampling noise; with ``bias=False`` only T is
fitted, to mean confidence a. Where the evidence of a shift is within noise, T is the source's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance._checks import check_prior
from temperance.interval import Interval
from temperance.labelfree.matching import (
    confidence,
    match_belief,
    match_confidence,
    match_prior,
    probabilities,
)
from temperance.labelfree.profile import SourceProfile, centre
from temperance.labelfree.uts import fit_uts
from temperance.maps import BiasedTemperature, Temperature
from temperance.rows import as_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

WEIGHTS = {"typical": 0.3, "histogram": 0.4, "believed": 0.4}
"""Of the log-odds of the three estimates, from leaving families of shifts out; see the docs."""
FEWEST = 0.3  # of the temperature without bias: a bias never sharpens the map further
NOISE = 1.5  # the predicted mix is within noise up to this multiple of its expected distance
LEAST_TYPICAL = (0.1, 0.2)  # shares of rows from which the predictions of broken rows are read


@dataclass(frozen=True)
class Evidence:
    """Everything that is believed of a target before a map is fitted."""

    accuracy: float
    typical: float
    histogram: float
    believed: float
    distance: float
    floor: float
    shrink: float
    confidence: float


def total_variation(predicted: NDArray[np.intp], q: Matrix) -> float:
    """Return ½ Σ |P_k - q_k| between the predicted mix and the prior."""
    return 0.5 * float(np.abs(np.bincount(predicted, minlength=len(q)) / len(predicted) - q).sum())


def noise_floor(q: Matrix, n: int) -> float:
    """Return the expected `total_variation` of n draws from q itself."""
    return 0.5 * float(np.sqrt(2 * q * (1 - q) / (np.pi * n)).sum())


def gather_evidence(z: NDArray[np.floating], q: Matrix, source: SourceProfile) -> Evidence:
    """Return the three estimates of accuracy and what they are made of."""
    n, k = z.shape
    predicted = z.argmax(axis=1)
    distance, floor = total_variation(predicted, q), noise_floor(q, n)
    shrink = max(0.0, 1 - (NOISE * floor / max(distance, floor)) ** 2)
    scores = source.typicality(z)
    estimates = {
        "typical": float((scores > source.threshold).mean()),
        "histogram": _from_histogram(predicted, scores, q, source.error),
        "believed": _from_belief(z, q, shrink, source),
    }
    base = _log_odds(1 - source.error)
    joined = base + sum(
        weight * (_log_odds(estimates[name]) - base) for name, weight in WEIGHTS.items()
    )
    accuracy = float(np.clip(1 / (1 + np.exp(-joined)), 1.2 / k, 1 - 1e-4))
    return Evidence(
        accuracy=accuracy,
        **estimates,
        distance=distance,
        floor=floor,
        shrink=shrink,
        confidence=confidence(z, source.temperature),
    )


def _log_odds(p: float) -> float:
    p = min(max(p, 0.01), 0.997)
    return float(np.log(p / (1 - p)))


def _above_noise(predicted: NDArray[np.intp], q: Matrix) -> float:
    distance, floor = total_variation(predicted, q), noise_floor(q, len(predicted))
    return float(np.sqrt(max(0.0, distance**2 - floor**2)))


def _from_histogram(
    predicted: NDArray[np.intp], scores: Matrix, q: Matrix, error: float
) -> float:
    order = np.argsort(scores, kind="stable")
    n = len(order)
    skew = np.mean([_above_noise(predicted[order[: max(30, int(f * n))]], q) for f in LEAST_TYPICAL])
    seen = _above_noise(predicted, q)
    broken = min(1.0, seen / max(float(skew), seen)) if seen > 0 else 0.0
    return (1 - broken) * (1 - error) + broken / len(q)


def _from_belief(z: NDArray[np.floating], q: Matrix, shrink: float, source: SourceProfile) -> float:
    t = source.temperature * rescaling(z, source)
    b = shrink * match_prior(z, t, q, np.zeros(len(q))) if shrink > 0 else 0.0
    p = probabilities(z, t, b)
    return float(p[np.arange(len(p)), z.argmax(axis=1)].mean())


def rescaling(z: NDArray[np.floating], source: SourceProfile) -> float:
    """Return how much longer the centred logits are than on the source."""
    c = centre(z)
    return float(np.sqrt(np.mean(np.einsum("ij,ij->i", c, c)))) / source.norm


def solve(
    z: NDArray[np.floating], q: Matrix, source: SourceProfile, evidence: Evidence, *, bias: bool
) -> tuple[float, Matrix]:
    """Return the temperature and the bias of the map."""
    start = source.temperature
    t = match_confidence(z, evidence.accuracy, start)
    t = _towards_source(t, evidence, source, len(z))
    b = np.zeros(len(q))
    if bias and evidence.shrink > 0:
        sharper, b = match_belief(z, q, evidence.shrink, evidence.accuracy, t)
        if sharper < FEWEST * t:
            sharper = FEWEST * t
            b = evidence.shrink * match_prior(z, sharper, q, b)
        t = sharper
    return t, b


def _towards_source(t: float, evidence: Evidence, source: SourceProfile, n: int) -> float:
    """Shrink log T towards the source's by the sampling error of the evidence for leaving it."""
    a, e = evidence.accuracy, source.error
    gap = _log_odds(evidence.confidence) - _log_odds(a)
    variance = 1 / (source.n * e * (1 - e)) + 1 / (n * a * (1 - a))
    weight = gap**2 / (gap**2 + variance)
    return float(np.exp(weight * np.log(t) + (1 - weight) * np.log(source.temperature)))
