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
                 `similar`; `rescaled`, its fall since the source 1.5 times as large; and the share
                 of rows whose prediction the class mix leaves alone, to a power that grows with the
                 accuracy at home
    near         the same share by features: the mean cosine of a row with its five nearest source
                 rows in the layer before the logits, where no class mix is known
    transported  share of predictions that survive when rows are assigned to classes with quotas q:
                 takes the place of `similar` where there is no source

Which kind of shift it is, logits tell only in part. So the accuracy is taken to be near one of the
estimates, each with a weight, and not at their mean: a mixture in log-odds. Its tail reaches
farther down than up, since a shift may cost accuracy without a trace in the logits. Where no mix
is known, or of two classes, there are two estimates, and `calibrated` is the first. The second one
counts where it is lower: rows unlike those of the source are a sign of harm, rows like them are no
proof of the contrary. It counts by the square of the accuracy at home, since the threshold of a
model that errs often lies among rows that are right. What `calibrated` misses on the source itself,
without a mix, is part of its error; a gross miss is made good, as of neighbours that vote, where
classes without a vote rule the temperature. A bias that meets the class mix and makes rows more
similar to the source's undoes what the shift did: `shifted` counts less then; a bias that makes
rows less similar undoes nothing, and `shifted` counts more.

`Source` holds the labelled rows in the numbers that these estimates compare with. The prototype of
a class is the mean of the centred logits of its rows. The cosine between a row and the prototype of
the class it is predicted as does not depend on the scale of the logits, which many shifts change
without harm (contrast, blur), and it falls when a row is no longer like the rows that the model
knows, even where the model stays sure. Source rows are weighted by q_k / π_k, the class mix of the
target over that of the source, so that the error and the similarity are those of classes as
frequent as in the target. The temperature is that of the rows as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import expit, logit

from temperance._core.arrays import Floats
from temperance._core.checks import NotIdentified
from temperance.calibrate.constants import FITTED, NUMERICAL
from temperance.calibrate.problem import Logits, logit_scale, thin
from temperance.calibrate.solve import match_mix
from temperance.methods.confidence import temperature_of_accuracy
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.data.given import LabelledSample

POINTS, POINT_WEIGHTS = np.array([-np.sqrt(3), 0, np.sqrt(3)]), np.array([1, 4, 1]) / 6
NEIGHBOURS = 5  # of a row among the source rows, by their features
PART = 512  # rows that are compared at a time
IDEAL_ROWS = 2.0  # pseudo-rows with the ideal prototype, so that a class with few rows has one
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
    of_mean : bool
        Whether an estimate is the mean of the accuracy; of its log-odds otherwise, and the mean of
        the accuracy is then nearer to one half.
    """

    names: tuple[str, ...]
    log_odds: Floats
    weights: Floats
    errors: Floats
    scale_ratio: float
    of_mean: bool

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

    def nodes(self, n_classes: int) -> tuple[Floats, Floats]:
        """Return accuracies and their weights: three points of each estimate, neighbours merged.

        The lower point lies farther from the estimate, with less weight, so that the mean stays.
        """
        farther, lighter = POINTS.copy(), POINT_WEIGHTS.copy()
        farther[0] *= FITTED.skew
        lighter[0] /= FITTED.skew
        lighter[1] += POINT_WEIGHTS[0] - lighter[0]
        # E[expit(x)] of a normal x is near expit(mean / sqrt(1 + pi / 8 variance)): MacKay, 1992.
        centre = self.log_odds * np.sqrt(1 + self.of_mean * np.pi / 8 * self.errors**2)
        x = (centre[:, None] + self.errors[:, None] * farther).ravel()
        weight = (self.weights[:, None] * lighter).ravel()
        _, group = np.unique(np.floor((x - x.min()) / NUMERICAL.merged), return_inverse=True)
        mass = np.bincount(group, weight)
        merged = np.bincount(group, weight * x) / mass
        least = NUMERICAL.chance / n_classes
        accuracy: Floats = np.clip(expit(merged), least, 1 - 1e-4)
        return accuracy, np.asarray(mass, dtype=np.float64)


def log_odds(share: float) -> float:
    """Return the log-odds of a share, kept away from 0 and 1."""
    return float(logit(min(max(share, 1e-4), 1 - 1e-4)))


def estimate_with_source(target: Logits, source: Source, mix: Floats | None) -> Estimates:
    """Return the estimates that a source allows, with a class mix or without."""
    t, f = source.temperature, FITTED
    weight = source.weights(mix)
    error = source.error(weight)
    ratio = target.scale / source.scale(weight)
    calibrated, bias = _mean_probability(target, t, mix)
    rescaled, _ = _mean_probability(target, t * ratio, mix)
    home, missed = log_odds(1 - error), 0.0
    if mix is None:
        missed = home - log_odds(_mean_probability(source.rows, t, None)[0])
        gross = missed - float(np.clip(missed, -f.missed_at_home, f.missed_at_home))
        calibrated, missed = float(expit(log_odds(calibrated) + gross)), missed - gross
    found = {"calibrated": calibrated, "rescaled": rescaled}
    if target.n_classes > 2 and mix is not None:
        similar = share_similar(target, source, weight, error)
        found["shifted"] = _median_of_three(target, mix, similar, rescaled, error)
        moved = share_similar(Logits.of(target.z + t * bias), source, weight, error)
        rise = float(np.tanh(log_odds(moved) - log_odds(similar)))
        shifted = float(expit(log_odds(f.shifted) - f.offset * rise))
        others = np.array([f.calibrated, f.rescaled])
        weights = np.r_[(1 - shifted) * others / others.sum(), shifted]
    else:
        if target.n_classes > 2:  # the similarity of two classes says nothing
            similar = share_similar(target, source, weight, error)
            found = {"calibrated": calibrated, "similar": similar}
        first, second = found.values()
        share = (1 - error) ** 2 * (f.lower if second < first else 1 - f.lower)
        weights = np.array([1 - share, share])
    if mix is None and source.neighbours is not None:
        found["near"] = share_near(target, source, error)
        weights = np.r_[weights * (1 - f.near), f.near]
    growth = f.growth if mix is not None else f.growth_without_mix
    away = np.array([home - log_odds(value) for value in found.values()])
    variance = f.variance + growth * away**2
    variance += 1 / (error * (1 - error) / float(weight @ weight) + 0.5)
    variance[0] += missed**2
    return _estimates(target, found, weights, variance, ratio, of_mean=mix is None)


def estimate_without_source(target: Logits, mix: Floats) -> Estimates:
    """Return the estimates from the model's own probabilities and the class mix."""
    bias, own = match_mix(target, 1.0, mix, np.zeros(target.n_classes))
    _, sharp = match_mix(target, SHARPER, mix, bias / SHARPER)
    rows = np.arange(len(target))
    found = {
        "calibrated": float(own[rows, target.predicted].mean()),
        "transported": float(sharp[rows, target.predicted].mean()),
    }
    weights = np.array([FITTED.own, 1 - FITTED.own])
    return _estimates(target, found, weights, FITTED.variance_without_source, 1.0, of_mean=False)


