from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from temperance import InputError, metrics
from temperance_lab import networks
from temperance_lab.networks.predictive import log_mean_softmax


def small_network(n_features=4, n_classes=3):
    """Four pixels are the features, so that all sixteen masks can be enumerated."""
    network = networks.Network(nn.Flatten(), nn.Linear(n_features, n_classes), 1)
    with torch.no_grad():
        rng = torch.Generator().manual_seed(0)
        network.head.weight.copy_(3 * torch.randn(n_classes, n_features, generator=rng))
    return network


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(256, size=(5, 2, 2), dtype=np.uint8)


@pytest.mark.parametrize("p", [0.5, 0.2])
def test_prediction_is_the_mean_over_all_masks(images, p):
    network = small_network()
    linear = network.head
    weight, bias = linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()
    h = images.reshape(5, 4) / 255
    exact = np.zeros((5, 3))
    for mask in itertools.product((0, 1), repeat=4):
        z = (h * mask / (1 - p)) @ weight.T + bias
        e = np.exp(z - z.max(1, keepdims=True))
        exact += p ** mask.count(0) * (1 - p) ** mask.count(1) * e / e.sum(1, keepdims=True)
    n_samples = 4_000
    networks.add_last_layer_dropout(network, p)
    log_p = networks.predict_ll_dropout(network, images, n_samples)
    # A probability in [0, 1] has a standard deviation of at most one half.
    np.testing.assert_allclose(np.exp(log_p), exact, atol=4 * 0.5 / np.sqrt(n_samples))


def test_no_dropout_is_the_network_itself(images):
    network = networks.add_last_layer_dropout(small_network(), p=0.0)
    expected = torch.log_softmax(
        torch.from_numpy(networks.predict_logits(network, images)).double(), 1
    )
    np.testing.assert_allclose(networks.predict_ll_dropout(network, images, 3), expected, atol=1e-6)


def test_seed_decides_and_every_module_is_left_in_its_mode(images):
    network = networks.add_last_layer_dropout(small_network())
    network.body.eval()
    a, b, c = (networks.predict_ll_dropout(network, images, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 1e-3
    assert network.head.training
    assert not network.body.training


def test_batch_normalisation_does_not_see_the_test_data():
    network = networks.add_last_layer_dropout(networks.build("small_cifar", 3))
    before = {name: t.clone() for name, t in network.state_dict().items()}
    images = np.random.default_rng(0).integers(256, size=(4, 32, 32, 3), dtype=np.uint8)
    networks.predict_ll_dropout(network, images, 3)
    assert all(torch.equal(before[name], t) for name, t in network.state_dict().items())


def test_log_probabilities_are_logits_to_every_metric(images):
    network = networks.add_last_layer_dropout(small_network())
    log_p, y = networks.predict_ll_dropout(network, images), np.array([0, 1, 2, 1, 0])
    assert log_p.dtype == np.float64
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1, atol=1e-12)
    assert metrics.nll(log_p, y) == pytest.approx(-log_p[np.arange(5), y].mean(), abs=1e-9)


def test_network_without_dropout_is_refused(images):
    with pytest.raises(InputError, match=r"networks\.add_last_layer_dropout\(network\) before"):
        networks.predict_ll_dropout(small_network(), images)
    with pytest.raises(InputError, match="p must be a finite number"):
        networks.add_last_layer_dropout(small_network(), 1.5)


def test_mean_of_probabilities_survives_extreme_logits():
    z = torch.tensor([[1000.0, 0.0], [-1000.0, 0.0]], dtype=torch.float64)
    log_p = log_mean_softmax([z, z.flip(1)])
    assert log_p.isfinite().all()
    np.testing.assert_allclose(log_p, np.log(0.5), atol=1e-12)
    certain = log_mean_softmax([z, z])
    np.testing.assert_allclose(certain, [[0, -1000], [-1000, 0]], atol=1e-9)
