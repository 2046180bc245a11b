"""Estimates of the accuracy, each right for one kind of shift, each with its weight.

With a temperature T_s and a class mix q, of logits z with predictions ŷ:

    calibrated   mean p_ŷ of softmax(z / T_s + b), b such that q is met: right where the rows are
                 such as the source has, only in other proportions (subgroups, another class mix)
    rescaled     the same at T_s times the ratio of the logit scales: right where a shift shrinks or
                 stretches all logits (blur, contrast, shorter texts)
    similar      share of rows more like the prototype of their class than the source quantile at
                 the source error rate, as ATC (Garg et al., 2022) does with confidence: right where
                 rows become unlike those that the model knows
    shifted      median of three that each see one side of such a shift, where a class mix is known:
                 `similar`; `rescaled`, its fall since the source 1.4 times as large; and the share
                 of rows whose prediction the class mix leaves alone, to a power that grows with the
                 accuracy at home
    near         the same share by features: the mean cosine of a row with its five nearest source
                 rows in the layer before the logits, where no class mix is known
    transported  share of predictions that survive when rows are assigned to classes with quotas q:
                 takes the place of `similar` where there is no source

Which kind of shift it is, logits cannot tell. So the accuracy is taken to be near one of the
estimates, each with a weight, and not at their mean: a mixture of normals in log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from temperance.calibrate.constants import FITTED, NUMERICAL
from temperance.calibrate.solve import match_mix
from temperance.calibrate.source import nearness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.calibrate.problem import Logits
    from temperance.calibrate.source import Source

    Matrix = NDArray[np.float64]

POINTS, POINT_WEIGHTS = np.array([-np.sqrt(3), 0, np.sqrt(3)]), np.array([1, 4, 1]) / 6
SHARPER = 0.25  # factor of T at which probabilities are as good as an assignment


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of the accuracy of the model's own predictions.

    Attributes
    ----------
    names : tuple of str
    log_odds, weights, errors : arrays of the same length
        ``errors`` are standard errors in log-odds.
    scale_ratio : float
        Of the logits, target over source.
    """

    names: tuple[str, ...]
    log_odds: Matrix
    weights: Matrix
    errors: Matrix
    scale_ratio: float

    @property
    def values(self) -> dict[str, float]:
        """Return the estimates by name."""
        return dict(zip(self.names, expit(self.log_odds).tolist(), strict=True))

    @property
    def median(self) -> float:
        """Return the weighted median of the estimates, in log-odds."""
        order = np.argsort(self.log_odds, kind="stable")
        below = np.cumsum(self.weights[order]) - self.weights[order] / 2
        return float(np.interp(0.5, below, self.log_odds[order]))

    def nodes(self, n_classes: int) -> tuple[Matrix, Matrix]:
        """Return accuracies and their weights: three points of each normal, neighbours merged."""
        x = (self.log_odds[:, None] + self.errors[:, None] * POINTS).ravel()
        weight = (self.weights[:, None] * POINT_WEIGHTS).ravel()
        _, group = np.unique(np.floor((x - x.min()) / NUMERICAL.merged), return_inverse=True)
        mass = np.bincount(group, weight)
        centre = np.bincount(group, weight * x) / mass
        least = NUMERICAL.chance / n_classes
        accuracy: Matrix = np.clip(expit(centre), least, 1 - 1e-4)
        return accuracy, np.asarray(mass, dtype=np.float64)


def log_odds(share: float) -> float:
    """Return the log-odds of a share, kept away from 0 and 1."""
    return float(logit(min(max(share, 1e-4), 1 - 1e-4)))