def _estimates(
    target: Logits,
    found: dict[str, float],
    weights: Floats,
    variance: Floats | float,
    ratio: float,
    *,
    of_mean: bool,
) -> Estimates:
    share = np.clip(list(found.values()), 1e-3, 1 - 1e-3)
    sampling = 1 / (len(target) * share * (1 - share) + 0.5)
    return Estimates(
        names=tuple(found),
        log_odds=np.array([log_odds(value) for value in found.values()]),
        weights=weights,
        errors=np.sqrt(variance + sampling),
        scale_ratio=float(ratio),
        of_mean=of_mean,
    )


def _mean_probability(
    target: Logits, temperature: float, mix: Floats | None
) -> tuple[float, Floats]:
    """Return the mean probability of the predictions, and the bias that meets the class mix."""
    bias = np.zeros(target.n_classes)
    if mix is None:
        p = target.probabilities(temperature)
    else:
        bias, p = match_mix(target, temperature, mix, bias)
    return float(p[np.arange(len(p)), target.predicted].mean()), bias


def share_similar(target: Logits, source: Source, weight: Floats, error: float) -> float:
    """Return the share of rows above the source's similarity at its error rate."""
    return _share_above(source.similarity_of(target), source.similarity, weight, error)


def share_near(target: Logits, source: Source, error: float) -> float:
    """Return the share of rows nearer to source rows than the source's own at its error rate."""
    here, others = target.features, source.neighbours
    assert here is not None  # noqa: S101 - target and source features are read together
    assert others is not None  # noqa: S101
    own = nearness(others, others, skip=1)
    return _share_above(nearness(here, others, skip=0), own, np.full(len(own), 1 / len(own)), error)


def _share_above(here: Floats, home: Floats, weight: Floats, error: float) -> float:
    """Return the share of values above the quantile of the source's at its error rate."""
    order = np.argsort(home, kind="stable")
    below = np.cumsum(weight[order])
    threshold = float(np.interp(error, below / below[-1], home[order]))
    own = float(weight[home > threshold].sum())
    share = float((here > threshold).mean())
    return float(np.clip(share - own + 1 - error, 1e-3, 1 - 1e-3))


