"""Models of another kind than the convolutional networks of the suite, on the same shifts.

    python experiments/labelfree/pixel_models.py --cache DIR

Perceptrons, linear and quadratic models, trees, kernels and nearest neighbours on raw pixels; their
logits are built (minutes) and kept in --cache for `settings`.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Pixels = NDArray[np.float64]
    Model = Callable[[Pixels], NDArray[Any]]

TESTED_ON, HELD_OUT = 3_000, 3_000
FLOOR = 1e-3  # of shares of votes, which may be 0
FEW = 15_000  # rows that are enough for trees and neighbours


def perceptron(x: Pixels, y: Any, hidden: tuple[int, ...], epochs: int) -> Model:
    """Train fully connected layers; none is a linear model."""
    import torch

    torch.manual_seed(0)
    sizes = [x.shape[1], *hidden]
    layers: list[Any] = []
    for before, after in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 10))
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    rows, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(128):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(rows[batch]), labels[batch]).backward()
            optimiser.step()
    return lambda u: net(torch.tensor(u, dtype=torch.float32)).detach().numpy()


def forest(x: Pixels, y: Any) -> Model:
    """Train a random forest; its logits are the logarithms of its votes."""
    from sklearn.ensemble import RandomForestClassifier

    trees = RandomForestClassifier(150, min_samples_leaf=2, random_state=0)
    trees.fit(x[:FEW], y[:FEW])
    return lambda u: np.log(trees.predict_proba(u) + FLOOR)


def neighbours(x: Pixels, y: Any) -> Model:
    """Ask the nearest training rows; the logits are the logarithms of their votes."""
    from sklearn.neighbors import KNeighborsClassifier

    nearest = KNeighborsClassifier(20, weights="distance", algorithm="brute")
    nearest.fit(x[:FEW].astype(np.float32), y[:FEW])
    return lambda u: np.log(nearest.predict_proba(u.astype(np.float32)) + FLOOR)


def boosting(x: Pixels, y: Any) -> Model:
    """Boost trees; their sums are the logits."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(max_iter=40, max_bins=31, random_state=0)
    trees.fit(x[:FEW], y[:FEW])
    return trees.decision_function


def quadratic(x: Pixels, y: Any) -> Model:
    """Fit one normal distribution to each class, in few dimensions; far too sure of itself."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(PCA(30, random_state=0), QuadraticDiscriminantAnalysis(reg_param=0.01))
    model.fit(x[:FEW], y[:FEW])
    return model.decision_function


def kernel(x: Pixels, y: Any) -> Model:
    """Logistic regression on similarities to some of the rows."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        Nystroem(gamma=0.02, n_components=400, random_state=0),
        LogisticRegression(C=10.0, max_iter=300),
    )
    model.fit(x[:FEW], y[:FEW])
    return model.decision_function


MODELS: dict[str, tuple[str, Callable[[Pixels, Any], Model]]] = {
    "mnist_perceptron": ("mnist", lambda x, y: perceptron(x, y, (512, 256), 6)),
    "mnist_few_rows": ("mnist", lambda x, y: perceptron(x[:2000], y[:2000], (256,), 60)),
    "mnist_linear": ("mnist", lambda x, y: perceptron(x, y, (), 6)),
    "mnist_forest": ("mnist", forest),
    "cifar_perceptron": ("cifar10", lambda x, y: perceptron(x, y, (512,), 12)),
    "fashion_perceptron": ("fashion-mnist", lambda x, y: perceptron(x, y, (512, 256), 6)),
    "fashion_linear": ("fashion-mnist", lambda x, y: perceptron(x, y, (), 6)),
    "fashion_forest": ("fashion-mnist", forest),
    "mnist_neighbours": ("mnist", neighbours),
    "cifar_linear": ("cifar10", lambda x, y: perceptron(x, y, (), 12)),
    "fashion_boosting": ("fashion-mnist", boosting),
    "mnist_quadratic": ("mnist", quadratic),
    "fashion_kernel": ("fashion-mnist", kernel),
    "cifar_forest": ("cifar10", forest),
    "fashion_neighbours": ("fashion-mnist", neighbours),
}


def build(name: str, path: Path, data_dir: Path) -> None:
    """Train a network and write its logits on every shift."""
    where, make = MODELS[name]
    data = suite.read_data(where, data_dir)
    order = np.random.default_rng(0).permutation(len(data.x_train))
    held, learned = order[:HELD_OUT], order[HELD_OUT:]
    model = make(_flat(data.x_train[learned]), data.y_train[learned])
    x, y = data.x_test[:TESTED_ON], data.y_test[:TESTED_ON]
    source = {"s_logits": model(_flat(data.x_train[held])), "s_labels": data.y_train[held]}
    shifts = (suite.photograph_shifts if where == "cifar10" else suite.digit_shifts)(x)
    targets = {f"t_{shift}": model(_flat(images)) for shift, images in shifts}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, labels=y, **source, **targets)


def _flat(images: Any) -> Pixels:
    return images.reshape(len(images), -1) / 255.0


def main() -> None:
    """Build the logits that are not in the cache yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    for name in MODELS:
        path = arguments.cache / f"unseen_{name}.npz"
        if not path.exists():
            build(name, path, Path(os.environ["TEMPERANCE_DATA"]))


if __name__ == "__main__":
    main()
