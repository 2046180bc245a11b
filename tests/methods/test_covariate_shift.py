"""CPCS and TransCal where p(y | x) stays and the density of x moves."""

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


def test_features_of_another_shape_are_refused():
    z, y, x = covariate_shift(50, 0.0, 9)
    with pytest.raises(tp.InputError, match="source features must have a row for each of 50"):
        tp.fit_cpcs(z, (z, y), features=(x, x[:10]))
    with pytest.raises(tp.InputError, match="same number of columns"):
        tp.fit_cpcs(z, (z, y), features=(x, np.hstack([x, x])))
