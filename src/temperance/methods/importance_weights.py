"""Importance weights: how much likelier a source row is in the target than in the source.

A classifier h that tells target rows from source rows gives the ratio of the two densities,

    w(x) = p_t(x) / p_s(x) = (n_s / n_t) · h(x) / (1 - h(x)).

The weights serve `fit_cpcs` and `fit_transcal`. They are right under covariate shift, where
p(y | x) stays the same, if the source covers the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats
from temperance._core.checks import check_finite, check_seed
from temperance.data import as_rows, given
from temperance.data.given import LabelledSample
from temperance.data.types import FeaturesLike, LogitsLike, SourceLike

MAX_WEIGHT = 100.0  # a larger weight shows a certain classifier, not a ratio of densities


def read_weighted(
    target_logits: LogitsLike,
    source: SourceLike,
    features: FeaturesLike | None,
    seed: int | np.random.Generator,
) -> tuple[NDArray[Any], LabelledSample, Floats]:
    """Return target logits, source rows, and their weights by their features or else logits."""
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    labelled = given.as_source_rows(source, rows.n_classes)
    target = given.draw_rows(rows, generator)
    numbers = labelled.draw(given.sample_size(labelled), generator)
    sample = given.take_labelled(labelled, numbers)
    if features is None:
        weight = domain_weights(target.logits, sample.logits)
    else:
        sizes, drawn = (rows.n, labelled.n), (target.numbers, numbers)
        of_target, of_source = given.read_features(features, sizes, drawn)
        check_finite(of_target, "target features")  # squares of larger ones are not
        check_finite(of_source, "source features")
        weight = domain_weights(of_target, of_source)
    return target.logits, sample, weight


def domain_weights(target: NDArray[Any], source: NDArray[Any]) -> Floats:
    """Return the weight of each source row, by logistic regression on standardised features."""
    from sklearn.linear_model import LogisticRegression  # pyright: ignore[reportMissingTypeStubs]

    both = np.concatenate([target, source]).astype(np.float64)
    scale = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    domain = np.r_[np.ones(len(target)), np.zeros(len(source))]
    model: Any = LogisticRegression(max_iter=1000)
    model.fit(both, domain)
    logit: Floats = model.decision_function(both[len(target) :]) + np.log(len(source) / len(target))
    return np.exp(np.minimum(logit, np.log(MAX_WEIGHT)))
