"""Where logits come from: files of logits, or networks trained here on images shifted here.

Trained networks and their predictions are kept in a directory, under names that hold the sha256 of
the weights, so that a second run goes straight to the methods.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from temperance import InputError
from temperance_lab.reproduce.networks import N_MEMBERS, TASKS, Task, digest, split, trained
from temperance_lab.reproduce.record import SHA_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from temperance_lab.datasets import Dataset

__all__ = ["ExperimentData", "Logits", "Shift"]

SAMPLES = 10  # of random weights or masks: as many as an ensemble has members
MEMBERS = tuple(f"member_{m:02d}" for m in range(N_MEMBERS))


@dataclass(frozen=True, slots=True)
class Logits:
    """Logits and labels of a test set, its class prior, and where they come from."""

    z: NDArray[np.float64]
    y: NDArray[np.int64]
    prior: NDArray[np.float64]
    data: str
    weights: str | None = None


class Shift(NamedTuple):
    """A shift of images and its degree: degrees, pixels, or a severity; 0 is none."""

    name: str
    degree: int

    def apply(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the shifted images."""
        from temperance_lab import shifts

        if self.degree == 0:
            return images
        if self.name == "rotation":
            return shifts.rotate(images, self.degree)
        if self.name == "rolling":
            return shifts.roll(images, self.degree)
        return shifts.corrupt(images, self.name, self.degree)


@dataclass
class ExperimentData:
    """Everything an experiment reads: ``directory`` holds files, ``cache`` earlier results.

    ``quick`` replaces every data set by five thousand digits that come with a Python package, and
    twenty draws by five.
    """

    cache: Path
    directory: Path | None = None
    quick: bool = False
    _datasets: dict[str, Dataset] = field(default_factory=dict, repr=False)

    @property
    def n_draws(self) -> int:
        """Twenty, in the paper."""
        return 5 if self.quick else 20

    def task(self, name: str) -> Task:
        """Return a task, or the small one in its place."""
        return TASKS["mnist-5k" if self.quick else name]

    def has(self, name: str) -> bool:
        """Return whether a file of logits is there."""
        return self.directory is not None and (self.directory / "logits" / name).is_file()

    def file(self, name: str, prefix: str = "", *, balanced: bool = True) -> Logits:
        """Return logits of a file, whose classes are as frequent by design, or as in the file."""
        if self.directory is None or not self.has(name):
            raise InputError(
                f"data must be a directory that holds logits/{name}. Got {self.directory}."
            )
        return _read(self.directory / "logits" / name, prefix, balanced=balanced)

    def shipped(self) -> Logits:
        """Return the logits of digits that come with this package."""
        shipped = files("temperance.cli") / "demo_data" / "mnist_source.npz"
        with as_file(shipped) as path:
            return _read(path, "", balanced=False)

    def source(self, task: Task, kind: str) -> Logits:
        """Return logits of the validation images, which no network was trained on."""
        return self._predicted(task, kind, Shift("validation", 0))

    def shifted(self, task: Task, kind: str, shift: Shift) -> Logits:
        """Return logits of the shifted test images."""
        return self._predicted(task, kind, shift if shift.degree else Shift("none", 0))

    def _predicted(self, task: Task, kind: str, shift: Shift) -> Logits:
        names = MEMBERS if kind == "ensemble" else (kind,)
        predict = self._predictor(task, kind, names)
        hashes = [digest(task, name, self.cache / "networks") for name in names]
        weights = hashes[0] if len(hashes) == 1 else _sha256("".join(hashes).encode())
        folder = self.cache / "logits" / f"{task.name}_{kind}_{weights[:12]}"
        path = folder / f"{shift.name}_{shift.degree}.npz"
        if not path.exists():
            data = self._dataset(task)
            if shift.name == "validation":
                _, held = split(task, len(data.x_train))
                x, y = data.x_train[held], data.y_train[held]
            else:
                x, y = shift.apply(data.x_test[: task.test]), data.y_test[: task.test]
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial.npz")
            counts = np.bincount(data.y_train)
            np.savez(partial, logits=predict()(x), labels=y, prior=counts / counts.sum())
            partial.replace(path)
        with np.load(path) as held:
            z, y, prior = held["logits"], held["labels"], held["prior"]
        return Logits(
            z.astype(np.float64), y.astype(np.int64), prior, _sha256(z, y), weights[:SHA_DIGITS]
        )

    def _predictor(
        self, task: Task, kind: str, names: tuple[str, ...]
    ) -> Callable[[], Callable[[NDArray[np.uint8]], NDArray[np.floating]]]:
        """Train what is missing; the networks are loaded when they are needed."""
        folder = self.cache / "networks"
        missing = [n for n in names if not (folder / f"{task.name}_{n}.safetensors").exists()]
        for name in missing:
            trained(task, name, self._dataset(task), folder)

        def load() -> Callable[[NDArray[np.uint8]], NDArray[np.floating]]:
            from temperance_lab import networks

            loaded = [trained(task, name, self._dataset(task), folder) for name in names]
            if kind == "ensemble":
                return lambda x: networks.predict_ensemble(loaded, x)
            if kind == "ll_dropout":
                return lambda x: networks.predict_ll_dropout(loaded[0], x, SAMPLES)
            if kind == "svi":
                return lambda x: networks.predict_svi(loaded[0], x, SAMPLES)
            return lambda x: networks.predict_logits(loaded[0], x)

        return load

    def _dataset(self, task: Task) -> Dataset:
        from temperance_lab import datasets

        if task.data not in self._datasets:
            self._datasets[task.data] = datasets.load(task.data, self.directory)
        return self._datasets[task.data]


def _read(path: Path, prefix: str, *, balanced: bool) -> Logits:
    with np.load(path, allow_pickle=False) as file:
        # Where only a softmax was published, its logarithm serves: a temperature, a vector or a
        # matrix acts on it as on the logits, which differ by one number a row.
        key = f"{prefix}logits" if f"{prefix}logits" in file else f"{prefix}log_probabilities"
        z, y = file[key], file[f"{prefix}labels"].astype(np.int64)
    k = z.shape[1]
    prior = np.full(k, 1 / k) if balanced else np.bincount(y, minlength=k) / len(y)
    return Logits(z.astype(np.float64), y, prior, _sha256(z, y))


def _sha256(*parts: NDArray[np.generic] | bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return total.hexdigest()[:SHA_DIGITS]