def _median_of_three(
    target: Logits, mix: Floats, similar: float, rescaled: float, error: float
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


# -------------------------------------------------------------------------------- the source


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled rows from before the shift.

    Attributes
    ----------
    rows : Logits
    labels : array of shape (n,)
    mix : array of shape (K,)
        Class shares.
    temperature : float
        Of `fit_temperature`; where it is not identified, of the accuracy.
    identified : bool
        Whether it is.
    prototypes : array of shape (classes with a row, K)
    place : array of shape (K,)
        Row of ``prototypes`` of each class; -1 for a class without rows.
    similarity : array of shape (n,)
        Cosine of each row with the prototype of its prediction, itself left out.
    neighbours : array of shape (m, d) or None
        Features of rows that others are compared with.
    """

    rows: Logits
    labels: NDArray[np.int64]
    mix: Floats
    temperature: float
    identified: bool
    prototypes: Floats
    place: NDArray[np.intp]
    similarity: Floats
    neighbours: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, sample: LabelledSample, features: NDArray[np.float32] | None = None) -> Source:
        """Return the source as the label-free estimates use it."""
        rows, labels = Logits.of(sample.logits, features), sample.labels
        n, k = rows.z.shape
        count = np.bincount(labels, minlength=k)
        present = np.flatnonzero(count)
        place = np.full(k, -1)
        place[present] = np.arange(len(present))
        length = float(np.abs(rows.filled).max()) or 1.0  # so that no square overflows
        blocks = [slice(start, start + PART) for start in range(0, n, PART)]
        squares = sum(float(((rows.filled[some] / length) ** 2).sum()) for some in blocks)
        ideal = IDEAL_ROWS * float(np.sqrt(squares / n))
        total = np.zeros((len(present), k)) - ideal / k
        total[np.arange(len(present)), present] += ideal
        for some in blocks:
            np.add.at(total, place[labels[some]], rows.filled[some] / length)
        similarity = np.empty(n)
        for some in blocks:
            others = _prototypes_of(total, place, rows.predicted[some], k)
            own, scaled = rows.predicted[some] == labels[some], rows.filled[some] / length
            others[own] -= scaled[own]
            similarity[some] = _cosines(scaled, others)
        try:
            temperature, identified = fit_temperature(rows.finite, labels).temperature, True
        except NotIdentified:
            temperature, identified = temperature_of_accuracy(rows.finite, labels), False
        return cls(
            rows=rows,
            labels=labels,
            mix=count / n,
            temperature=temperature,
            identified=identified,
            prototypes=total,
            place=place,
            similarity=similarity,
            neighbours=None if features is None else features[thin(rows)],
        )

    @cached_property
    def confidence(self) -> Floats:
        """Return the model's own confidence in each row."""
        return self.rows.probabilities(1.0).max(axis=1)

    def weights(self, mix: Floats | None) -> Floats:
        """Return row weights that sum to one and give the classes the shares of ``mix``.

        One row of each class is added to both sides, so that a class with few rows is not blown up.
        """
        n = len(self.labels)
        if mix is None:
            return np.full(n, 1 / n)
        count = np.bincount(self.labels, minlength=len(mix))
        weight = ((n * mix + 1) / (count + 1))[self.labels]
        return weight / weight.sum()

    def error(self, weight: Floats) -> float:
        """Return the weighted share of wrong predictions, half a row or more from 0 and 1."""
        half = 0.5 * float(weight @ weight)
        wrong = float(weight @ (self.rows.predicted != self.labels))
        return float(np.clip(wrong, half, 1 - half))

    def scale(self, weight: Floats) -> float:
        """Return the scale of the logits; see `logit_scale`."""
        return logit_scale(self.rows.filled, weight)

    def similarity_of(self, target: Logits) -> Floats:
        """Return the cosine of each row with the prototype of the class it is predicted as."""
        length = float(np.abs(target.filled).max()) or 1.0
        found = np.empty(len(target))
        for start in range(0, len(target), PART):
            part = slice(start, start + PART)
            of = target.predicted[part]
            chosen = _prototypes_of(self.prototypes, self.place, of, target.n_classes)
            found[part] = _cosines(target.filled[part] / length, chosen)
        return found


def nearness(features: NDArray[np.float32], others: NDArray[np.float32], skip: int) -> Floats:
    """Return the mean cosine of each row with its nearest others, the ``skip`` nearest left out."""
    found = np.empty(len(features))
    most = min(NEIGHBOURS + skip, len(others))
    for start in range(0, len(features), PART):
        cosine = features[start : start + PART] @ others.T
        nearest = np.sort(np.partition(cosine, -most, axis=1)[:, -most:], axis=1)
        found[start : start + PART] = nearest[:, : most - skip].mean(axis=1)
    return np.round(found, 6)


def _prototypes_of(
    total: Floats, place: NDArray[np.intp], predicted: NDArray[Any], k: int
) -> Floats:
    """Return the prototype of each prediction; the ideal one for a class without source rows."""
    found = place[predicted]
    chosen = total[found]
    missing = found < 0
    chosen[missing] = -1 / k
    chosen[missing, predicted[missing]] += 1
    return chosen


def _cosines(rows: Floats, others: Floats) -> Floats:
    """Return the cosine of each row with another; 0 where one of the two has no length."""
    dot = np.einsum("ij,ij->i", rows, others)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows) * np.einsum("ij,ij->i", others, others))
    cosine = np.divide(dot, length, out=np.zeros(len(rows)), where=length > 0)
    return cast("Floats", np.round(cosine, 12))
