r"""Deep ensembles: Lakshminarayanan, Pritzel & Blundell, NeurIPS 2017.

M networks are trained on the same data from different initial weights and in different orders;
the prediction is the mean of their probabilities,
:math:`\hat p(y \mid x) = \frac1M \sum_m \mathrm{softmax}(z_m)_y`.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from temperance import InputError
from temperance_lab.checks import check_integer
from temperance_lab.networks.checkpoints import read
from temperance_lab.networks.images import check_images
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.predictive import predictive_log_probabilities
from temperance_lab.networks.registry import build
from temperance_lab.networks.training import train

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network
    from temperance_lab.networks.recipes import Recipe

__all__ = ["predict_ensemble", "train_ensemble"]


@dataclass(frozen=True)
class _Member:
    """All that another process needs to train one network."""

    name: str
    n_classes: int
    images: ArrayLike
    labels: ArrayLike
    recipe: Recipe | str
    seed: int
    checkpoint: Path

    def train(self) -> Network:
        network = build(
            self.name, self.n_classes, check_images(self.images).shape[3], seed=self.seed
        )
        run = {"seed": self.seed, "checkpoint": self.checkpoint}
        train(network, self.images, self.labels, self.recipe, **run)
        return network

    def train_in_worker(self) -> None:
        torch.set_num_threads(1)  # the members share the cores, one each
        self.train()

    @property
    def finished(self) -> bool:
        return self.checkpoint.exists() and read(self.checkpoint).finished


def train_ensemble(
    name: str,
    images: ArrayLike,
    labels: ArrayLike,
    recipe: Recipe | str,
    directory: str | os.PathLike[str],
    *,
    n_classes: int,
    n_members: int = 10,
    seed: int = 0,
    n_jobs: int | None = None,
) -> list[Network]:
    """Train the members in parallel processes, one core each, and return them.

    A member is a checkpoint in ``directory``: one that is finished there is not trained again, one
    that was interrupted goes on, and more members may be asked for later. New processes import the
    calling script, which must therefore keep its work behind ``if __name__ == "__main__"``;
    ``n_jobs=1`` starts none.

    Parameters
    ----------
    name, n_classes
        As for `temperance_lab.networks.build`.
    images, labels, recipe
        As for `temperance_lab.networks.train`.
    directory
        Where the members are kept.
    n_members
        Ten, in the paper.
    seed
        Of the ensemble: member m has the m-th seed drawn from it.
    n_jobs
        Processes; as many as there are cores when not given.
    """
    seeds = np.random.SeedSequence(check_integer(seed, "seed")).generate_state(
        check_integer(n_members, "n_members", low=1)
    )
    members = [
        _Member(
            name=name,
            n_classes=n_classes,
            images=images,
            labels=labels,
            recipe=recipe,
            seed=int(member_seed),
            checkpoint=Path(directory) / f"member_{m:02d}.safetensors",
        )
        for m, member_seed in enumerate(seeds)
    ]
    n_jobs = _n_cores() if n_jobs is None else check_integer(n_jobs, "n_jobs", low=1)
    missing = [member for member in members if not member.finished]
    if n_jobs > 1 and len(missing) > 1:
        # Spawned, not forked: a fork would copy torch's thread pool in whatever state it is.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(n_jobs, len(missing)), mp_context=spawn) as pool:
            list(pool.map(_Member.train_in_worker, missing))
    return [member.train() for member in members]  # finished members are loaded, and checked


def _n_cores() -> int:
    """Cores this process may use, where the system tells; all of them elsewhere."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def predict_ensemble(networks: Sequence[Network], images: ArrayLike) -> NDArray[np.float64]:
    """Predictive log-probabilities ``(n, K)``: the log of the members' mean probability.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> members = [networks.build("lenet5", n_classes=10, in_channels=1, seed=m) for m in range(3)]
    >>> networks.predict_ensemble(members, np.zeros((2, 28, 28), dtype=np.uint8)).shape
    (2, 10)
    """
    if not networks:
        msg = "networks must hold at least one network. Got an empty sequence instead."
        raise InputError(msg)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        return (network(batch) for network in networks)

    with ExitStack() as modes:
        for network in networks:
            modes.enter_context(evaluating(network))
        return predictive_log_probabilities(samples, images, networks[0].mean.device)
