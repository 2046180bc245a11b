"""From nothing but a Python package to calibrated confidence on shifted digits, on two cores.

Trains LeNet-5 and the paper's probabilistic baselines (ll-Dropout, a deep ensemble of ten, SVI with
Flipout) on 2,500 digits of MNIST, shifts 2,000 others by rotation, rolling and corruption, and
compares every way to confidence: what the networks say themselves, what 500 labelled source digits
can tell, and what the unlabelled, shifted digits and their known class mix can tell. Run it with

    python examples/mnist5k_end_to_end.py [--directory checkpoints] [--json results.json]

With ``--directory`` the networks are kept, and a second run does not train them again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

import temperance as tp
from temperance_lab import datasets, networks, shifts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N_VALIDATION = 500
N_MEMBERS = 10
N_SAMPLES = 10
SHIFTS: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    "none": lambda x: x,
    "rotated by 30°": lambda x: shifts.rotate(x, 30),
    "rotated by 45°": lambda x: shifts.rotate(x, 45),
    "rolled by 4 pixels": lambda x: shifts.roll(x, 4),
    "glass blur 5": lambda x: shifts.corrupt(x, "glass_blur", 5),
    "contrast 5": lambda x: shifts.corrupt(x, "contrast", 5),
}


@dataclass(frozen=True)
class Record:
    """How well one method knows what it does not know, on one shift."""

    shift: str
    method: str
    labels: str
    accuracy: float
    nll: float
    ece: float
    brier: float


@dataclass(frozen=True)
class Models:
    """Everything that was trained: functions from uint8 images to logits or log-probabilities."""

    network: Callable[[NDArray[np.uint8]], NDArray[np.floating]]
    baselines: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.floating]]]


def train_models(x: NDArray[np.uint8], y: NDArray[np.int64], directory: Path) -> Models:
    """Train thirteen networks: ten members, the first of which is the network to calibrate."""
    recipe = "lenet5-mnist"
    members = networks.train_ensemble(
        "lenet5", x, y, recipe, directory / "ensemble", n_classes=10, n_members=N_MEMBERS
    )
    dropout = networks.add_last_layer_dropout(networks.build("lenet5", 10, 1))
    networks.train(dropout, x, y, recipe, checkpoint=directory / "ll_dropout.safetensors")
    variational = networks.to_flipout(networks.build("lenet5", 10, 1))
    checkpoint = directory / "svi.safetensors"
    networks.train_svi(variational, x, y, "lenet5-svi", checkpoint=checkpoint)
    return Models(
        network=lambda images: networks.predict_logits(members[0], images),
        baselines={
            "ll-Dropout": lambda images: networks.predict_ll_dropout(dropout, images, N_SAMPLES),
            "ensemble": lambda images: networks.predict_ensemble(members, images),
            "SVI": lambda images: networks.predict_svi(variational, images, N_SAMPLES),
        },
    )


def compare(
    models: Models, shift: str, x: NDArray[np.uint8], y: NDArray[np.int64], source: Source
) -> list[Record]:
    """All methods on one shifted set; ``y`` is used to judge, and by TS-Target alone to fit."""
    z = models.network(x)
    prior = np.full(10, 0.1)  # known: ten digits, as many of each
    answers = {"uncalibrated": ("none", z)}
    fits = {
        "TS": ("source", lambda: tp.fit_temperature(*source.network)),
        "vector": ("source", lambda: tp.fit_vector(*source.network, penalty=0.01)),
        "matrix": ("source", lambda: tp.fit_matrix(*source.network, penalty=0.01)),
        "attended": ("source", lambda: tp.fit_attended(*source.network)),
        "UTS": ("none", lambda: tp.fit_uts(z, prior)),
        "prior-matched, T only": (
            "source",
            lambda: tp.fit_prior_matched(z, prior, source.network, bias=False),
        ),
        "prior-matched": ("source", lambda: tp.fit_prior_matched(z, prior, source.network)),
        "calibrate": ("source", lambda: tp.calibrate(z, prior=prior, source=source.network).map),
        "TS-Target (oracle)": ("target", lambda: tp.fit_temperature(z, y)),
    }
    for name, (labels, fit) in fits.items():
        answers[name] = labels, fit()(z)
    for name, predict in models.baselines.items():
        answers[name] = "none", predict(x)
    # The paper's future work: an ensemble is a classifier like any other.
    log_p = answers["ensemble"][1]
    answers["ensemble + UTS"] = "none", tp.fit_uts(log_p, prior)(log_p)
    answers["ensemble + calibrate"] = (
        "source",
        tp.calibrate(log_p, prior=prior, source=source.ensemble).map(log_p),
    )
    return [judged(shift, name, labels, logits, y) for name, (labels, logits) in answers.items()]


@dataclass(frozen=True)
class Source:
    """Logits and labels of the source's validation digits, of the network and of the ensemble."""

    network: tuple[NDArray[np.floating], NDArray[np.int64]]
    ensemble: tuple[NDArray[np.floating], NDArray[np.int64]]


