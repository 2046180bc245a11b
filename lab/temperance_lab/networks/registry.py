"""Networks by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temperance_lab.checks import check_choice, check_integer
from temperance_lab.networks.densenet import densenet_cifar
from temperance_lab.networks.lenet import lenet5
from temperance_lab.networks.resnet import resnet_cifar, resnet_imagenet
from temperance_lab.networks.run import seeded
from temperance_lab.networks.small_cifar import small_cifar
from temperance_lab.networks.vgg import vgg16
from temperance_lab.networks.wideresnet import wideresnet40_4

if TYPE_CHECKING:
    from collections.abc import Callable

    from temperance_lab.networks.network import Network

__all__ = ["NETWORKS", "build"]

NETWORKS: dict[str, Callable[[int, int], Network]] = {
    "lenet5": lenet5,
    "small_cifar": small_cifar,
    "vgg16": vgg16,
    **{f"resnet{depth}": resnet_cifar(depth) for depth in (20, 32, 44, 56, 110)},
    **{f"resnet{depth}": resnet_imagenet(depth) for depth in (50, 152, 200)},
    "densenet40": densenet_cifar(40),
    "densenet100": densenet_cifar(100),
    "densenet100_bc": densenet_cifar(100, bc=True),
    "wideresnet40_4": wideresnet40_4,
}


def build(name: str, n_classes: int, in_channels: int = 3, *, seed: int = 0) -> Network:
    """Build an untrained network of `NETWORKS`, its weights drawn from ``seed``.

    Parameters
    ----------
    name
        For images up to 32 x 32 ``"lenet5"``; for 32 x 32 ``"small_cifar"``, ``"vgg16"``,
        ``"resnet20"``, ``"resnet32"``, ``"resnet44"``, ``"resnet56"``, ``"resnet110"``,
        ``"densenet40"``, ``"densenet100"``, ``"densenet100_bc"``, ``"wideresnet40_4"``; for
        224 x 224 ``"resnet50"``, ``"resnet152"``, ``"resnet200"``.
    n_classes
        Number K of classes.
    in_channels
        1 for grey images, 3 for colour.
    seed
        Of the initial weights; torch's own random state is left alone.

    Examples
    --------
    >>> from temperance_lab import networks
    >>> networks.build("lenet5", n_classes=10, in_channels=1).head
    Linear(in_features=84, out_features=10, bias=True)
    """
    construct = NETWORKS[check_choice(name, NETWORKS, "name")]
    n_classes = check_integer(n_classes, "n_classes", low=2)
    in_channels = check_integer(in_channels, "in_channels", low=1)
    with seeded(check_integer(seed, "seed")):
        return construct(n_classes, in_channels)
