"""One temperature: exact at any scale, and honest when there is none."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import draw_labels, logits, softmax

import temperance as tp

mp.mp.dps = 40


def exact_moments(z, w, beta):
    """Value and two derivatives in β of Σ (A·lse(βz) - β·Σ W z), by mpmath, term by term."""
    value = first = second = mp.mpf(0)
    beta = mp.mpf(beta)
    for row, weights in zip(z.tolist(), w.tolist(), strict=True):
        numbers = [mp.mpf(x) for x in row]
        e = [mp.exp(beta * x) for x in numbers]
        s0 = mp.fsum(e)
        m1 = mp.fsum(a * x for a, x in zip(e, numbers, strict=True)) / s0
        m2 = mp.fsum(a * x * x for a, x in zip(e, numbers, strict=True)) / s0
        mass = mp.fsum(mp.mpf(a) for a in weights)
        own = mp.fsum(mp.mpf(a) * x for a, x in zip(weights, numbers, strict=True))
        value += mass * mp.log(s0) - beta * own
        first += mass * m1 - own
        second += mass * (m2 - m1 * m1)
    return value, first, second


def assert_optimal(temperature, z, w):
    """T within 1e-8 of the optimum and the mean NLL within 1e-12 of its minimum.

    One Newton step of mpmath from a point this close lands within the square of its distance.
    """
    beta = 1 / mp.mpf(temperature)
    value, first, second = exact_moments(z, w, beta)
    optimum = beta - first / second
    assert abs(beta / optimum - 1) < mp.mpf("1e-8")
    best, rest, _ = exact_moments(z, w, optimum)
    assert abs(rest) < abs(first) or first == 0
    assert value - best <= mp.mpf("1e-12") * mp.mpf(float(w.sum()))


def hard(y, k):
    return np.eye(k)[y]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("n", "k", "sharpness"), [(40, 2, 0.3), (150, 3, 2.0), (40, 30, 7.0)])
def test_optimum_is_the_one_of_mpmath(n, k, sharpness, dtype):
    z, y = logits(n, k, sharpness=sharpness, seed=n)
    z = z.astype(dtype)
    assert_optimal(tp.fit_temperature(z, y).temperature, z, hard(y, k))


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_optimum_is_the_one_of_mpmath_at_any_scale(scale):
    z, y = logits(60, 4, sharpness=2.0)
    z = (z * scale).astype(np.float32)
    assert_optimal(tp.fit_temperature(z, y).temperature, z, hard(y, 4))


def test_optimum_with_weights_and_soft_labels_is_the_one_of_mpmath():
    z, _ = logits(80, 5, sharpness=3.0)
    rng = np.random.default_rng(1)
    soft, weight = rng.dirichlet(np.ones(5), size=80), rng.exponential(size=80)
    soft = 0.3 * soft + 0.7 * softmax(z / 3)
    fitted = tp.fit_temperature(z, soft, sample_weight=weight)
    # The library divides soft labels by their sum once more: rounding, repeated here.
    soft = soft / soft.sum(axis=1, keepdims=True)
    assert_optimal(fitted.temperature, z, soft * weight[:, None])


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 25.0])
def test_many_float32_rows_take_the_fast_path_to_the_same_optimum(sharpness):
    z, y = logits(6_000, 50, sharpness=sharpness)
    z = z.astype(np.float32)
    beta = 1 / np.longdouble(tp.fit_temperature(z, y).temperature)
    wide = z.astype(np.longdouble)  # 64 bits of mantissa: a referee for errors of 1e-12
    u = wide - wide.max(axis=1, keepdims=True)
    e = np.exp(beta * u)
    m1, m2 = ((e * u**r).sum(axis=1) / e.sum(axis=1) for r in (1, 2))
    first = (m1 - u[np.arange(len(y)), y]).sum()
    second = (m2 - m1**2).sum()
    assert abs(first / second / beta) < 1e-8
    assert first**2 / second / 2 / len(y) < 1e-12


def test_closed_form_of_one_margin():
    z = np.tile([3.0, 0.0], (10, 1))
    fitted = tp.fit_temperature(z, [0] * 8 + [1] * 2)
    assert fitted.temperature == pytest.approx(3 / np.log(8 / 2), rel=1e-14)


def test_the_true_temperature_is_found_within_its_standard_error():
    z, y = logits(40_000, 10, sharpness=3.0)
    p = softmax(z / 3)
    information = ((p * z**2).sum(axis=1) - (p * z).sum(axis=1) ** 2).sum()
    standard_error = 3.0**2 / np.sqrt(information)  # of T, from that of 1/T
    assert abs(tp.fit_temperature(z, y).temperature - 3) < 4 * standard_error


@pytest.mark.parametrize("power", [-300, -20, -1, 1, 20, 300])
def test_a_power_of_two_scales_the_temperature_to_rounding(power):
    z, y = logits(300, 6, sharpness=2.0)
    t = tp.fit_temperature(z, y).temperature
    scaled = tp.fit_temperature(z * 2.0**power, y).temperature
    assert scaled / 2.0**power == pytest.approx(t, rel=1e-15)


@pytest.mark.parametrize("c", [1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_millionth_and_a_million_scale_the_temperature(c, dtype):
    z, y = logits(300, 6, sharpness=2.0)
    z = z.astype(dtype)
    t = tp.fit_temperature(z, y).temperature
    scaled = tp.fit_temperature((z * c).astype(dtype), y).temperature
    # Multiplying by c rounds each logit, by half an ulp; the fit adds nothing to that.
    assert scaled / c == pytest.approx(t, rel=float(np.finfo(dtype).eps))


NOTHING = np.zeros((40, 3))
RIGHT, LABELS = np.eye(3)[np.arange(40) % 3] * 5 - 1, np.arange(40) % 3


@pytest.mark.parametrize(
    ("z", "y", "reason"),
    [
        (RIGHT, LABELS, "every row is predicted right"),
        (RIGHT, hard(LABELS, 3), "every row is predicted right"),
        (NOTHING + np.arange(40)[:, None], LABELS, "constant in every row"),
        (-RIGHT, LABELS, "no higher than those of the other classes"),
        (RIGHT[:1], LABELS[:1], "every row is predicted right"),
        (np.array([[0.0, 1.0], [0.0, 1.0]]) * 3, [0, 1], "no higher than"),
    ],
)
@pytest.mark.parametrize(
    "fit", [tp.fit_temperature, tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix]
)
def test_no_optimum_is_said_not_invented(fit, z, y, reason):
    with pytest.raises(tp.NotIdentified, match=reason):
        fit(z, y)


def test_one_wrong_row_among_many_is_enough():
    y = np.concatenate([LABELS, [0]])
    z = np.vstack([RIGHT, [[0.0, 1.0, 0.0]]]) * 1e3
    t = tp.fit_temperature(z, y).temperature
    assert_optimal(t, z, hard(y, 3))


@given(st.integers(0, 2**32 - 1))
def test_a_weight_is_a_repetition_and_one_hot_is_hard(seed):
    rng = np.random.default_rng(seed)
    z, y = logits(60, 3, sharpness=2.0, seed=seed)
    weight = rng.integers(0, 4, size=60)
    repeated = tp.fit_temperature(np.repeat(z, weight, axis=0), np.repeat(y, weight))
    weighted = tp.fit_temperature(z, y, sample_weight=weight)
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=1e-12)
    soft = tp.fit_temperature(z, hard(y, 3), sample_weight=weight)
    assert soft.temperature == pytest.approx(weighted.temperature, rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 20))
def test_in_sample_likelihood_is_never_worse_than_without_a_map(seed, sharpness):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    z = rng.normal(size=(50, k)) * sharpness
    y = draw_labels(softmax(z / sharpness), rng)
    try:
        fitted = tp.fit_temperature(z, y)
    except tp.NotIdentified:
        return
    assert tp.metrics.nll(fitted(z), y) <= tp.metrics.nll(z, y) + 1e-14


UNFIT = {
    "NaN": (np.nan, "must be finite. Row {}, class {} is NaN"),
    "infinity": (np.inf, "must be finite. Row {}, class {} is inf"),
    "too large": (1e101, "must lie within ±1e.100, .*Row {}, class {} is 1e.101"),
}


@pytest.mark.parametrize("n", [50, 2_000, 20_000])
@pytest.mark.parametrize("what", UNFIT)
def test_an_unfit_value_is_named_wherever_it_is(what, n):
    z, y = logits(n, 10, sharpness=2.0)
    value, words = UNFIT[what]
    weight = np.ones(n)
    for row, column in ((0, 0), (n - 1, 9), (n // 2 + 1, 4)):
        hurt = z.copy()
        hurt[row, column] = value
        weight[:] = 1
        weight[row] = 0
        for w in (None, weight):
            with pytest.raises(tp.InputError, match=words.format(row, column)):
                tp.fit_temperature(hurt, y, w)


def test_of_several_errors_the_unfit_value_is_told_first():
    z, y = logits(40, 5, sharpness=2.0)
    z = -np.sort(-z, axis=1)
    with pytest.raises(tp.InputError, match="sorted or top-k"):
        tp.fit_temperature(z, y)
    z[7, 0] = np.inf  # and still sorted
    with pytest.raises(tp.InputError, match="Row 7, class 0 is inf"):
        tp.fit_temperature(z, y)


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.eye(2)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.7e308])
def test_values_that_are_not_numbers_are_refused_without_a_warning(bad, labels):
    with pytest.raises(tp.InputError):
        tp.fit_temperature(np.array([[bad, 0.0], [bad, bad]]), labels)


@pytest.mark.parametrize("mask", [-1e4, -1e30, float(np.finfo(np.float32).min), -1e99])
@pytest.mark.parametrize("n", [200, 6_000])
def test_a_masked_class_changes_nothing(n, mask):
    z, y = logits(n, 4, sharpness=2.0)
    with_mask = np.column_stack([z, np.full(n, mask)])
    plain = tp.fit_temperature(z, y).temperature
    assert tp.fit_temperature(with_mask, y).temperature == pytest.approx(plain, rel=1e-8)


@pytest.mark.parametrize("n", [30, 300, 3_000])
def test_a_model_that_ranks_the_classes_alike_in_every_row_is_not_taken_for_sorted(n):
    z = np.array([3.0, 2.0, 1.0]) + 0.1 * np.random.default_rng(n).normal(size=(n, 3))
    y = np.random.default_rng(0).choice(3, n, p=[0.6, 0.3, 0.1])
    assert (np.diff(z) < 0).all()
    for alike in (z, np.maximum(z, 2.5)):  # clipped scores tie
        assert tp.fit_temperature(alike, y).temperature > 0
