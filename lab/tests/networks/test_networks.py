from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

from temperance import InputError
from temperance_lab import networks

# Millions of parameters as the papers print them, so to the digits printed there.
# ResNet-20…110: He et al., CVPR 2016, table 6. DenseNet: Huang et al., CVPR 2017, table 2.
# WRN-40-4: Zagoruyko & Komodakis, arXiv:1605.07146v4, table 4.
# ResNet-50, -152 and pre-activated -200: the same, table 8.
PRINTED = {
    "resnet20": "0.27",
    "resnet32": "0.46",
    "resnet44": "0.66",
    "resnet56": "0.85",
    "resnet110": "1.7",
    "densenet40": "1.0",
    "densenet100": "7.0",
    "densenet100_bc": "0.8",
    "wideresnet40_4": "8.9",
    "resnet50": "25.6",
    "resnet152": "60.2",
    "resnet200": "64.7",
}


IMAGENET = {"resnet50", "resnet152", "resnet200"}


@cache
def network_of(name: str) -> networks.Network:
    """The network with the classes and channels of the data it was published for."""
    return networks.build(
        name, 1000 if name in IMAGENET else 10, 1 if name == "lenet5" else 3
    ).eval()


def n_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", PRINTED)
def test_parameter_count_is_the_papers(name):
    millions = n_parameters(network_of(name)) / 1e6
    digits = len(PRINTED[name].split(".")[1])
    assert f"{millions:.{digits}f}" == PRINTED[name]


def test_lenet5_layers_are_those_of_1998():
    # LeCun et al. (1998), section II.B: C1 has 156 trainable parameters, C5 48,120, F6 10,164, and
    # the network 60,000. Ours has no trainable subsampling (S2 12, S4 32), joins C3 to all maps
    # (2,416, not 1,516) and learns its 84 x 10 + 10 output weights, which were fixed then.
    network = network_of("lenet5")
    c1, c3, c5, f6 = (m for m in network.body if isinstance(m, nn.Conv2d | nn.Linear))
    assert [n_parameters(m) for m in (c1, c5, f6)] == [156, 48_120, 10_164]
    assert n_parameters(c3) == 1_516 + 16 * 6 * 25 - 60 * 25
    assert n_parameters(network) == 60_000 - 12 - 32 + (2_416 - 1_516) + 850


def test_vgg16_convolutions_are_configuration_d():
    # Simonyan & Zisserman (2015), table 2: D has 138 million, with layers 25,088-4,096-4,096-1,000.
    network = network_of("vgg16")
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    fully_connected = (25_088 + 1) * 4_096 + (4_096 + 1) * 4_096 + (4_096 + 1) * 1_000
    assert len(convolutions) == 13
    assert round((sum(map(n_parameters, convolutions)) + fully_connected) / 1e6) == 138


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        *((f"resnet{d}", d) for d in (20, 32, 44, 56, 110, 50, 152, 200)),
        ("densenet40", 40),
        ("densenet100", 100),
        ("densenet100_bc", 100),
        ("wideresnet40_4", 38),  # 6n + 4 counts the three projections, and not the last layer
    ],
)
def test_depth_is_the_one_in_the_name(name, layers):
    weighted = [
        key
        for key, m in network_of(name).named_modules()
        if isinstance(m, nn.Conv2d | nn.Linear)
        and not {"shortcut", "projection"} & {*key.split(".")}
    ]
    assert len(weighted) == layers


@pytest.mark.parametrize("name", sorted(networks.NETWORKS))
def test_one_finite_row_of_logits_per_image(name):
    network = network_of(name)
    size = 64 if name in IMAGENET else 32
    images = torch.rand(
        2, len(network.mean), size, size, generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        logits = network(images)
    assert logits.shape == (2, network.head.out_features)
    assert logits.isfinite().all()
    assert not torch.equal(logits[0], logits[1])


@pytest.mark.parametrize("name", sorted({*networks.NETWORKS} - IMAGENET))
def test_grey_images_and_any_number_of_classes(name):
    with torch.no_grad():
        assert networks.build(name, 7, 1).eval()(torch.zeros(1, 1, 32, 32)).shape == (1, 7)


@pytest.mark.parametrize("name", ["lenet5", "small_cifar", "resnet20", "densenet40"])
def test_a_step_reaches_every_weight(name):
    network = networks.build(name, 10)
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    nn.functional.cross_entropy(network(x), torch.tensor([0, 3, 5, 9])).backward()
    untouched = [key for key, p in network.named_parameters() if not p.grad.abs().sum() > 0]
    assert untouched == []


def test_seed_decides_the_weights_and_nothing_else():
    state = torch.get_rng_state()
    a, b, c = (networks.build("resnet20", 10, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not torch.equal(a["body.0.weight"], c["body.0.weight"])
    assert torch.equal(torch.get_rng_state(), state)


def test_normalisation_travels_with_the_weights_but_is_none():
    network = networks.build("lenet5", 10, 1)
    network.standardise(torch.full((1, 1, 1), 0.25), torch.full((1, 1, 1), 0.5))
    twin = networks.build("lenet5", 10, 1)
    twin.load_state_dict(network.state_dict())
    x = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    bare = network.head(network.body((x - 0.25) / 0.5))
    torch.testing.assert_close(twin(x), bare)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lenet", 10), "name must be one of .* Did you mean 'lenet5'"),
        (("lenet5", 1), "n_classes must be an integer of at least 2. Got 1"),
        (("lenet5", 10, 0), "in_channels must be an integer of at least 1. Got 0"),
    ],
)
def test_what_cannot_be_built_is_said(arguments, message):
    with pytest.raises(InputError, match=message):
        networks.build(*arguments)


def test_lenet5_refuses_what_its_field_would_cut_off():
    with pytest.raises(InputError, match=r"at most 32 x 32 for LeNet-5\. Got 64 x 28"):
        networks.build("lenet5", 10, 1)(torch.zeros(1, 1, 64, 28))