def estimate_with_source(target: Logits, source: Source, mix: Matrix | None) -> Estimates:
    """Return the estimates that a source allows, with a class mix or without."""
    k, t = target.n_classes, source.temperature
    weight = source.weights(mix)
    error = source.error(weight)
    ratio = target.scale / source.scale(weight)
    calibrated = _mean_probability(target, t, mix)
    rescaled = _mean_probability(target, t * ratio, mix)
    found = {"calibrated": calibrated, "rescaled": rescaled}
    f = FITTED
    if k == 2:
        first = f.calibrated_of_two if mix is not None else f.calibrated_of_two_without_mix
        weights = np.array([first, 1 - first])
    elif mix is not None:
        similar = share_similar(target, source, weight, error)
        found["shifted"] = _median_of_three(target, mix, similar, rescaled, error)
        weights = np.array([f.calibrated, f.rescaled, f.shifted])
    else:
        found = {"calibrated": calibrated, "similar": share_similar(target, source, weight, error)}
        weights = np.array([f.calibrated_without_mix, 1 - f.calibrated_without_mix])
    if mix is None and source.neighbours is not None:
        found["near"] = share_near(target, source, error)
        weights = np.r_[weights * (1 - f.near), f.near]
    growth = f.growth if mix is not None else f.growth_without_mix
    away = np.array([log_odds(1 - error) - log_odds(value) for value in found.values()])
    variance = f.variance + growth * away**2
    variance += 1 / (error * (1 - error) / float(weight @ weight) + 0.5)
    return _estimates(target, found, weights, variance, ratio)


def estimate_without_source(target: Logits, mix: Matrix) -> Estimates:
    """Return the estimates from the model's own probabilities and the class mix."""
    bias, own = match_mix(target, 1.0, mix, np.zeros(target.n_classes))
    _, sharp = match_mix(target, SHARPER, mix, bias / SHARPER)
    rows = np.arange(len(target))
    found = {
        "calibrated": float(own[rows, target.predicted].mean()),
        "transported": float(sharp[rows, target.predicted].mean()),
    }
    first = FITTED.own_of_two if target.n_classes == 2 else FITTED.own
    weights = np.array([first, 1 - first])
    return _estimates(target, found, weights, FITTED.variance_without_source, 1.0)


def _estimates(
    target: Logits,
    found: dict[str, float],
    weights: Matrix,
    variance: Matrix | float,
    ratio: float,
) -> Estimates:
    share = np.clip(list(found.values()), 1e-3, 1 - 1e-3)
    sampling = 1 / (len(target) * share * (1 - share) + 0.5)
    return Estimates(
        names=tuple(found),
        log_odds=np.array([log_odds(value) for value in found.values()]),
        weights=weights,
        errors=np.sqrt(variance + sampling),
        scale_ratio=float(ratio),
    )


def _mean_probability(target: Logits, temperature: float, mix: Matrix | None) -> float:
    """Return the mean probability of the predictions once the class mix is met."""
    if mix is None:
        p = target.probabilities(temperature)
    else:
        _, p = match_mix(target, temperature, mix, np.zeros(target.n_classes))
    return float(p[np.arange(len(p)), target.predicted].mean())


def share_similar(target: Logits, source: Source, weight: Matrix, error: float) -> float:
    """Return the share of rows above the source's similarity at its error rate."""
    return _share_above(source.similarity_of(target), source.similarity, weight, error)


def share_near(target: Logits, source: Source, error: float) -> float:
    """Return the share of rows nearer to source rows than the source's own at its error rate."""
    here, others = target.features, source.neighbours
    assert here is not None  # noqa: S101 - target and source features are read together
    assert others is not None  # noqa: S101
    own = nearness(others, others, skip=1)
    return _share_above(nearness(here, others, skip=0), own, np.full(len(own), 1 / len(own)), error)


def _share_above(here: Matrix, home: Matrix, weight: Matrix, error: float) -> float:
    """Return the share of values above the quantile of the source's at its error rate."""
    order = np.argsort(home, kind="stable")
    below = np.cumsum(weight[order])
    threshold = float(np.interp(error, below / below[-1], home[order]))
    own = float(weight[home > threshold].sum())
    share = float((here > threshold).mean())
    return float(np.clip(share - own + 1 - error, 1e-3, 1 - 1e-3))


def _median_of_three(
    target: Logits, mix: Matrix, similar: float, rescaled: float, error: float
) -> float:
    """Return the median of three estimates that each see one side of a shift out of support."""
    n, home = len(target), log_odds(1 - error)
    admitted = min(log_odds(rescaled) - home, 0.0)
    shares = np.bincount(target.predicted, minlength=len(mix)) / n
    noise = 0.5 * float(np.sqrt(2 * mix * (1 - mix) / (np.pi * n)).sum())
    moved = max(0.0, 0.5 * float(np.abs(shares - mix).sum()) - noise)
    power = FITTED.histogram * np.log(1 / error)
    stretched = float(expit(home + FITTED.stretch * admitted))
    return float(np.median([similar, stretched, (1 - error) * (1 - moved) ** power]))
