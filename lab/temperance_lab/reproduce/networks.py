"""Networks that the experiments train, each once: kept in a directory, and loaded from there.

On the training images without a validation part, which is the labelled source of the methods that
need one. Three kinds beside the plain network: the members of a deep ensemble, last-layer dropout,
and variational weights. A finished file is not trained again; an interrupted run goes on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from temperance_lab.datasets import Dataset
    from temperance_lab.networks import Network, Recipe
    from temperance_lab.reproduce.experiment_data import Logits

__all__ = ["KINDS", "TASKS", "Task", "digest", "split", "trained"]

N_MEMBERS = 10
KINDS = ("network", "ll_dropout", "svi", *(f"member_{m:02d}" for m in range(N_MEMBERS)))


@dataclass(frozen=True, slots=True)
class Task:
    """A network on a data set, and how long the plain one and those to be compared are trained.

    ``validation`` training images are held back, and the first ``test`` test images used.
    ``kl_weight`` of the variational network is 1 in the evidence lower bound; below it the
    posterior is cold (Wenzel et al., ICML 2020), without which 465 thousand random weights learn
    nothing from ten thousand images.
    """

    name: str
    network: str
    data: str
    channels: int
    recipe: str
    validation: int
    test: int
    compared_epochs: int
    kl_weight: float

    def fields(self, logits: Logits) -> dict[str, Any]:
        """Return what all records of a network trained here say."""
        return {
            "dataset": self.name,
            "model": self.network,
            "evidence": "other weights" if self.name == "mnist" else "nearest",
            "data": logits.data,
            "weights": logits.weights,
        }

    def recipe_of(self, kind: str) -> Recipe:
        """Recipe of one kind: Adam for variational weights; fewer epochs for all but the plain."""
        from temperance_lab.networks import RECIPES

        recipe = RECIPES[self.recipe]
        if kind == "network":
            return recipe
        if kind == "svi":
            recipe = replace(recipe, optimizer="adam", learning_rate=2e-3, weight_decay=0.0)
        return replace(recipe, epochs=self.compared_epochs)


TASKS = {
    "mnist": Task("mnist", "lenet5", "mnist", 1, "lenet5-mnist", 5000, 10_000, 5, 1.0),
    "cifar10": Task(
        "cifar10", "small_cifar", "cifar10", 3, "small_cifar-cifar10", 2000, 4000, 10, 0.01
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
    if kind == "ll_dropout":
        networks.add_last_layer_dropout(network)
    if kind == "svi":
        networks.to_flipout(network)
    path = path_of(task, kind, directory)
    if path.exists() and read(path).finished:
        networks.load_weights(network, path)
        return network
    learned, _ = split(task, len(data.x_train))
    penalty = None
    if kind == "svi":
        scale = task.kl_weight / len(learned)
        penalty = lambda module: scale * networks.kl_divergence(module)  # noqa: E731
    networks.train(
        network,
        data.x_train[learned],
        data.y_train[learned],
        task.recipe_of(kind),
        seed=seed,
        checkpoint=path,
        penalty=penalty,
    )
    return network


def path_of(task: Task, kind: str, directory: Path) -> Path:
    """Return where a network is kept."""
    return directory / f"{task.name}_{kind}.safetensors"


def digest(task: Task, kind: str, directory: Path) -> str:
    """Return the sha256 of a network's file."""
    return hashlib.sha256(path_of(task, kind, directory).read_bytes()).hexdigest()
