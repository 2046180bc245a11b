"""Class mix without labels: label shift is simulated, so the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import temperance as tp

Q = np.array([0.6, 0.25, 0.1, 0.05])


def label_shift(seed: int, n: int = 6_000, signal: float = 2.0):
    rng = np.random.default_rng(seed)
    old, new = rng.integers(4, size=n), rng.choice(4, p=Q, size=n)
    z_old, z = (signal * np.eye(4)[y] + rng.normal(size=(n, 4)) for y in (old, new))
    return z, (3 * z_old, old), 3 * z, new  # three times too sure, in both domains


@pytest.mark.parametrize("method", ["em", "bbse", "rlls"])
def test_a_changed_mix_is_recovered(method):
    _, source, z, y = label_shift(0)
    truth = np.bincount(y, minlength=4) / len(y)
    assert_allclose(tp.estimate_prior(z, source, method=method), truth, atol=0.03)


def test_em_is_the_maximum_of_its_likelihood():
    """Against a general optimiser on the simplex, from the same calibrated probabilities."""
    _, (z_old, old), z, _ = label_shift(1, n=1_500)
    fitted = tp.fit_biased_temperature(z_old, old)
    share = np.bincount(old, minlength=4) / len(old)
    ratio = fitted.predict_proba(z) / share

    def loss(x):
        q = np.exp(x - x.max())
        return -np.log(ratio @ (q / q.sum())).mean()

    found = minimize(loss, np.zeros(4), tol=1e-12).x
    best = np.exp(found) / np.exp(found).sum()
    assert_allclose(tp.estimate_prior(z, (z_old, old)), best, atol=1e-4)


def test_without_a_shift_the_source_mix_comes_back():
    _, (z_old, old), _, _ = label_shift(2)
    half = len(old) // 2
    share = np.bincount(old[:half], minlength=4) / half
    found = tp.estimate_prior(z_old[half:], (z_old[:half], old[:half]))
    assert_allclose(found, share, atol=0.03)


def test_rlls_shrinks_where_rows_are_few():
    """With 40 source rows the regularised weights stay nearer to 1 than those of BBSE."""
    rng = np.random.default_rng(3)
    spread = {"bbse": [], "rlls": []}
    for _ in range(10):
        old = np.repeat(np.arange(4), 10)
        z_old = np.eye(4)[old] + rng.normal(size=(40, 4))
        z = np.eye(4)[rng.integers(4, size=40)] + rng.normal(size=(40, 4))
        for method, values in spread.items():
            values.append(np.abs(tp.estimate_prior(z, (z_old, old), method=method) - 0.25).sum())
    assert np.mean(spread["rlls"]) < np.mean(spread["bbse"])


def test_bad_input_is_said():
    z, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 3
    with pytest.raises(tp.InputError, match="method must be one of"):
        tp.estimate_prior(z, (z, y), method="emm")
    with pytest.raises(tp.InputError, match="source must be a pair"):
        tp.estimate_prior(z, z)
    with pytest.raises(tp.InputError, match="must have 3 columns"):
        tp.estimate_prior(z, (z[:, :2], y % 2))
