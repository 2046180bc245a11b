"""Checks of single arguments: what passes, and the sentence when it does not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated import logits, softmax

import temperance as tp
from temperance._core import checks


def test_errors_are_value_errors():
    assert issubclass(tp.InputError, ValueError)
    assert issubclass(tp.NotIdentified, ValueError)
    assert not issubclass(tp.InputError, tp.NotIdentified)
    assert not issubclass(tp.NotIdentified, tp.InputError)


@pytest.mark.parametrize("good", [1, 0.5, np.float32(0.5), np.int8(1), Fraction(1, 3)])
def test_numbers(good):
    assert checks.check_number(good, "x", low=0, high=1) == float(good)


LONG = pytest.param(-(10**5000), id="an integer that Python does not write")


@pytest.mark.parametrize(
    "bad", [1.1, -0.1, np.nan, np.inf, True, "0.5", None, [0.5], 1j, 10**400, LONG]
)
def test_not_numbers(bad):
    with pytest.raises(tp.InputError, match=r"x must be a finite number in \[0, 1\]\. Got "):
        checks.check_number(bad, "x", low=0, high=1)


def test_an_open_end_excludes_its_bound():
    with pytest.raises(tp.InputError, match=r"in \(0, inf\]"):
        checks.check_number(0, "x", low=0, open_low=True)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, np.bool_(1), "3", None, np.float64(3), LONG])
def test_not_integers(bad):
    with pytest.raises(tp.InputError, match=r"n must be an integer of at least 1\. Got "):
        checks.check_integer(bad, "n", low=1)
    assert checks.check_integer(np.int16(3), "n", low=1) == 3


def test_any_value_can_be_shown_and_none_fills_a_message():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert checks.shown(Broken()) == "Broken"
    assert checks.shown(10**5000) == "int"
    for long in ("a" * 70_000, list(range(70_000)), b"a" * 70_000):
        assert len(checks.shown(long)) < 210
    names = [10**5000, "b"]
    with pytest.raises(tp.InputError, match=r"classes must be text that UTF-8 can write\. Got int"):
        checks.check_classes(names, 2)
    with pytest.raises(tp.InputError, match="Got 2 names, 1 of them distinct"):
        checks.check_classes([1, "1"], 2, as_text=True)  # a prior by name cannot tell them apart
    with pytest.raises(tp.InputError, match="prior must name each of the 2 classes once"):
        checks.by_column(dict.fromkeys(names, 0.5), 2)


def test_a_wrong_choice_gets_a_hint():
    with pytest.raises(tp.InputError, match=r"must be one of 'paper', 'reference'.*mean 'paper'"):
        checks.check_choice("papr", ("paper", "reference"), "form")
    with pytest.raises(tp.InputError, match=r"Got 7 instead\.$"):
        checks.check_choice(7, ("paper", "reference"), "form")


def test_seeds():
    generator = np.random.default_rng(3)
    assert checks.check_seed(generator) is generator
    assert checks.check_seed(3).random() == np.random.default_rng(3).random()
    for bad in (-1, 1.5, None, "1", np.random.RandomState(0)):
        with pytest.raises(tp.InputError, match="seed must be an integer"):
            checks.check_seed(bad)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([np.float16, np.float32]))
def test_probabilities_are_always_recognised_and_logits_never(seed, k, dtype):
    z, y = logits(40, k, seed=seed)
    with pytest.raises(tp.InputError, match="from_probabilities"):
        tp.Temperature(1.0)(softmax(z).astype(dtype))
    tp.Temperature(1.0)(z.astype(dtype))
    mixed = np.vstack([softmax(z), z[:1]])
    tp.fit_temperature(mixed, np.append(y, 1 - z[0].argmax() % 2))


def test_bfloat16_probabilities_are_recognised():
    p = torch.softmax(torch.tensor(logits(200, 50)[0]), dim=1).to(torch.bfloat16)
    with pytest.raises(tp.InputError, match="from_probabilities"):
        tp.Temperature(1.0)(p)


ROUNDED = {
    "three decimals": lambda p: p.round(3),
    "two decimals": lambda p: p.round(2),
    "float32": lambda p: p.astype(np.float32).round(3),
    "torch": lambda p: torch.tensor(p.round(3)),
}
PERCENTAGES = {
    "percentages": lambda p: 100 * p,
    "whole percentages": lambda p: np.round(100 * p),
    "one decimal, float32": lambda p: np.round(100 * p, 1).astype(np.float32),
}


def classified(k, n=500):
    """Probabilities of k classes, sharp and flat by row, with labels."""
    rng = np.random.default_rng(k)
    y = rng.integers(k, size=n)
    z = rng.choice([1, 3, 8], size=(n, 1)) * (2 * np.eye(k)[y] + rng.normal(size=(n, k)))
    return softmax(z), y


@pytest.mark.parametrize("k", [2, 7, 20, 1000])
@pytest.mark.parametrize("how", ROUNDED)
def test_rounded_probabilities_are_recognised_and_can_be_converted(k, how):
    p, y = classified(k)
    rounded = ROUNDED[how](p)
    with pytest.raises(tp.InputError, match=r"sum to 1.*from_probabilities\(p\)"):
        tp.fit_temperature(rounded, y)
    kept = slice(None) if k < 1000 else p.round(2).sum(axis=1) > 0  # else all of a row is lost
    assert (tp.from_probabilities(rounded[kept]).argmax(1) == rounded[kept].argmax(1)).all()


@pytest.mark.parametrize("k", [2, 7, 20])
@pytest.mark.parametrize("how", PERCENTAGES)
def test_percentages_are_recognised_and_can_be_converted(k, how):
    p, y = classified(k)
    percentages = PERCENTAGES[how](p)
    with pytest.raises(tp.InputError, match=r"sum to 100.*from_probabilities\(p / 100\)"):
        tp.calibrate(percentages, np.full(k, 1 / k))
    with pytest.raises(tp.InputError, match="look like percentages"):
        tp.metrics.ece(percentages, y)
    assert (tp.from_probabilities(percentages / 100).argmax(1) == percentages.argmax(1)).all()


def test_rounding_costs_little_of_the_temperature():
    p, y = classified(7, 4000)
    exact = tp.fit_temperature(tp.from_probabilities(p), y).temperature
    for decimals in (3, 4):
        rounded = tp.from_probabilities(p.round(decimals))
        assert tp.fit_temperature(rounded, y).temperature == pytest.approx(exact, rel=0.15)


def test_few_or_hard_rows_keep_their_zeros():
    hard = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    for p in (hard, np.array([[0.7, 0.3, 0.0]])):
        assert softmax(tp.from_probabilities(p)) == pytest.approx(p, abs=1e-15)


@pytest.mark.parametrize("k", [2, 7, 100, 1000])
def test_small_logits_are_not_probabilities(k):
    rng = np.random.default_rng(k)
    some = rng.random((30, k))
    for z in (
        some,
        some.round(2),
        (2 / k * some).round(5),  # sums of about 1, by more than rounding
        200 / k * some,  # the same about 100
        np.maximum(rng.normal(size=(30, k)), 0).round(1),
        rng.integers(3, size=(30, k)),
        100 * np.eye(k)[rng.integers(k, size=30)],
        np.tile([100 - 10 * (k - 1), *[10] * (k - 1)], (30, 1)) if k < 10 else some,  # one row
        rng.dirichlet(np.ones(k), size=4).round(1) * 100,  # by accident, in a few rows
    ):
        tp.Temperature(1.0)(z)


def test_of_a_few_rows_only_exact_probabilities_are_refused():
    rows = np.array([[40.0, 60.0], [50.0, 50.0]])
    tp.Temperature(1.0)(rows)
    with pytest.raises(tp.InputError, match="sum to 1, so they look like probabilities"):
        tp.Temperature(1.0)(rows / 100)


def test_rows_of_a_single_one_are_small_logits():
    assert (tp.Temperature(0.5)(np.eye(3)) == 2 * np.eye(3)).all()


def test_few_sorted_rows_are_an_accident_and_two_columns_always():
    z, _ = logits(60, 4, sharpness=2.0)
    ordered = -np.sort(-z, axis=1)
    label = (np.arange(60) % 5 == 0).astype(int)
    few = slice(checks.SORTED_ROWS - 1)
    tp.fit_temperature(ordered[few], label[few])
    two, _ = logits(60, 2, sharpness=2.0)
    tp.fit_temperature(-np.sort(-two, axis=1), label)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", 1, "b"], [1, "b"]),
        (np.array(["b", "a", "b"]), ["a", "b"]),
        ([7, 3, 7], [3, 7]),
        ([True, False, True], [False, True]),
        ([["b"], ["a"], ["b"]], ["a", "b"]),
        (np.array(["b", 1, "b"], dtype=object), [1, "b"]),
        ([2.5, 1.5, 2.5], [1.5, 2.5]),
    ],
)
def test_labels_are_looked_up_among_names(labels, names):
    assert checks.check_labels(labels, 3, 2, names).tolist() == [1, 0, 1]


@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=9).filter(
        lambda q: sum(q) > 1e-3
    )
)
def test_a_prior_comes_back_normalised(weights):
    q = np.array(weights) / np.sum(weights)
    got = checks.check_prior(q, len(q))
    assert got.sum() == pytest.approx(1, abs=1e-15)
    assert got == pytest.approx(q, abs=1e-15)


def test_a_column_of_weights_is_a_weight_for_each_row():
    z, y = logits(40, 3)
    weight = np.arange(40) % 3
    flat = tp.metrics.nll(z, y, weight)
    assert tp.metrics.nll(z, y, weight[:, None]) == flat
    for wrong in (weight[:20], np.stack([weight, weight], axis=1), weight.reshape(20, 2)):
        with pytest.raises(tp.InputError, match="sample_weight must be 40 numbers"):
            tp.metrics.nll(z, y, wrong)


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda z, y: tp.fit_temperature(z, y + 1), "count from 1: subtract 1"),
        (lambda z, _: tp.fit_temperature(z, None), "Rows without labels go to temperance.calib"),
        (tp.calibrate, "labels belong in labelled= or source="),
        (lambda z, _: tp.fit_temperature(z, z > 0), "multi-label targets are not supported"),
        (lambda z, y: tp.fit_vector(z[y > 0], y[y > 0]), r"penalty=0\.1"),
    ],
)
def test_a_common_mistake_is_named(call, way_out):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    z = np.eye(3)[y] + rng.normal(size=(60, 3))
    with pytest.raises(ValueError, match=way_out):
        call(z, y)
