"""Importance weights: how much likelier a source row is in the target than in the source.

A classifier h that tells target rows from source rows gives the ratio of the two densities,

    w(x) = p_t(x) / p_s(x) = (n_s / n_t) · h(x) / (1 - h(x)).

The weights serve `fit_cpcs` and `fit_transcal`. They are right under covariate shift, where
p(y | x) stays the same, if the source covers the target.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats, as_numbers, to_numpy
from temperance._core.checks import InputError, check_finite, check_seed
from temperance.data import as_rows
from temperance.data.given import as_source_rows, draw_rows, sample_size, take_labelled
from temperance.data.types import FeaturesLike, LogitsLike, SourceLike

MAX_WEIGHT = 100.0  # a larger weight shows a certain classifier, not a ratio of densities


class WeightedSource(NamedTuple):
    """Target logits, and source logits with their labels and importance weights."""

    target: NDArray[Any]
    logits: NDArray[Any]
    labels: NDArray[np.int64]
    weight: Floats


def read_weighted(
    target_logits: LogitsLike,
    source: SourceLike,
    features: FeaturesLike | None,
    seed: int | np.random.Generator,
) -> WeightedSource:
    """Read both domains and weigh the source rows by their features, or else by their logits."""
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    labelled = as_source_rows(source, rows.n_classes)
    target = draw_rows(rows, generator)
    numbers = labelled.draw(sample_size(labelled), generator)
    sample = take_labelled(labelled, numbers)
    if features is None:
        weight = domain_weights(target.logits, sample.logits)
    else:
        of_target, of_source = _check_features(features, rows.n, labelled.n)
        weight = domain_weights(of_target[target.numbers], of_source[numbers])
    return WeightedSource(target.logits, sample.logits, sample.labels, weight)


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


def _check_features(features: object, n_target: int, n_source: int) -> tuple[Floats, Floats]:
    pair = cast("tuple[object, ...]", features) if isinstance(features, (tuple, list)) else ()
    found = [as_numbers(one) for one in pair] if len(pair) == 2 else [None, None]
    target, source = (np.empty(0) if x is None else to_numpy(x).astype(np.float64) for x in found)
    alike = target.shape[1:] == source.shape[1:] and source.size > 0
    if not alike or (target.shape[:1], source.shape[:1]) != ((n_target,), (n_source,)):
        raise InputError(
            f"features must be a pair of arrays with {n_target} target rows and {n_source} source "
            f"rows of one shape. Got shapes {target.shape} and {source.shape}."
        )
    target, source = target.reshape(n_target, -1), source.reshape(n_source, -1)
    check_finite(target, "target features")
    check_finite(source, "source features")
    return target, source
