"""Train the supplement's ResNet-200 on HAM10000 at 224 px; needs a GPU and the full-size images.

    python lab/experiments/skin_lesion/supplement.py OUT --weights resnet200.pth [--device cuda]

reads the data set under TEMPERANCE_DATA (see `temperance_lab.datasets.load`), trains by the
supplement's recipe with a checkpoint after every epoch, and writes OUT/isic_resnet200.npz: logits,
labels and lesions of the validation fifth and of the rest of the test part.
A run that was stopped goes on.

The recipe: ImageNet weights, pictures normalised with ImageNet's moments, Adam at 1e-4 that decays
by 0.95 every 10 epochs, 100 epochs, batches of 32, flips and rotations up to 12.5 degrees with
probability one half, 60/40 stratified. One departure: the split is by lesion, so that no lesion is
on both sides.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file
from sklearn.model_selection import GroupShuffleSplit
from torch import nn

from temperance import InputError
from temperance_lab import datasets, networks
from temperance_skin_lesion.classes import CODES

if TYPE_CHECKING:
    from torch import Tensor

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


def main() -> None:
    """Run the training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="ImageNet weights")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = datasets.load("ham10000", size=SIDE)
    network = build(arguments.weights).to(arguments.device)
    checkpoint = arguments.out / "isic_resnet200.safetensors"
    networks.train(network, data.x_train, data.y_train, RECIPE, checkpoint=checkpoint)
    logits = networks.predict_logits(network, data.x_test, batch_size=64)
    lesions = data.groups["lesion_id"].test
    # The supplement validates on a fifth of the test part.
    parts = GroupShuffleSplit(1, test_size=0.2, random_state=0).split(logits, groups=lesions)
    test, validation = next(parts)
    arrays = {}
    for name, rows in (("source", validation), ("target", test)):
        arrays |= {
            f"{name}_logits": logits[rows],
            f"{name}_labels": data.y_test[rows],
            f"{name}_groups": lesions[rows],
        }
    np.savez(arguments.out / "isic_resnet200.npz", classes=np.array(data.classes), **arrays)


if __name__ == "__main__":
    main()
