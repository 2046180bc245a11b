from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from temperance import InputError
from temperance_lab import networks
from temperance_lab.networks.images import as_batch


@pytest.fixture(scope="module")
def linear():
    """A linear network, whose worst image is known: every pixel moves by the sign of a weight."""
    network = networks.Network(nn.Flatten(), nn.Linear(16, 2), 1)
    with torch.no_grad():
        network.head.weight.copy_(torch.linspace(-1, 1, 32).reshape(2, 16))
        network.head.bias.zero_()
    return network


IMAGES = np.random.default_rng(0).integers(60, 190, size=(20, 4, 4), dtype=np.uint8)
LABELS = np.arange(20) % 2


@pytest.mark.parametrize("steps", [1, 7])
def test_the_worst_image_of_a_linear_network(linear, steps):
    attacked = networks.attack(linear, IMAGES, LABELS, 0.1, steps)[..., 0].astype(int)
    slope = np.sign(np.diff(linear.head.weight.detach().numpy(), axis=0)).reshape(4, 4)
    away = np.where(LABELS[:, None, None] == 0, slope, -slope)
    np.testing.assert_array_equal(attacked - IMAGES, 25 * away)


def test_no_pixel_leaves_its_ball_or_the_grey_levels():
    network = networks.build("lenet5", 10, 1)
    images = np.random.default_rng(1).integers(256, size=(6, 28, 28), dtype=np.uint8)
    labels = np.arange(6)
    attacked = networks.attack(network, images, labels, 0.05, 5)
    assert attacked.dtype == np.uint8
    assert np.abs(attacked[..., 0].astype(int) - images).max() == 12

    def loss(x):
        z = network(as_batch(x)).detach()
        return nn.functional.cross_entropy(z, torch.from_numpy(labels)).item()

    assert loss(attacked) > loss(images[..., None])


def test_a_radius_beyond_the_range_is_refused(linear):
    with pytest.raises(InputError, match="epsilon"):
        networks.attack(linear, IMAGES, LABELS, 8)
