"""Labels in words: looked up among the names of the columns, by every metric."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from simulated import logits

import temperance as tp

NAMES = ["nevus", "melanoma", "keratosis", "other"]  # not in alphabetical order
Z, Y = logits(200, 4, sharpness=2.0, seed=3)
WORDS = np.array(NAMES)[Y]
METRICS = {
    "accuracy": tp.metrics.accuracy,
    "nll": tp.metrics.nll,
    "brier": tp.metrics.brier,
    "brier, sum": partial(tp.metrics.brier, per_class=False),
    "ece": tp.metrics.ece,
    "adaptive_ece": tp.metrics.adaptive_ece,
    "classwise_ece": tp.metrics.classwise_ece,
    "smooth_ece": tp.metrics.smooth_ece,
    "risk_coverage": lambda *a, **k: tp.metrics.risk_coverage(*a, **k).risk.tolist(),
    "aurc": tp.metrics.aurc,
    "excess_aurc": tp.metrics.excess_aurc,
    "evaluate": lambda *a, **k: tp.metrics.evaluate(*a, **k).to_dict(),
    "bootstrap": lambda *a, **k: tp.metrics.bootstrap(tp.metrics.nll, *a, n_resamples=20, **k),
    "bootstrap, curve": lambda *a, **k: tp.metrics.bootstrap(
        tp.metrics.aurc, *a, n_resamples=5, **k
    ),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", [list, np.array, pd.Series])
def test_words_and_columns_give_the_same(metric, form):
    assert METRICS[metric](Z, form(WORDS), classes=NAMES) == METRICS[metric](Z, Y)


@pytest.mark.parametrize("metric", METRICS)
def test_words_without_names_are_refused_with_the_way_out(metric):
    with pytest.raises(tp.InputError, match="name the columns with classes="):
        METRICS[metric](Z, WORDS)


def test_numbers_stay_columns_beside_names():
    assert tp.metrics.accuracy(Z, Y, classes=NAMES) == tp.metrics.accuracy(Z, Y)


def test_a_strange_word_is_shown_with_its_row():
    strange = WORDS.copy()
    strange[17] = "wart"
    with pytest.raises(tp.InputError, match=r"(?s)wart"):
        tp.metrics.nll(Z, strange, classes=NAMES)


@pytest.mark.parametrize("names", [NAMES[:3], ["a", "a", "b", "c"]])
def test_names_that_are_not_those_of_the_columns_are_refused(names):
    with pytest.raises(tp.InputError, match="classes must"):
        tp.metrics.nll(Z, WORDS, classes=names)


def test_blocks_bring_words_too():
    blocks = [(Z[:80], WORDS[:80]), (Z[80:], WORDS[80:])]
    assert tp.metrics.ece(blocks, classes=NAMES) == pytest.approx(tp.metrics.ece(Z, Y))
    mixed = [(Z[:80], Y[:80]), (Z[80:], Y[80:])]
    assert tp.metrics.ece(mixed, classes=NAMES) == pytest.approx(tp.metrics.ece(Z, Y))


def test_names_may_stand_in_the_metric_of_a_bootstrap():
    metric = partial(tp.metrics.ece, n_bins=10, classes=NAMES)
    expected = tp.metrics.bootstrap(partial(tp.metrics.ece, n_bins=10), Z, Y, n_resamples=20)
    assert tp.metrics.bootstrap(metric, Z, WORDS, n_resamples=20) == expected
