"""Supervised training by a recipe: seeded, and resumed to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from temperance import InputError
from temperance_lab.checks import check_choice, check_integer
from temperance_lab.networks.checkpoints import read, write
from temperance_lab.networks.images import as_batch, check_images
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.recipes import RECIPES, Recipe
from temperance_lab.networks.run import Epoch, LabelledImages, Run, single_thread

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor, nn

    from temperance_lab.networks.network import Network

__all__ = ["predict_logits", "train"]


def predict_logits(network: nn.Module, images: ArrayLike, batch_size: int = 500) -> NDArray[Any]:
    """Logits ``(n, K)``, float32, of uint8 images ``(n, H, W, C)`` or ``(n, H, W)``.

    The network is evaluated on the device of its weights, and left in the mode it was in.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> networks.predict_logits(network, np.zeros((3, 28, 28), dtype=np.uint8)).shape
    (3, 10)
    """
    images = check_images(images)
    device = next(network.parameters()).device
    with evaluating(network), torch.no_grad():
        rows = [
            network(as_batch(images[i : i + batch_size], device)).float().cpu().numpy()
            for i in range(0, len(images), batch_size)
        ]
    return np.concatenate(rows)


def train(
    network: Network,
    images: ArrayLike,
    labels: ArrayLike,
    recipe: Recipe | str,
    *,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    penalty: Callable[[nn.Module], Tensor] | None = None,
) -> list[Epoch]:
    r"""Minimise the mean cross-entropy (plus a penalty) over the weights of ``network``, in place.

    Parameters
    ----------
    network
        From `temperance_lab.networks.build`, on the device to train on.
    images, labels
        uint8 ``(n, H, W, C)`` or ``(n, H, W)``, a memory map if large, and class numbers.
    recipe
        A `Recipe`, or the name of one in `RECIPES`.
    seed
        Of the order, the augmentation and the dropout; the initial weights are those of
        ``networks.build(seed=)``. One seed gives the same weights to the bit on one kind of
        processor, whatever number of threads torch has: training uses one.
    checkpoint
        File written after every epoch. When it exists the run goes on from there and ends with the
        same weights, to the bit, as if it had never stopped; a finished run is loaded. A file of
        another recipe, seed or data set is refused.
    penalty
        Term to add to the loss of each batch, e.g. a Kullback-Leibler divergence over n.

    Returns
    -------
    list of Epoch
        One entry for every epoch of the run, the resumed ones included. ``network`` is in
        evaluation mode.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> images = np.random.default_rng(0).integers(256, size=(64, 28, 28), dtype=np.uint8)
    >>> labels = np.arange(64) % 2
    >>> network = networks.build("lenet5", n_classes=2, in_channels=1)
    >>> recipe = networks.Recipe(epochs=2, batch_size=16, learning_rate=0.01)
    >>> len(networks.train(network, images, labels, recipe))
    2
    """
    if isinstance(recipe, str):
        recipe = RECIPES[check_choice(recipe, RECIPES, "recipe")]
    data = _labelled(network, images, labels)
    run = Run(network, data, recipe, check_integer(seed, "seed"), penalty)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        run.resume(read(path), path)
    with single_thread():
        while not run.finished:
            run.history.append(run.epoch())
            if path is not None:
                write(path, run.state())
    network.eval()
    return run.history


def _labelled(network: nn.Module, images: ArrayLike, labels: ArrayLike) -> LabelledImages:
    """Check images and labels against each other and the network."""
    x = check_images(images)
    n_classes = predict_logits(network, x[:1]).shape[1]
    y = np.asarray(labels)
    whole = y.dtype.kind in "iu" and y.shape == (len(x),)
    if not whole or y.min() < 0 or y.max() >= n_classes:
        msg = (
            f"labels must be {len(x)} integers from 0 to {n_classes - 1}, one for every image. Got "
            f"{y.dtype} of shape {y.shape} instead"
            + (f", values from {y.min()} to {y.max()}." if whole else ".")
        )
        raise InputError(msg)
    return LabelledImages(x, y.astype(np.int64))
