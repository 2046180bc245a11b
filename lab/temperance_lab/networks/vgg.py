"""VGG-16: Simonyan & Zisserman, ICLR 2015, configuration D, for 32 x 32 images.

Thirteen 3 x 3 convolutions in five groups, each closed by a 2 x 2 maximum. On 32 x 32 images one
pixel of 512 maps is left, so the two layers of 4,096 units that hold most of the published 138
million parameters have nothing to join: the head is linear, and batch normalisation regularises.
"""

from __future__ import annotations

from torch import nn

from temperance_lab.networks.network import Network, he_initialised

__all__ = ["vgg16"]

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(n_classes: int, in_channels: int) -> Network:
    """VGG-16 with batch normalisation and a linear head, for images of 32 x 32 and up."""
    layers: list[nn.Module] = []
    n_in = in_channels
    for group in GROUPS:
        for n_out in group:
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
            n_in = n_out
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return he_initialised(Network(nn.Sequential(*layers), nn.Linear(n_in, n_classes), in_channels))
