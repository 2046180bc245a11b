"""Probabilities and one-logit scores have functions of their own."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from simulated import logits, softmax

import temperance as tp
from temperance._core.arrays import softmax as same_kind_softmax


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_softmax_of_the_logits_is_the_probability(dtype):
    p = softmax(logits(50, 4)[0]).astype(dtype)
    z = tp.from_probabilities(p)
    assert z.dtype == dtype
    assert same_kind_softmax(z) == pytest.approx(p, rel=5 * float(np.finfo(dtype).eps))


def test_a_fit_on_them_equals_the_fit_on_the_logits():
    z, y = logits(300, 4, sharpness=2.0)
    there = tp.fit_temperature(tp.from_probabilities(softmax(z)), y)
    assert there.temperature == pytest.approx(tp.fit_temperature(z, y).temperature, rel=1e-10)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zero_becomes_the_smallest_normal_number(dtype):
    z = tp.from_probabilities(np.array([[1.0, 0.0]], dtype=dtype))
    assert np.isfinite(z).all()
    assert z[0, 1] == pytest.approx(np.log(float(np.finfo(dtype).smallest_normal)), rel=1e-3)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([[2.0, -1.0]], "non-negative rows that sum to 1. Row 0 sums to 1 with smallest entry -1"),
        ([[0.5, 0.5], [0.5, 0.6]], "Row 1 sums to 1.1 .* logits are passed as they are"),
        ([[0.9, 0.8], [0.2, 0.1]], r"multi-label model do: .*\[1 - p\[:, k\], p\[:, k\]\], axis=1"),
        ([[np.nan, 1.0]], "Row 0 sums to nan"),
        ([[np.inf, -np.inf]], "Row 0"),
        ([0.5, 0.5], r"shape \(2,\); .* numpy\.stack\(\[1 - p, p\], axis=1\)"),
        ([[0.5], [0.5]], r"shape \(2, 1\); .*\[1 - p\[:, 0\], p\[:, 0\]\], axis=1\)"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_other_numbers_are_refused(p, message):
    with pytest.raises(tp.InputError, match=f"^p must .*{message}"):
        tp.from_probabilities(p)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_binary_scores_get_a_column_of_zeros(shape):
    s = np.array([1.5, -2.0, 0.25], dtype=np.float32).reshape(shape)
    z = tp.binary_logits(s)
    assert z.dtype == np.float32
    assert (z == [[0, 1.5], [0, -2.0], [0, 0.25]]).all()


def test_the_temperature_of_binary_scores_divides_the_score():
    rng = np.random.default_rng(0)
    s = rng.normal(size=400) * 6
    y = (rng.random(400) < 1 / (1 + np.exp(-s / 2))).astype(int)
    sign = 2 * y - 1
    best = minimize_scalar(
        lambda log_t: np.logaddexp(0, -sign * s / np.exp(log_t)).sum(),
        bounds=(-3, 3),
        options={"xatol": 1e-10},
    )
    fitted = tp.fit_temperature(tp.binary_logits(s), y)
    assert fitted.temperature == pytest.approx(np.exp(best.x), rel=1e-5)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones((3, 2)), r"shape \(n,\) or \(n, 1\). Got shape \(3, 2\)"),
        (np.ones((3, 1, 1)), r"Got shape \(3, 1, 1\)"),
        ([], r"Got shape \(0,\)"),
        (5.0, r"Got shape \(\)"),
        (None, "Got NoneType"),
        (["a"], "Got list"),
        ([1.0, np.nan], "finite. Row 1, class 1 is NaN"),
        ([np.inf], "finite. Row 0, class 1 is inf"),
    ],
)
def test_other_scores_are_refused(scores, message):
    with pytest.raises(tp.InputError, match=f"^scores must be .*{message}"):
        tp.binary_logits(scores)


def test_doors_keep_kind_and_dtype():
    p = torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16)
    assert tp.from_probabilities(p).dtype == torch.bfloat16
    assert tp.binary_logits(torch.tensor([0.5])).tolist() == [[0.0, 0.5]]
    strict = array_api_strict.asarray([[0.25, 0.75]])
    assert isinstance(tp.from_probabilities(strict), type(strict))
    assert isinstance(tp.binary_logits(strict[0, :]), type(strict))


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, array_api_strict.asarray, list])
def test_probabilities_of_class_1_are_no_scores(kind):
    p = softmax(logits(50, 2)[0])[:, 1]
    with pytest.raises(tp.InputError, match="scores must be logits, but all 50 lie between 0 and"):
        tp.binary_logits(kind(p))
    way_out = tp.from_probabilities(np.stack([1 - p, p], axis=1))
    assert softmax(np.asarray(way_out))[:, 1] == pytest.approx(p)


def test_scores_that_might_be_probabilities_are_not_refused():
    few = np.linspace(0.1, 0.9, 19)
    for scores in (few, np.zeros(100), np.tile([0.0, 1.0], 50), np.linspace(-0.1, 0.9, 50)):
        assert (tp.binary_logits(scores)[:, 1] == scores).all()
