"""Make the logits that ``temperance demo`` ships: a LeNet-5 on MNIST, then on rotated MNIST.

The network is trained on 55,000 digits; 2,000 of the 5,000 that it never saw are the labelled
*source*, and 4,000 test digits, rotated by each of two angles, the shifted *target*. Labels of the
target are shipped too: nothing is fitted on them, they show what a user without labels cannot see.

    python experiments/demo/make_demo_data.py [--data DIR] [--weights FILE]

writes ``src/temperance/data/mnist_*.npz``. FILE keeps the training run: with it, a second call only
computes the logits again. Training takes three minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from temperance import metrics
from temperance_lab import datasets, networks, shifts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

SHIPPED = Path(__file__).parents[2] / "src" / "temperance" / "data"
SEED = 0
HELD_OUT, SOURCE, TARGET = 5_000, 2_000, 4_000
DEGREES = (30, 60)  # where accuracy has fallen a little, and where it has collapsed


def store(
    name: str, network: nn.Module, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> None:
    """Write logits in the layout that the command line reads; half precision, as models save it."""
    logits = networks.predict_logits(network, images).astype(np.float16)
    classes = np.array(datasets.mnist.DIGITS)
    path = SHIPPED / f"mnist_{name}.npz"
    np.savez_compressed(path, logits=logits, labels=labels.astype(np.uint8), classes=classes)
    seen = metrics.evaluate(logits, labels)
    print(
        f"{path.name}: {len(labels)} rows, accuracy {seen.accuracy:.3f}, "
        f"confidence {seen.confidence:.3f}, {path.stat().st_size / 1000:.0f} kB"
    )


def main() -> None:
    """Train, rotate, store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="directory of mnist.npz; by default TEMPERANCE_DATA")
    parser.add_argument("--weights", help="file of the training run, made or continued")
    options = parser.parse_args()

    mnist = datasets.load("mnist", options.data)
    rng = np.random.default_rng(SEED)
    held_out, trained_on = np.split(rng.permutation(len(mnist.y_train)), [HELD_OUT])
    network = networks.build("lenet5", n_classes=10, in_channels=1, seed=SEED)
    networks.train(
        network,
        mnist.x_train[trained_on],
        mnist.y_train[trained_on],
        "lenet5-mnist",
        seed=SEED,
        checkpoint=options.weights,
    )
    SHIPPED.mkdir(exist_ok=True)
    source = held_out[:SOURCE]
    store("source", network, mnist.x_train[source], mnist.y_train[source])
    picked = rng.choice(len(mnist.y_test), TARGET, replace=False)
    for degrees in DEGREES:
        rotated = shifts.rotate(mnist.x_test[picked], degrees)
        store(f"rotated_{degrees}", network, rotated, mnist.y_test[picked])


if __name__ == "__main__":
    main()
