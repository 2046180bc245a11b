"""Where logits come from: files of logits, or networks trained here on images shifted here.

Trained networks and their predictions are kept in a directory, under names that hold the sha256 of
the weights, so that a second run goes straight to the methods.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from temperance import InputError
from temperance_lab.reproduce.networks import (
    LAST_LAYER,
    MEMBERS,
    TASKS,
    Task,
    digest,
    split,
    trained,
)
from temperance_lab.reproduce.protocol import Logits, draw_shifted
from temperance_lab.reproduce.record import SHA_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from temperance_lab.datasets import Dataset
    from temperance_lab.networks import Network
    from temperance_lab.networks.last_layer import Sampled
    from temperance_lab.reproduce.protocol import Draw

    Images = tuple[NDArray[np.uint8], NDArray[np.generic]]

__all__ = ["NO_SHIFT", "ExperimentData", "Shift", "mixed", "pooled"]

SAMPLES = 10  # of random weights or masks: as many as an ensemble has members


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


NO_SHIFT = Shift("none", 0)


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
    _weights: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _images: tuple[tuple[str, Shift], NDArray[np.uint8]] | None = field(default=None, repr=False)

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

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of the plain networks whose spread the figures show: five training runs."""
        return MEMBERS[: 2 if self.quick else 5]

    def source(self, task: Task, kind: str) -> Logits:
        """Return logits of the validation images, which no network was trained on."""

        def held_back() -> Images:
            data = self.dataset(task)
            _, held = split(task, len(data.x_train))
            return data.x_train[held], data.y_train[held]

        return self.predicted(task, kind, "validation", held_back)

    def shifted(self, task: Task, kind: str, shift: Shift) -> Logits:
        """Return logits of the shifted test images."""
        shift = shift if shift.degree else NO_SHIFT
        labels = self.dataset(task).y_test[: task.test]
        return self.predicted(
            task,
            kind,
            f"{shift.name}_{shift.degree}",
            lambda: (self.test_images(task, shift), labels),
        )

    def draws(
        self, task: Task, kinds: Iterable[str], shift: Shift, n: int | None = None
    ) -> tuple[list[Draw], dict[str, Any]]:
        """Return a function to draw for each network, and what all their records say."""
        pairs = [(self.source(task, kind), self.shifted(task, kind, shift)) for kind in kinds]
        draws = [draw_shifted(source, target, n=n) for source, target in pairs]
        return draws, task.fields(pooled([target for _, target in pairs]))

    def test_images(self, task: Task, shift: Shift) -> NDArray[np.uint8]:
        """Return the shifted test images; those of the last shift are kept for the next network."""
        if self._images is None or self._images[0] != (task.name, shift):
            images = self.dataset(task).x_test[: task.test]
            self._images = (task.name, shift), shift.apply(images)
        return self._images[1]

    def predicted(self, task: Task, kind: str, name: str, images: Callable[[], Images]) -> Logits:
        """Return logits of labelled images, which are made only if no earlier run kept them."""
        if kind == "ensemble":
            return mixed([self.predicted(task, member, name, images) for member in MEMBERS])
        weights = self.weights(task, kind)
        path = self.cache / "logits" / f"{task.name}_{kind}_{weights}" / f"{name}.npz"
        if not path.exists():
            from temperance_lab.networks.run import single_thread

            with single_thread():
                x, y = images()  # an attack computes gradients
                _save(path, logits=self._predict(task, kind, x), labels=y)
        with np.load(path) as held:
            z, y = held["logits"], held["labels"].astype(np.int64)
        return Logits(z.astype(np.float64), y, self.prior(task), _sha256(z, y), weights)

    def _predict(self, task: Task, kind: str, x: NDArray[np.uint8]) -> NDArray[np.floating]:
        from temperance_lab import networks

        network = self.network(task, kind)
        if kind == "ll_dropout":
            return networks.predict_ll_dropout(network, x, SAMPLES)
        if kind == "svi":
            return networks.predict_svi(network, x, SAMPLES)
        if kind in LAST_LAYER:
            return networks.predict_last_layer(network, self.last_layers(task, kind).heads, x)
        return networks.predict_logits(network, x)

    def network(self, task: Task, kind: str) -> Network:
        """Return a network, trained now if that was not done before."""
        kind = MEMBERS[0] if kind in LAST_LAYER else kind
        return trained(task, kind, self.dataset(task), self.cache / "networks")

    def last_layers(self, task: Task, kind: str) -> Sampled:
        """Return random last layers of the first network, drawn once, and how the chains moved."""
        from temperance_lab.networks.last_layer import Sampled, sample_last_layer

        path = self.cache / "networks" / f"{task.name}_{kind}_{self.weights(task, kind)}.npz"
        if not path.exists():
            data = self.dataset(task)
            rows, _ = split(task, len(data.x_train))
            x, y = data.x_train[rows], data.y_train[rows]
            network = self.network(task, kind)
            _save(path, **sample_last_layer(network, x, y, kind, n_samples=SAMPLES)._asdict())
        with np.load(path) as held:
            return Sampled(held["heads"], float(held["accepted"]), float(held["r_hat"]))

    def training(self, task: Task, kind: str) -> str:
        """Return in words how a network of a kind is trained, and whether its chains moved."""
        told = task.training(kind)
        if kind != "hmc":
            return told
        found = self.last_layers(task, kind)
        share = f"{100 * found.accepted:.0f} % of trajectories accepted"
        return f"{told}, {share}, R-hat {found.r_hat:.2f}"

    def weights(self, task: Task, kind: str) -> str:
        """Return the first digits of the sha256 of a finished network's weights."""
        kind = MEMBERS[0] if kind in LAST_LAYER else kind
        if (task.name, kind) not in self._weights:
            self.network(task, kind)
            sha256 = digest(task, kind, self.cache / "networks")
            self._weights[task.name, kind] = sha256[:SHA_DIGITS]
        return self._weights[task.name, kind]

    def prior(self, task: Task) -> NDArray[np.float64]:
        """Return the class mix of the training set."""
        counts = np.bincount(self.dataset(task).y_train)
        return counts / counts.sum()

    def dataset(self, task: Task) -> Dataset:
        """Return the images of a task, read once."""
        from temperance_lab import datasets

        if task.data not in self._datasets:
            self._datasets[task.data] = datasets.load(task.data, self.directory)
        return self._datasets[task.data]


def mixed(members: Sequence[Logits]) -> Logits:
    """Return the logarithm of the members' mean probability, a deep ensemble's prediction."""
    log_p = logsumexp([log_softmax(m.z, axis=1) for m in members], axis=0) - np.log(len(members))
    return replace(pooled(members), z=log_p)


def pooled(several: Sequence[Logits]) -> Logits:
    """Return the first of several networks' logits, with hashes of them all."""
    if len(several) == 1:
        return several[0]
    return replace(
        several[0],
        data=_sha256(*(one.data.encode() for one in several)),
        weights=_sha256(*(str(one.weights).encode() for one in several)),
    )


def _save(path: Path, **arrays: ArrayLike) -> None:
    """Write arrays, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)
    partial.replace(path)


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
