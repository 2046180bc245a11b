"""Residual networks: He, Zhang, Ren & Sun, CVPR 2016, and for ResNet-200 the same, ECCV 2016.

A residual unit is ``x + f(x)``. The CIFAR networks (section 4.2, 6n + 2 layers) shorten by
identity with zero-padded channels (option A), so shortcuts have no parameters; the ImageNet
networks (table 1) use bottlenecks, and a projection where the shape changes (option B).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional

from temperance_lab.networks.network import Network, he_initialised

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["resnet_cifar", "resnet_imagenet"]

STAGES = {50: (3, 4, 6, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


def conv3x3(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    """3 x 3 convolution without bias: batch normalisation follows."""
    return nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)


class Basic(nn.Module):
    """Two 3 x 3 convolutions; the shortcut subsamples and pads channels with zeros."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.stride, self.extra = stride, n_out - n_in
        self.path = nn.Sequential(
            conv3x3(n_in, n_out, stride),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            conv3x3(n_out, n_out),
            nn.BatchNorm2d(n_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Rectified sum of the shortcut and the path."""
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self.extra))
        return functional.relu(shortcut + self.path(x))


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up to four times the width."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        n_out = 4 * width
        self.path = nn.Sequential(
            nn.Conv2d(n_in, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv3x3(width, width, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, n_out, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or n_in != n_out:
            projection = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        """Rectified sum of the shortcut and the path."""
        return functional.relu(self.shortcut(x) + self.path(x))


class PreactivatedBottleneck(nn.Module):
    """The bottleneck of 2016b: normalise and rectify first, add last, nothing after the sum."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        n_out = 4 * width
        self.activate = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU())
        self.path = nn.Sequential(
            nn.Conv2d(n_in, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv3x3(width, width, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, n_out, 1, bias=False),
        )
        changes = stride != 1 or n_in != n_out
        self.projection = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """Sum of the shortcut and the path; a projection sees the activated input."""
        a = self.activate(x)
        return self.path(a) + (x if self.projection is None else self.projection(a))


def resnet_cifar(depth: int) -> Callable[[int, int], Network]:
    """ResNet of ``depth = 6n + 2`` layers in three stages of widths 16, 32, 64."""

    def build(n_classes: int, in_channels: int) -> Network:
        layers: list[nn.Module] = [conv3x3(in_channels, 16), nn.BatchNorm2d(16), nn.ReLU()]
        n_in = 16
        for width in (16, 32, 64):
            for unit in range((depth - 2) // 6):
                layers.append(Basic(n_in, width, 2 if unit == 0 and width != 16 else 1))
                n_in = width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        head = nn.Linear(64, n_classes)
        return he_initialised(Network(nn.Sequential(*layers), head, in_channels))

    return build


def resnet_imagenet(depth: int) -> Callable[[int, int], Network]:
    """ResNet-50 or -152 of bottlenecks, or the pre-activated ResNet-200, for 224 x 224 images."""

    def build(n_classes: int, in_channels: int) -> Network:
        preactivated = depth == 200
        block = PreactivatedBottleneck if preactivated else Bottleneck
        layers: list[nn.Module] = [
            nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        n_in = 64
        for stage, n_units in enumerate(STAGES[depth]):
            width = 64 * 2**stage
            for unit in range(n_units):
                layers.append(block(n_in, width, 2 if unit == 0 and stage > 0 else 1))
                n_in = 4 * width
        if preactivated:
            layers += [nn.BatchNorm2d(n_in), nn.ReLU()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        head = nn.Linear(n_in, n_classes)
        return he_initialised(Network(nn.Sequential(*layers), head, in_channels))

    return build
