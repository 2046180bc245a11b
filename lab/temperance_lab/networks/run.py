"""The state of a training run between two epochs.

All randomness of an epoch (order, augmentation, dropout) is drawn from a state made of the seed
and the epoch's number, and the learning rate is a function of the step: weights and optimiser
moments at the end of an epoch are therefore the whole state of a run.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from temperance import InputError
from temperance_lab.networks.checkpoints import Checkpoint
from temperance_lab.networks.images import as_batch, augment, channel_moments
from temperance_lab.progress import tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network
    from temperance_lab.networks.recipes import Recipe

__all__ = ["Epoch", "LabelledImages", "Run", "seeded"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean training loss and accuracy during one epoch."""

    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """uint8 images ``(n, H, W, C)`` and their class numbers, int64."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]

    def digest(self) -> str:
        """Fingerprint, so that a run goes on with the data it began with."""
        digest = hashlib.sha256(self.y.tobytes())
        for i in range(0, len(self.x), 1_000):
            digest.update(np.ascontiguousarray(self.x[i : i + 1_000]).tobytes())
        return digest.hexdigest()


@contextmanager
def seeded(*seed: int) -> Iterator[None]:
    """Give torch a random state made of ``seed``, and give the caller's back afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]))
        yield


@contextmanager
def single_thread() -> Iterator[None]:
    """Let torch use one thread, so that sums have one order and weights repeat to the bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Run:
    """A network, its optimiser and its history: made anew, or taken up from a checkpoint."""

    def __init__(
        self,
        network: Network,
        data: LabelledImages,
        recipe: Recipe,
        seed: int,
        penalty: Callable[[nn.Module], Tensor] | None,
    ) -> None:
        self.network, self.data, self.recipe, self.seed = network, data, recipe, seed
        self.penalty = penalty
        self.history: list[Epoch] = []
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        network.standardise(*channel_moments(data.x))
        for module in network.body.modules():
            if isinstance(module, nn.Dropout):
                module.p = recipe.dropout
        self.optimizer = _optimizer(network, recipe)
        self.identity = {
            "recipe": recipe.facts(),
            "seed": seed,
            "data": data.digest(),
        }

    @property
    def finished(self) -> bool:
        """Whether all epochs are done."""
        return len(self.history) >= self.recipe.epochs

    def epoch(self) -> Epoch:
        """Pass once over the data in random order."""
        device = next(self.network.parameters()).device
        n, size, done = len(self.data.x), self.recipe.batch_size, len(self.history)
        targets = torch.from_numpy(self.data.y).to(device)
        total = torch.zeros(2, dtype=torch.float64, device=device)
        self.network.train()
        with seeded(self.seed, done):
            order = torch.randperm(n)
            for i in tracked(range(0, n, size), f"batches of epoch {done + 1}"):
                rows = order[i : i + size]
                x = augment(as_batch(self.data.x[rows.numpy()], device), self.recipe)
                rate = self.recipe.rate((done + i / n) / self.recipe.epochs)
                total += self.step(x, targets[rows.to(device)], rate)
        loss, correct = (total / n).tolist()
        if not math.isfinite(loss):
            msg = f"recipe must converge. The loss of epoch {done} is {loss}; lower learning_rate."
            raise InputError(msg)
        return Epoch(loss, correct)

    def step(self, x: Tensor, y: Tensor, rate: float) -> Tensor:
        """Step down the gradient; return the summed loss and the number of right predictions."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        logits = self.network(x)
        loss = functional.cross_entropy(logits, y)
        if self.penalty is not None:
            loss = loss + self.penalty(self.network)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return torch.stack([loss.detach() * len(y), (logits.argmax(1) == y).sum()])

    def state(self) -> Checkpoint:
        """Return the run as a checkpoint; a finished run needs its weights alone."""
        facts = {**self.identity, "history": [asdict(e) for e in self.history]}
        weights = dict(self.network.state_dict())
        if self.finished:
            return Checkpoint(facts, weights)
        moments = {
            i: {name: t for name, t in state.items() if t is not None}
            for i, state in self.optimizer.state_dict()["state"].items()
        }
        return Checkpoint(facts, weights, moments)

    def resume(self, checkpoint: Checkpoint, path: Path) -> None:
        """Take over the state of an earlier run of the same recipe, seed and data."""
        for name, value in self.identity.items():
            if checkpoint.facts.get(name) != value:
                msg = (
                    f"checkpoint must belong to this run. {path} has another {name}: "
                    f"{checkpoint.facts.get(name)}, not {value}; delete it or name another file."
                )
                raise InputError(msg)
        self.history = [Epoch(**epoch) for epoch in checkpoint.facts["history"]]
        self.network.load_state_dict(checkpoint.network)
        moments = {**self.optimizer.state_dict(), "state": checkpoint.optimizer}
        self.optimizer.load_state_dict(moments)


def _optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    weights, rate, decay = network.parameters(), recipe.learning_rate, recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(weights, rate, weight_decay=decay)
    nesterov = recipe.optimizer == "nesterov"
    return torch.optim.SGD(weights, rate, momentum=0.9, weight_decay=decay, nesterov=nesterov)
