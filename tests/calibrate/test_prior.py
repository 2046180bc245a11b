"""A class mix as a user knows it."""

from __future__ import annotations

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance.calibrate.problem import as_prior


def test_ranges_hold_a_prior_that_sums_to_one():
    prior = as_prior([[0.1, 0.3], [0.2, 0.6], [0.3, 0.5]], 3)
    assert prior.kind == "range"
    assert prior.value.sum() == pytest.approx(1)
    assert ((prior.low <= prior.value) & (prior.value <= prior.high)).all()


def test_a_range_equals_the_count_that_varies_as_much():
    prior = as_prior([[0.5, 0.7], [0.2, 0.4], [0.0, 0.2]], 3)
    rng = np.random.default_rng(0)
    n = int(prior.equivalent_sample_size)
    counts = rng.multinomial(n, prior.value, size=20_000) / n
    anything = rng.uniform(prior.low, prior.high, size=(20_000, 3))
    assert counts.var(axis=0).sum() == pytest.approx(anything.var(axis=0).sum(), rel=0.05)


@pytest.mark.parametrize("rows", [10, 300.0])
def test_about_equals_a_count_of_its_rows(rows):
    assert tp.about([0.5, 0.5], rows=rows).equivalent_sample_size == rows
    assert as_prior([0.5, 0.5], 2).equivalent_sample_size == np.inf


@pytest.mark.parametrize(
    "ranges",
    [
        [[0.6, 0.7], [0.6, 0.7]],
        [[0.1, 0.2], [0.1, 0.2]],
        [[0.5, 0.1], [0.5, 0.9]],
        [[-0.1, 1], [0, 1]],
    ],
)
def test_impossible_ranges_are_refused(ranges):
    with pytest.raises(tp.InputError, match="prior ranges"):
        as_prior(ranges, 2)


def test_about_refuses_what_is_not_a_prior():
    with pytest.raises(tp.InputError):
        tp.about([0.7, 0.7])
    with pytest.raises(tp.InputError, match="rows"):
        tp.about([0.5, 0.5], rows=0)


def test_a_count_that_misses_a_class_does_not_exclude_it():
    mix = tp.about([0.6, 0.4, 0.0], rows=100).restricted(np.arange(3))
    assert mix.value == pytest.approx(np.array([60.5, 40.5, 0.5]) / 101.5)


def _bias_error(scene, prior):
    """Return the distance of the map's bias from the best one."""
    found = tp.calibrate(scene.target, prior, scene.source).map
    bias = found.parameters().get("bias", np.zeros(len(scene.bias)))
    return float(np.sqrt(np.mean((bias - scene.bias) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_a_count_that_agrees_with_the_source_confirms_the_source_mix(seed):
    """Offsets move class means, the mix stays: 100 rows lead as far as the mix itself."""
    rng = np.random.default_rng(seed)
    scene = scenes.shifted(offset=rng.normal(0, 0.4, 10), seed=seed)
    count = rng.multinomial(100, scene.prior) / 100
    rough = _bias_error(scene, tp.about(count, rows=100))
    assert rough < _bias_error(scene, scene.prior) + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_count_that_differs_from_the_source_keeps_its_shares(seed):
    rng = np.random.default_rng(seed)
    mix = rng.dirichlet(np.ones(10)) * 0.8 + 0.02
    scene = scenes.shifted(offset=rng.normal(0, 0.4, 10), prior=mix, seed=seed)
    count = rng.multinomial(100, mix) / 100
    rough = _bias_error(scene, tp.about(count, rows=100))
    assert rough < 0.75 * _bias_error(scene, tp.about(np.full(10, 0.1), rows=100))


@pytest.mark.parametrize("bias", [[], "no", 0.5, None])
def test_bias_is_true_or_false(bias):
    with pytest.raises(tp.InputError, match="bias must be True or False"):
        tp.calibrate(np.eye(3)[[0, 1, 2] * 20] * 3, [1 / 3] * 3, bias=bias)
