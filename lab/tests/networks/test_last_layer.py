"""The posterior of a last layer, against what can be computed exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

from temperance import InputError
from temperance_lab import networks
from temperance_lab.networks.last_layer import LastLayer, _r_hat


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(0)
    h = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y = (h @ rng.normal(size=(3, 3)) + rng.gumbel(size=(60, 3))).argmax(axis=1)
    return LastLayer(h, y, 3)


def test_derivatives_are_those_of_the_density(posterior):
    theta = np.random.default_rng(1).normal(size=(3, 3))
    slope, curve = posterior.gradient(theta), posterior.curvature(theta)
    for i, unit in enumerate(np.eye(9).reshape(9, 3, 3)):
        up, down = theta + 1e-5 * unit, theta - 1e-5 * unit
        rise = posterior.log_density(up) - posterior.log_density(down)
        assert rise / 2e-5 == pytest.approx(slope.ravel()[i], rel=1e-5, abs=1e-6)
        bend = (posterior.gradient(down) - posterior.gradient(up)).ravel() / 2e-5
        np.testing.assert_allclose(bend, curve[i], rtol=1e-5, atol=1e-6)


def test_the_mode_is_one(posterior):
    assert np.abs(posterior.gradient(posterior.mode)).max() < 1e-3
    best = posterior.log_density(posterior.mode)
    for step in 0.1 * np.random.default_rng(2).normal(size=(20, 3, 3)):
        assert posterior.log_density(posterior.mode + step) < best


def test_laplace_has_the_mode_and_the_inverse_curvature(posterior):
    heads = posterior.laplace(20_000, np.random.default_rng(0)).heads.reshape(-1, 9)
    covariance = np.linalg.inv(posterior.curvature(posterior.mode))
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(heads.mean(axis=0), posterior.mode.ravel(), atol=0.05 * scale.max())
    found = np.cov(heads.T) / np.outer(scale, scale)
    np.testing.assert_allclose(found, covariance / np.outer(scale, scale), atol=0.04)


def test_hmc_draws_from_the_posterior_where_laplace_does_not():
    """One weight, two classes, six rows: the mean and the deviation by integration on a grid.

    Two classes have two weights, whose difference decides; their sum has the prior alone.
    """
    h, y = np.array([[1.0], [2.0], [0.5], [3.0], [1.0], [2.0]]), np.array([1, 1, 1, 1, 1, 0])
    one = LastLayer(h, y, 2, precision=0.3)
    grid = np.linspace(-12, 12, 2_001)
    log_p = [one.log_density(np.array([[-d / 2], [d / 2]])) for d in grid]
    weight = np.exp(log_p - np.max(log_p))
    mean = np.average(grid, weights=weight)
    deviation = np.sqrt(np.average((grid - mean) ** 2, weights=weight))
    heads, accepted, r_hat = one.hmc(1_000, np.random.default_rng(0))
    found = heads[:, 1, 0] - heads[:, 0, 0]
    assert accepted > 0.7
    assert r_hat == pytest.approx(1, abs=0.01)
    assert found.mean() == pytest.approx(mean, abs=0.12 * deviation)
    assert found.std() == pytest.approx(deviation, rel=0.1)
    mode = one.mode[1, 0] - one.mode[0, 0]
    assert abs(mode - mean) > 0.14 * deviation  # Laplace is centred elsewhere


def test_hmc_moves_where_the_curvature_at_the_mode_does_not_carry():
    """Nearly separable rows: the density bends more away from the mode than at it.

    The mean of -θ·∇ log p is the number of weights under every density (integration by parts).
    """
    rng = np.random.default_rng(3)
    h = np.column_stack([3 * rng.normal(size=(2_000, 12)), np.ones(2_000)])
    y = (h @ (2 * rng.normal(size=(5, 13))).T).argmax(axis=1)
    posterior = LastLayer(h, y, 5, precision=0.01)
    heads, accepted, r_hat = posterior.hmc(400, np.random.default_rng(0))
    assert accepted > 0.6
    assert r_hat == pytest.approx(1, abs=0.02)
    found = [-np.sum((head - posterior.mode) * posterior.gradient(head)) for head in heads]
    assert np.mean(found) == pytest.approx(posterior.mode.size, abs=4 * np.std(found) / 20)


def test_chains_that_differ_have_a_large_r_hat():
    one = np.random.default_rng(0).normal(size=(4, 500))
    assert _r_hat(list(one)) == pytest.approx(1, abs=0.01)
    assert _r_hat([*one[:2], *(one[2:] + 3)]) > 1.5


def small_network():
    return networks.Network(nn.Flatten(), nn.Linear(4, 3), 1)


def test_prediction_is_the_mean_probability_of_the_heads():
    network = small_network()
    images = np.random.default_rng(0).integers(256, size=(5, 2, 2), dtype=np.uint8)
    heads = np.random.default_rng(1).normal(size=(4, 3, 5))
    h = np.column_stack([images.reshape(5, 4) / 255, np.ones(5)])
    p = np.mean([np.exp(log_softmax(h @ head.T, axis=1)) for head in heads], axis=0)
    found = networks.predict_last_layer(network, heads, images)
    np.testing.assert_allclose(found, np.log(p), rtol=1e-5)


@pytest.mark.parametrize("method", ["laplace", "hmc"])
def test_a_seed_gives_the_same_heads_and_leaves_the_network_alone(method):
    network = small_network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    images = np.random.default_rng(0).integers(256, size=(40, 2, 2), dtype=np.uint8)
    labels = np.arange(40) % 3
    drawn = [
        networks.sample_last_layer(network, images, labels, method, n_samples=3, seed=seed)
        for seed in (0, 0, 1)
    ]
    (first, again, other), accepted, _ = zip(*drawn, strict=True)
    assert all(share == 1 if method == "laplace" else 0.5 < share <= 1 for share in accepted)
    np.testing.assert_array_equal(first, again)
    assert first.shape == (3, 3, 5)
    assert not np.allclose(first, other)
    assert network.training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_an_unknown_method_is_refused():
    images = np.zeros((3, 2, 2), dtype=np.uint8)
    with pytest.raises(InputError, match="method must be"):
        networks.sample_last_layer(small_network(), images, [0, 1, 2], "gibbs")
