"""Checkpoints of a training run: one safetensors file, replaced atomically, never a pickle.

Tensors are named ``network.*`` and ``optimizer.<parameter>.<moment>``; the header holds JSON facts.
A finished run keeps ``network.*``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from temperance import InputError

if TYPE_CHECKING:
    import os

    from torch import Tensor, nn

__all__ = ["Checkpoint", "load_weights", "read", "write"]


@dataclass
class Checkpoint:
    """What is needed to go on with a run, or to use its result."""

    facts: dict[str, Any]
    network: dict[str, Tensor]
    optimizer: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: then, and only then, no moments are kept."""
        return not self.optimizer


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Store a checkpoint; a crash while writing leaves the previous one intact."""
    tensors = {f"network.{name}": t for name, t in checkpoint.network.items()}
    for i, moments in checkpoint.optimizer.items():
        tensors |= {f"optimizer.{i}.{name}": t for name, t in moments.items()}
    header = {name: json.dumps(fact) for name, fact in checkpoint.facts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(save({name: t.contiguous() for name, t in tensors.items()}, header))
    partial.replace(path)


def read(path: Path) -> Checkpoint:
    """Read a checkpoint back."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = {name: json.loads(fact) for name, fact in (file.metadata() or {}).items()}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, FileNotFoundError) as error:
        msg = f"checkpoint must be a safetensors file of a training run. {path}: {error}."
        raise InputError(msg) from error
    checkpoint = Checkpoint(facts, network={})
    for name, tensor in tensors.items():
        part, rest = name.split(".", 1)
        if part == "network":
            checkpoint.network[rest] = tensor
        else:
            index, moment = rest.split(".", 1)
            checkpoint.optimizer.setdefault(int(index), {})[moment] = tensor
    return checkpoint


def load_weights(network: nn.Module, path: str | os.PathLike[str]) -> nn.Module:
    """Put the weights of a run into ``network`` and switch it to evaluation.

    Examples
    --------
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> networks.load_weights(network, "lenet5.safetensors")  # doctest: +SKIP
    """
    network.load_state_dict(read(Path(path)).network)
    return network.eval()
