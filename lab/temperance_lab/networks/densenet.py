"""Densely connected networks: Huang, Liu, van der Maaten & Weinberger, CVPR 2017, section 3.

Layer l of a dense block sees the concatenation of all maps before it,
``x_l = H_l([x_0, …, x_{l-1}])``, and adds k maps. Three blocks, joined by transitions (1 x 1
convolution, 2 x 2 average). The plain network has H = BN, ReLU, 3 x 3; the "BC" one a 1 x 1
bottleneck of 4k maps before it and transitions that halve the maps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from temperance_lab.networks.network import Network, he_initialised

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["densenet_cifar"]

GROWTH = 12


def activated_conv(n_in: int, n_out: int, size: int) -> nn.Sequential:
    """BN, ReLU, convolution, dropout: the order of the paper; a recipe sets the dropout rate."""
    conv = nn.Conv2d(n_in, n_out, size, padding=size // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU(), conv, nn.Dropout(0.0))


class Dense(nn.Module):
    """Append k new maps to the input maps."""

    def __init__(self, n_in: int, *, bottleneck: bool) -> None:
        super().__init__()
        self.path = nn.Sequential()
        if bottleneck:
            self.path.append(activated_conv(n_in, 4 * GROWTH, 1))
            n_in = 4 * GROWTH
        self.path.append(activated_conv(n_in, GROWTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the input and the new maps."""
        return torch.cat([x, self.path(x)], dim=1)


def densenet_cifar(depth: int, *, bc: bool = False) -> Callable[[int, int], Network]:
    """DenseNet of growth rate 12 for 32 x 32 images, plain or with bottleneck and compression."""

    def build(n_classes: int, in_channels: int) -> Network:
        n_maps = 2 * GROWTH if bc else 16
        n_layers = (depth - 4) // (6 if bc else 3)
        layers: list[nn.Module] = [nn.Conv2d(in_channels, n_maps, 3, padding=1, bias=False)]
        for block in range(3):
            for _ in range(n_layers):
                layers.append(Dense(n_maps, bottleneck=bc))
                n_maps += GROWTH
            if block < 2:
                n_out = n_maps // 2 if bc else n_maps
                layers += [activated_conv(n_maps, n_out, 1), nn.AvgPool2d(2)]
                n_maps = n_out
        layers += [nn.BatchNorm2d(n_maps), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        head = nn.Linear(n_maps, n_classes)
        return he_initialised(Network(nn.Sequential(*layers), head, in_channels))

    return build