def judged(
    shift: str, method: str, labels: str, logits: NDArray[np.floating], y: NDArray[np.int64]
) -> Record:
    """Measure what the labels, hidden so far, say about the confidence."""
    return Record(
        shift=shift,
        method=method,
        labels=labels,
        accuracy=float(tp.metrics.accuracy(logits, y)),
        nll=float(tp.metrics.nll(logits, y)),
        ece=float(tp.metrics.ece(logits, y)),
        brier=float(tp.metrics.brier(logits, y)),
    )


def run(directory: Path) -> list[Record]:
    """Train, shift, calibrate, measure."""
    torch.set_num_threads(1)  # networks this small only wait for a second thread
    data = datasets.load("mnist-5k")
    x, y = data.x_train[N_VALIDATION:], data.y_train[N_VALIDATION:]
    held_out, labels = data.x_train[:N_VALIDATION], data.y_train[:N_VALIDATION]
    models = train_models(x, y, directory)
    source = Source(
        network=(models.network(held_out), labels),
        ensemble=(models.baselines["ensemble"](held_out), labels),
    )
    return [
        record
        for shift, apply in SHIFTS.items()
        for record in compare(models, shift, apply(data.x_test), data.y_test, source)
    ]


def show(records: list[Record]) -> None:
    """Print a table for each shift, and the mean over the shifts."""
    shifted = [r for r in records if r.shift != "none"]
    methods = list(dict.fromkeys(r.method for r in records))
    for shift in SHIFTS:
        print(f"\n{shift:<24}{'labels':<8}{'accuracy':>9}{'NLL':>9}{'ECE':>9}{'Brier':>9}")
        for r in (r for r in records if r.shift == shift):
            print(
                f"  {r.method:<22}{r.labels:<8}{r.accuracy:>9.3f}{r.nll:>9.3f}{r.ece:>9.3f}"
                f"{r.brier:>9.4f}"
            )
    print(f"\n{'mean over the shifts':<32}{'accuracy':>9}{'NLL':>9}{'ECE':>9}{'Brier':>9}")
    for method in methods:
        rows = [(r.accuracy, r.nll, r.ece, r.brier) for r in shifted if r.method == method]
        accuracy, nll, ece, brier = np.mean(rows, axis=0)
        print(f"  {method:<30}{accuracy:>9.3f}{nll:>9.3f}{ece:>9.3f}{brier:>9.4f}")


def main() -> None:
    """Parse the command line, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, help="where the networks are kept")
    parser.add_argument("--json", type=Path, help="where the numbers go")
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        records = run(arguments.directory or Path(temporary))
    show(records)
    print(f"\n{time.monotonic() - start:.0f} seconds")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(r) for r in records], indent=1) + "\n")


if __name__ == "__main__":  # members are trained in other processes, which import this file
    main()
