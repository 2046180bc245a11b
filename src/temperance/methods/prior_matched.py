"""Prior-matched scaling: a temperature and a class bias from unlabelled logits and a class prior.

The map is ``z / T + b``. With a labelled source, the accuracy a of the model's predictions ŷ on the
target is estimated (`evidence`). Then T and b solve (`matching`)

    mean_i p_ik = q_k,      mean_i p_{i, ŷ_i} = a,

b shrunk by how far the predicted mix exceeds its noise, that of the rows and that of a prior which
is only known as well as a count of so many rows; with ``bias=False`` only T is fitted, to mean
confidence a. Where the evidence of a shift is within noise, T is the source's.

The more a bias mends, the less the accuracy *before* it says about T: an error ε of the log-odds of
a becomes an error r ε of those of the confidence c after it, with r = d logit c / d logit a ≥ 1.
The share s of rows that look typical once mended tells c directly, if worse (TWICE), so

    logit c += w (logit s - logit c),      w = (r² - 1) / (r² - 1 + TWICE²),

the weight of inverse variances, without the part that has no need of it: with r = 1 nothing is
mended, and typicality has had its say in a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from temperance._core.checks import check_seed
from temperance._core.sample import Sample
from temperance.calibrate.prior import exactly
from temperance.data import as_rows
from temperance.data.source import draw_rows
from temperance.maps import BiasedTemperature, Temperature
from temperance.methods.evidence import (
    CHANCE,
    TWICE,
    Evidence,
    gather_evidence,
    jointly,
    log_odds,
    noise_floor,
    shrinkage,
    total_variation,
)
from temperance.methods.matching import Biases, match_belief, match_confidence, match_prior
from temperance.methods.source import SourceProfile, read_profile
from temperance.methods.uts import fit_uts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

STEP = 0.2  # in log T, over which slopes are measured


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
    sample = Sample(draw_rows(rows, generator).logits)
    if source is None:
        t, b = solve_without_source(sample, q, known.worth, bias=bias, seed=generator)
    else:
        profile = read_profile(source, q, generator)
        evidence = gather_evidence(sample, q, profile, known.worth)
        t, b = solve(sample, q, profile, evidence, bias=bias)
    return BiasedTemperature(t, b) if bias else Temperature(t)


def solve(
    sample: Sample, q: Matrix, source: SourceProfile, evidence: Evidence, *, bias: bool
) -> tuple[float, Matrix]:
    """Return the temperature and the bias of the map."""
    t = match_confidence(sample, evidence.accuracy, source.temperature)
    t = _towards_source(t, evidence, source, len(sample))
    if bias and evidence.shrink > 0:
        return _believe(Biases(sample, q), evidence, t)
    return t, np.zeros(len(q))


def _believe(biases: Biases, evidence: Evidence, start: float) -> tuple[float, Matrix]:
    """Return T of `match_belief`, weighed, and the bias that goes with it.

    T lies between ``start``, which is right if a bias mends nothing, and the temperature at which
    scale and class offset are undone, which is right if it mends everything.
    """
    t = match_belief(biases, evidence.shrink, evidence.accuracy, start, evidence.undone)
    step = _step_towards_mended(biases.of_some(), evidence, t)
    ends = np.log(sorted((start, evidence.undone)))
    t = float(np.exp(np.clip(np.log(t) + step, *ends)))
    return t, evidence.shrink * biases.at(t)


def _step_towards_mended(biases: Biases, evidence: Evidence, t: float) -> float:
    """Return the step in log T towards the confidence that the share of mended rows deserves."""
    if evidence.mended is None:
        return 0.0
    shrink, beliefs = evidence.shrink, biases.sample.beliefs
    here, there = (beliefs(u, shrink * biases.at(u)) for u in (t, t * float(np.exp(STEP))))
    sure = log_odds(there.sure) - log_odds(here.sure)
    kept = log_odds(there.kept) - log_odds(here.kept)
    extra = sure**2 - kept**2  # r² - 1, times that of the belief
    if sure >= 0 or extra <= 0:
        return 0.0
    weight = shrink * extra / (extra + (TWICE * kept) ** 2)
    return weight * (log_odds(evidence.mended) - log_odds(here.sure)) * STEP / sure


def _towards_source(t: float, evidence: Evidence, source: SourceProfile, n: int) -> float:
    """Shrink log T towards the source's by the sampling error of the evidence for leaving it."""
    a, e = evidence.accuracy, source.error
    gap = log_odds(evidence.confidence) - log_odds(a)
    variance = 1 / (source.effective * e * (1 - e)) + 1 / (n * a * (1 - a))
    weight = gap**2 / (gap**2 + variance)
    return float(np.exp(weight * np.log(t) + (1 - weight) * np.log(source.temperature)))


def solve_without_source(
    sample: Sample, q: Matrix, worth: float, *, bias: bool, seed: np.random.Generator
) -> tuple[float, Matrix]:
    """Return the map for the accuracy that `fit_uts` implies, less what the class mix misses.

    At least the total variation between predicted mix and prior is wrong. A bias mends a part of
    it, and no source says which: half of the rise of log T is kept.
    """
    start = fit_uts(sample.z, q, seed=seed).temperature
    floor = noise_floor(q, jointly(len(sample), worth))
    missing = max(0.0, total_variation(sample.predicted, q) - floor)
    accuracy = max(sample.beliefs(start).sure * (1 - missing), CHANCE / len(q))
    t = match_confidence(sample, accuracy, start)
    shrink = shrinkage(sample.predicted, q, worth)
    if not bias or shrink == 0:
        return t, np.zeros(len(q))
    t = float(np.sqrt(start * t))
    return t, shrink * match_prior(sample, t, q)
