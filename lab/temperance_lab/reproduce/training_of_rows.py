"""Train the network of a row whose logits nobody has published, by its recipe, and keep its logits.

It takes hours of a GPU (the records of the row say how many operations), and is used where torch
finds one. An interrupted run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.checks import check_choice
from temperance_lab.reproduce.paper_rows import ROWS

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TRAINED", "train_row"]

TRAINED = {  # network and recipe
    "SVHN-DenseNet100": ("densenet100", "densenet-svhn"),
    "CIFAR100-WideResNet40-4": ("wideresnet40_4", "wideresnet-cifar"),
}


def train_row(group: str, directory: Path) -> Path:
    """Train the network of a row on the images in a directory; return the file of its logits."""
    import torch

    from temperance_lab import datasets, networks

    name, recipe = TRAINED[check_choice(group, TRAINED, "row")]
    row = next(row for row in ROWS if row.group == group)
    data = datasets.load(row.dataset.lower(), directory)
    path = directory / "logits" / row.file
    path.parent.mkdir(exist_ok=True)
    network = networks.build(name, row.classes)
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint = path.with_suffix(".safetensors")
    networks.train(network, data.x_train, data.y_train, recipe, checkpoint=checkpoint)
    logits = networks.predict_logits(network, data.x_test)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, logits=logits, labels=data.y_test)
    partial.replace(path)
    return path
