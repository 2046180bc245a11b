"""Networks that the experiments train, each once: kept in a directory, and loaded from there.

On the training images without a validation part, which is the labelled source of the methods that
need one. Ten plain networks, alike but for the seed, are the members of a deep ensemble, and the
first five of them are the training runs whose spread the figures show. Beside them last-layer
dropout and variational weights. A finished file is not trained again; an interrupted run goes on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from temperance_lab.datasets import Dataset
    from temperance_lab.networks import Network, Recipe
    from temperance_lab.reproduce.protocol import Logits

__all__ = [
    "KINDS",
    "LAST_LAYER",
    "MEMBERS",
    "TASKS",
    "Task",
    "digest",
    "path_of",
    "split",
    "trained",
]

MEMBERS = tuple(f"member_{m:02d}" for m in range(10))
SVI_RATE = 1e-3
KINDS = (*MEMBERS, "ll_dropout", "svi")
LAST_LAYER = ("laplace", "hmc")  # random last layers of the first network


@dataclass(frozen=True, slots=True)
class Task:
    """A network on a data set, and how long it is trained.

    ``validation`` training images are held back, and the first ``test`` test images used. The means
    of the variational network start at the weights of the first plain network, as Krishnan et al.
    (AAAI 2020) start theirs. ``kl_weight`` is 1 in the evidence lower bound; below it the posterior
    is cold (Wenzel et al., ICML 2020), without which 465 thousand random weights learn nothing from
    ten thousand images. ``other_epochs`` are those of last-layer dropout and variational weights
    where they were chosen, on the validation images, so that all are about as accurate, as the
    paper's are.
    """

    name: str
    network: str
    data: str
    channels: int
    recipe: str
    validation: int
    test: int
    epochs: int
    kl_weight: float
    other_epochs: Mapping[str, int] = field(default_factory=dict)

    def epochs_of(self, kind: str) -> int:
        """Return how many epochs a network of a kind is trained."""
        return self.other_epochs.get(kind, self.epochs)

    def fields(self, logits: Logits) -> dict[str, Any]:
        """Return what all records of a network trained here say."""
        return {
            "dataset": self.name,
            "model": self.network,
            "evidence": "other weights" if self.name == "mnist" else "nearest",
            "data": logits.data,
            "weights": logits.weights,
        }

    def training(self, kind: str) -> str:
        """Return in words how a network of a kind is trained."""
        if kind in LAST_LAYER:
            how = "its Laplace approximation" if kind == "laplace" else "Hamiltonian Monte Carlo"
            return f"last layer of the first network, prior of precision 1; {how}"
        epochs = self.epochs_of(kind)
        if kind != "svi":
            return f"networks trained here, {epochs} epochs each"
        return (
            f"Flipout; means start at the first network; prior of the scale of each layer; "
            f"Kullback-Leibler term times {self.kl_weight:g}; Adam, {epochs} epochs, rate "
            f"from {SVI_RATE:g} to 0 along a cosine"
        )

    def recipe_of(self, kind: str) -> Recipe:
        """Recipe of one kind: Adam for variational weights, the task's own for all others."""
        from temperance_lab.networks import RECIPES

        recipe = replace(RECIPES[self.recipe], epochs=self.epochs_of(kind))
        if kind == "svi":
            recipe = replace(recipe, optimizer="adam", learning_rate=SVI_RATE, weight_decay=0.0)
        return recipe


TASKS = {
    "mnist": Task("mnist", "lenet5", "mnist", 1, "lenet5-mnist", 5000, 10_000, 10, 1.0),
    "cifar10": Task(
        "cifar10",
        "small_cifar",
        "cifar10",
        3,
        "small_cifar-cifar10",
        2000,
        4000,
        10,
        0.01,
        # Validation accuracy: 72.7 plain; dropout 64.6 and 75.7 after 10 and 25, SVI 72.8 after 4.
        {"ll_dropout": 18, "svi": 4},
    ),
    "mnist-5k": Task("mnist-5k", "lenet5", "mnist-5k", 1, "lenet5-mnist", 600, 2000, 5, 1.0),
}


def split(task: Task, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers to learn from and to validate on, of ``n`` training images."""
    order = np.random.default_rng(0).permutation(n)
    return np.sort(order[task.validation :]), np.sort(order[: task.validation])


def trained(task: Task, kind: str, data: Dataset, directory: Path) -> Network:
    """Return the network of a kind, trained now if ``directory`` does not hold it finished."""
    from temperance_lab import networks
    from temperance_lab.networks.checkpoints import read

    seed = KINDS.index(kind)
    network = networks.build(task.network, 10, task.channels, seed=seed)
    path, recipe = path_of(task, kind, directory), task.recipe_of(kind)
    held = read(path) if path.exists() else None
    # Another recipe's network is not taken: `train` refuses its file in a sentence.
    finished = held is not None and held.finished and held.facts["recipe"] == recipe.facts()
    if kind == "ll_dropout":
        networks.add_last_layer_dropout(network)
    if kind == "svi":
        if not finished:
            network = trained(task, MEMBERS[0], data, directory)
        networks.to_flipout(network)
    if finished:
        networks.load_weights(network, path)
        return network
    learned, _ = split(task, len(data.x_train))
    images, labels = data.x_train[learned], data.y_train[learned]
    options = {"seed": seed, "checkpoint": path}
    if kind == "svi":
        networks.train_svi(network, images, labels, recipe, kl_weight=task.kl_weight, **options)
    else:
        networks.train(network, images, labels, recipe, **options)
    return network


def path_of(task: Task, kind: str, directory: Path) -> Path:
    """Return where a network is kept."""
    return directory / f"{task.name}_{kind}.safetensors"


def digest(task: Task, kind: str, directory: Path) -> str:
    """Return the sha256 of a network's weights; a file of the same weights may differ in order."""
    from temperance_lab.networks.checkpoints import read

    total = hashlib.sha256()
    for name, tensor in sorted(read(path_of(task, kind, directory)).network.items()):
        total.update(name.encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
