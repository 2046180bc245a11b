"""The configuration of the paper's supplement: a ResNet-200 on ISIC at 224 px, for a GPU.

ImageNet weights, pictures normalised with ImageNet's moments, Adam at 1e-4 that decays by 0.95
every 10 epochs, 100 epochs, batches of 32, flips and rotations up to 12.5 degrees with probability
one half, 60/40 stratified. One departure: the split is by lesion, so that none is on both sides.
Recipe, augmentation and loop are the library's (`temperance_lab.networks`), tested here for one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import nn

from temperance import InputError
from temperance_lab import networks
from temperance_skin_lesion.classes import CODES

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

__all__ = ["RECIPE", "SIDE", "ImageNetScaled", "build", "load_body"]

SIDE = 224
RECIPE = "resnet200-isic"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetScaled(networks.Network):
    """A network that stays with ImageNet's channel moments, whatever it is trained on."""

    def __init__(self, network: networks.Network) -> None:
        super().__init__(network.body, network.head, in_channels=len(MEAN))
        super().standardise(*(torch.tensor(m).reshape(-1, 1, 1) for m in (MEAN, STD)))

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        """Ignore the moments of the training set, as the supplement does."""


def build(weights: Path | None = None, seed: int = 0) -> ImageNetScaled:
    """Build the ResNet-200 with a new head for the seven classes, on ImageNet weights if given."""
    network = networks.build("resnet200", len(CODES), seed=seed)
    if weights is not None:
        load_body(network.body, weights)
    return ImageNetScaled(network)


def load_body(body: nn.Module, path: Path) -> None:
    """Put ImageNet weights into everything but the head.

    A ``.safetensors`` file must use the names of ``body``. Any other is read as a state dictionary
    of torch (weights only), whose tensors may be named otherwise: they are taken in order, each
    must have the right shape, and those left over at the end are the head that is not used.
    """
    wanted = {
        name: tensor
        for name, tensor in body.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    if path.suffix == ".safetensors":
        found = load_file(path)
        given = {name: found[name] for name in wanted if name in found}
    else:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        ordered = [t for name, t in tensors.items() if not name.endswith("num_batches_tracked")]
        given = dict(zip(wanted, ordered, strict=False))
    for name, tensor in wanted.items():
        shape = tuple(given[name].shape) if name in given else None
        if shape != tuple(tensor.shape):
            raise InputError(
                f"weights must hold a ResNet-200 of this architecture. {path} has shape {shape} "
                f"where {name} needs {tuple(tensor.shape)}."
            )
    body.load_state_dict(given, strict=False)
