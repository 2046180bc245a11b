"""CPCS, TransCal, LaSCal, PseudoCal and perturbed validation, where their assumptions hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import temperance as tp
from temperance.methods.importance_weights import domain_weights


def covariate_shift(n: int, centre: float, seed: int):
    """One-dimensional x, p(y | x) the same in every domain; logits twice too large."""
    rng = np.random.default_rng(seed)
    x = rng.normal(centre, 1.0, size=n)
    truth = np.stack([np.zeros(n), 1.5 * np.sin(2 * x) + x], axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-truth[:, 1]))).astype(int)
    return 2 * truth, y, x[:, None]


def test_weights_are_the_ratio_of_two_normal_densities():
    rng = np.random.default_rng(0)
    source, target = rng.normal(0, 1, (20_000, 1)), rng.normal(0.7, 1, (20_000, 1))
    exact = np.exp(0.7 * source[:, 0] - 0.7**2 / 2)
    w = domain_weights(target, source)
    assert_allclose(w, exact, rtol=0.15)
    assert_allclose(w.mean(), 1, rtol=0.02)


def test_cpcs_finds_the_temperature_under_covariate_shift():
    z, _, x = covariate_shift(8_000, 0.8, 1)
    s, y, xs = covariate_shift(8_000, 0.0, 2)
    assert abs(tp.fit_cpcs(z, (s, y), features=(x, xs)).temperature - 2) < 0.3


def test_transcal_matches_the_accuracy_of_the_target():
    z, truth, x = covariate_shift(8_000, 0.8, 3)
    s, y, xs = covariate_shift(8_000, 0.0, 4)
    fitted = tp.fit_transcal(z, (s, y), features=(x, xs))
    accuracy = (z.argmax(axis=1) == truth).mean()
    assert abs(fitted.predict_proba(z).max(axis=1).mean() - accuracy) < 0.03


def test_control_variates_take_noise_off_the_weighted_accuracy():
    plain, steady, truths = [], [], []
    for seed in range(20):
        z, truth, x = covariate_shift(1_000, 1.2, 100 + seed)
        s, y, xs = covariate_shift(1_000, 0.0, 200 + seed)
        w = domain_weights(x, xs)
        plain.append((w * (s.argmax(axis=1) == y)).mean())
        fitted = tp.fit_transcal(z, (s, y), features=(x, xs))
        steady.append(fitted.predict_proba(z).max(axis=1).mean())
        truths.append((z.argmax(axis=1) == truth).mean())
    assert np.std(np.subtract(steady, truths)) < np.std(np.subtract(plain, truths))
    assert abs(np.mean(np.subtract(steady, truths))) < 0.03


def test_transcal_never_sharpens():
    z, y, _ = covariate_shift(2_000, 0.0, 5)
    assert tp.fit_transcal(z / 8, (z / 8, y)).temperature == 1


def test_lascal_minimises_the_error_that_target_labels_would_show():
    rng = np.random.default_rng(6)
    y, old = rng.choice(3, p=[0.7, 0.2, 0.1], size=8_000), rng.integers(3, size=8_000)
    z, s = (4 * (1.5 * np.eye(3)[t] + rng.normal(size=(8_000, 3))) for t in (y, old))
    grid = np.geomspace(0.5, 20, 60)
    measured = [tp.metrics.classwise_ece(z / t, y) for t in grid]
    best = grid[np.argmin(measured)]
    assert abs(np.log(tp.fit_lascal(z, (s, old)).temperature / best)) < 0.25
    known = tp.fit_lascal(z, (s, old), prior=[0.7, 0.2, 0.1]).temperature
    assert abs(np.log(known / best)) < 0.25


def test_pseudocal_softens_an_overconfident_model_and_keeps_a_scale():
    x = np.random.default_rng(7).normal(size=(2_000, 4))
    once = tp.fit_pseudocal(lambda x: 5 * x, x).temperature
    twice = tp.fit_pseudocal(lambda x: 10 * x, x).temperature
    assert once > 1
    assert_allclose(twice, 2 * once, rtol=1e-6)


def test_perturbed_validation_is_softer_than_plain():
    rng = np.random.default_rng(8)
    y = rng.integers(3, size=900)
    x = np.eye(3)[y] + 0.4 * rng.normal(size=(900, 3))
    plain = tp.fit_temperature(6 * x, y).temperature
    assert tp.fit_perturbed(lambda x: 6 * x, x, y).temperature > plain


def test_bad_input_is_said():
    z, y, x = covariate_shift(50, 0.0, 9)
    with pytest.raises(tp.InputError, match="features must be a pair"):
        tp.fit_cpcs(z, (z, y), features=(x, x[:10]))
    with pytest.raises(tp.InputError, match="features must be a pair"):
        tp.fit_cpcs(z, (z, y), features=(x, np.hstack([x, x])))
    with pytest.raises(tp.InputError, match="inputs"):
        tp.fit_pseudocal(np.nan_to_num, np.where(x == x[3], np.nan, [0.0, 1.0]))
    with pytest.raises(tp.InputError, match="inputs must be an array"):
        tp.fit_pseudocal(lambda x: x, [1.0])
    with pytest.raises(tp.NotIdentified, match="one class"):
        tp.fit_pseudocal(lambda x: x, np.tile([1.0, 0.0], (10, 1)))
    with pytest.raises(tp.InputError, match="mix must be"):
        tp.fit_pseudocal(lambda x: x, x, mix=0.4)


def test_a_model_that_raises_is_told_of_with_what_it_was_given():
    with pytest.raises(tp.InputError, match=r"On shape \(8, 3\) it raised TypeError"):
        tp.fit_perturbed(float, np.zeros((8, 3)), np.zeros(8, int))


def test_inputs_that_require_gradients_are_read_without_a_warning():
    torch = pytest.importorskip("torch")
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    expected = tp.fit_pseudocal(lambda x: 9 * x, x).temperature
    assert tp.fit_pseudocal(lambda x: 9 * x, x.requires_grad_()).temperature == expected
