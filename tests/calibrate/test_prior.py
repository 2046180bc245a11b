"""A class mix as a user knows it."""

from __future__ import annotations

import numpy as np
import pytest

import temperance as tp
from temperance.calibrate.prior import as_prior


def test_an_exact_prior_has_no_alternatives():
    assert as_prior([0.2, 0.8], 2).plausible(np.random.default_rng(0)) == []


def test_draws_of_about_vary_like_counts_of_that_many_rows():
    q = np.array([0.7, 0.2, 0.1])
    rng = np.random.default_rng(0)
    draws = np.array([d for _ in range(500) for d in tp.about(q, rows=50).plausible(rng)])
    assert draws.mean(axis=0) == pytest.approx(q, abs=0.01)
    assert draws.std(axis=0) == pytest.approx(np.sqrt(q * (1 - q) / 51), rel=0.05)


def test_ranges_hold_a_prior_that_sums_to_one():
    prior = as_prior([[0.1, 0.3], [0.2, 0.6], [0.3, 0.5]], 3)
    assert prior.kind == "range"
    assert prior.value.sum() == pytest.approx(1)
    assert ((prior.low <= prior.value) & (prior.value <= prior.high)).all()


def test_a_range_is_worth_the_count_that_varies_as_much():
    prior = as_prior([[0.5, 0.7], [0.2, 0.4], [0.0, 0.2]], 3)
    rng = np.random.default_rng(0)
    n = int(prior.worth)
    counts = rng.multinomial(n, prior.value, size=20_000) / n
    anything = rng.uniform(prior.low, prior.high, size=(20_000, 3))
    assert counts.var(axis=0).sum() == pytest.approx(anything.var(axis=0).sum(), rel=0.05)


@pytest.mark.parametrize("rows", [10, 300.0])
def test_what_is_known_about_is_worth_its_rows(rows):
    assert tp.about([0.5, 0.5], rows=rows).worth == rows
    assert as_prior([0.5, 0.5], 2).worth == np.inf


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
