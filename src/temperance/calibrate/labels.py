"""What a few labelled rows of the target change.

The plausible maps of an explanation (a class mix holds, the stated one or else the source's; or
nothing is known of the mix) give a normal prior of θ = (log T, b): its centre is the map nearest to
them, its covariance theirs, plus the error of a map whose accuracy and class mix are right. A class
mix that is taken as right stays met: it counts as so many rows whose classes are known, but not
which rows they are. Labels multiply the prior by their likelihood (`fit_around`), and each
explanation by its evidence.

Where the class mix is known, little but T is left to learn; where it is not, several widths of the
errors of the bias are tried, and each counts by its evidence (Laplace's approximation). With many
labels the map is that of biased temperature scaling, with none the label-free one, and no class
needs a label. Plausible maps are draws from the normal approximation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import logsumexp, softmax

from temperance._core.arrays import Floats
from temperance.calibrate.constants import FITTED, NUMERICAL
from temperance.calibrate.problem import Logits
from temperance.calibrate.solve import BiasAt
from temperance.calibrate.uncertainty import NEGLIGIBLE, Plausible, nearest_map
from temperance.supervised.around import KnownMix, Posterior, fit_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from temperance.calibrate.problem import Problem


def learn(problem: Problem, plausible: Plausible) -> Plausible:
    """Return the plausible maps after the labels were seen."""
    parts = [some for some in (plausible.meets, ~plausible.meets) if some.any()]
    found = [one for some in parts for one in _learn(problem, plausible, some)]
    weights = softmax([one.evidence for one in found])
    kept = [(w, one) for w, one in zip(weights, found, strict=True) if w > NEGLIGIBLE]
    draws = [(w, theta) for w, one in kept for theta in _draws(one)]
    return replace(
        plausible,
        weights=np.array([w for w, _ in draws]) / sum(w for w, _ in draws),
        temperatures=np.exp([theta[0] for _, theta in draws]),
        biases=np.array([theta[1:] - theta[1:].mean() for _, theta in draws]),
        meets=np.zeros(len(draws), dtype=np.bool_),
        centre=nearest_map(problem, [w for w, _ in kept], [_as_map(one.centre) for _, one in kept]),
    )


def nothing_known(n_classes: int) -> Plausible:
    """Return the plausible maps where neither a source nor a class mix is given."""
    step = np.array([-1, 0, 1]) * FITTED.temperature_error_alone
    return Plausible(
        weights=np.array([1, 1, 1]) / 3,
        temperatures=np.exp(step),
        biases=np.zeros((3, n_classes)),
        meets=np.zeros(3, dtype=np.bool_),
        centre=BiasAt(1.0, np.zeros(n_classes)),
    )


def _learn(problem: Problem, plausible: Plausible, some: NDArray[np.bool_]) -> Iterator[Posterior]:
    """Yield the posteriors of some of the plausible maps, one explanation, by the bias' errors."""
    few, mix = problem.labelled, plausible.mix
    assert few is not None  # noqa: S101 - the caller has seen to it
    rows, k = Logits.of(few.logits), problem.n_classes
    weights = plausible.weights[some] / plausible.weights[some].sum()
    log_t, biases = np.log(plausible.temperatures[some]), plausible.biases[some]
    maps = [BiasAt(float(np.exp(t)), b) for t, b in zip(log_t, biases, strict=True)]
    centre = nearest_map(problem, list(weights), maps)
    theta = np.r_[np.log(centre.temperature), centre.bias]
    free = k + 1 if problem.bias and k <= NUMERICAL.bias_classes else 1
    apart = (np.column_stack([log_t, biases]) - theta)[:, :free]
    spread = apart.T @ (weights[:, None] * apart)
    met = None
    if free > 1 and mix is not None and plausible.meets[some].all():
        met = KnownMix(problem.sample.z, mix.value, mix.rows)
    # A known class mix leaves no doubt how wide the errors of the bias are.
    known = met is not None or free == 1
    widths = np.ones(1) if known else 2.0 ** np.arange(-1, NUMERICAL.bias_doublings + 1)
    before = -FITTED.width_evidence * np.abs(np.log2(widths))
    before += np.log(plausible.weights[some].sum()) - logsumexp(before)
    for width, log_prior in zip(widths, before, strict=True):
        error = np.r_[FITTED.temperature_error, np.full(k, width * FITTED.bias_error)][:free]
        found = fit_around(
            rows.z,
            few.labels,
            theta,
            cast("Floats", np.linalg.inv(spread + np.diag(error**2))),
            robustness=FITTED.robustness,
            mix=met,
        )
        yield found._replace(evidence=found.evidence + float(log_prior))


def _as_map(theta: Floats) -> BiasAt:
    return BiasAt(float(np.exp(theta[0])), theta[1:] - theta[1:].mean())


def _draws(found: Posterior) -> list[Floats]:
    """Return draws of θ, in pairs of opposite sign.

    No map of this form is quite right, so labels count less for its uncertainty than for itself.
    Neither the order of the classes nor their names change the draws.
    """
    free = len(found.precision)
    precision = FITTED.label_information * found.information + found.precision
    size, directions = np.linalg.eigh(precision)
    root = (directions / np.sqrt(size)) @ directions.T
    half = np.random.default_rng(0).standard_normal((NUMERICAL.draws // 2, free))
    half /= np.sqrt((half**2).mean(axis=0))
    rank = np.r_[0, 1 + np.argsort(np.argsort(found.centre[1:free], kind="stable"))]
    moved = half[:, rank] @ root
    kept = found.centre[free:]
    return [np.r_[found.centre[:free] + step, kept] for step in (*moved, *-moved)]
