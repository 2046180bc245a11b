"""The suite: a labelled source, an unlabelled target, and other target rows to be judged on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Logits = NDArray[np.float64]
    Labels = NDArray[np.int64]

ROWS = 4_000  # at most, of the source and of the target
LESIONS = Path(__file__).parent.parent / "skin_lesion" / "logits"
ASKED = ("mnist_lenet5", "cifar_small", "skin_lesions", "svhn_to_mnist")
EXTRA = ("mnist_lenet5_dropout", "fashion_lenet5", "cifar_resnet20")
FAMILIES = ASKED + EXTRA


@dataclass(frozen=True, slots=True)
class Scenario:
    """One shift: what a method may see, and the rows that judge it.

    ``labels`` of the target rows are seen by TS-Target alone; ``held_out`` rows by no method.
    """

    family: str
    shift: str
    source: tuple[Logits, Labels]
    target: Logits
    labels: Labels
    held_out: tuple[Logits, Labels]
    prior: NDArray[np.float64]


def load(family: str, cache: Path, data_dir: Path, nets: Path | None) -> tuple[list[Scenario], str]:
    """Return the scenarios of a family and the sha256 of their arrays."""
    digest = hashlib.sha256()
    scenarios = []
    for scenario in _scenarios(family, cache, data_dir, nets):
        for array in (*scenario.source, scenario.target, scenario.labels, *scenario.held_out):
            digest.update(np.ascontiguousarray(array).tobytes())
        scenarios.append(scenario)
    return scenarios, digest.hexdigest()


def _scenarios(family: str, cache: Path, data_dir: Path, nets: Path | None) -> Iterator[Scenario]:
    if family == "skin_lesions":
        for path in sorted(LESIONS.glob("ham_*.npz")):
            with np.load(path) as data:
                yield _natural(family, path.stem.removeprefix("ham_"), data, data["target_groups"])
    elif family == "svhn_to_mnist":
        with np.load(data_dir / "logits" / "svhn_to_mnist.npz") as data:
            yield _natural(family, "mnist", data, np.arange(len(data["target_labels"])))
    else:
        path = cache / f"{family}.npz"
        if not path.exists():
            suite.build(family, path, data_dir, nets)
        yield from read(family, path)


def read(family: str, path: Path) -> Iterator[Scenario]:
    """Yield the scenarios of one file of logits."""
    with np.load(path) as data:
        y = data["labels"].astype(np.int64)
        halves = _halves(np.arange(len(y)))
        source = data["s_logits"].astype(np.float64), data["s_labels"].astype(np.int64)
        for key in data.files:
            if key.startswith("t_"):
                yield _divided(family, key.removeprefix("t_"), source, data[key], y, halves)


def _natural(family: str, shift: str, data: dict[str, NDArray], groups: NDArray) -> Scenario:
    order = np.random.default_rng(2).permutation(len(data["source_labels"]))
    source = (
        data["source_logits"][order].astype(np.float64),
        data["source_labels"][order].astype(np.int64),
    )
    y = data["target_labels"].astype(np.int64)
    return _divided(family, shift, source, data["target_logits"], y, _halves(groups))


def _halves(groups: NDArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers of two halves that share no group (a lesion, where rows have one)."""
    names = np.unique(groups)
    names = names[np.random.default_rng(1).permutation(len(names))]
    first = np.isin(groups, names[: len(names) // 2])
    return np.flatnonzero(first), np.flatnonzero(~first)


def _divided(
    family: str,
    shift: str,
    source: tuple[Logits, Labels],
    z: NDArray,
    y: Labels,
    halves: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> Scenario:
    here, there = (half[:ROWS] for half in halves)
    z = z.astype(np.float64)
    return Scenario(
        family=family,
        shift=shift,
        source=(source[0][:ROWS], source[1][:ROWS]),
        target=z[here],
        labels=y[here],
        held_out=(z[there], y[there]),
        prior=np.bincount(y, minlength=z.shape[1]) / len(y),
    )
