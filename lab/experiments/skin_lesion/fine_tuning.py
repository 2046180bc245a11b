"""Fine-tuning of the tail on features of the trunk, computed once for a few random views.

The trunk does not change, so neither do its features: each picture is passed through it as it is
and in `VIEWS - 1` augmented views, and every epoch draws one of them for each picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from temperance_lab.networks import Recipe
from temperance_lab.networks.images import augment
from temperance_skin_lesion.network import LesionNet, as_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RECIPE", "VIEWS", "features", "fine_tune", "predict"]

VIEWS = 3

# Flips and rotations are the supplement's; the rest is for two cores.
RECIPE = Recipe(
    epochs=8,
    batch_size=64,
    learning_rate=1e-3,
    optimizer="adam",
    cosine=True,
    flip="hv",
    rotate=12.5,
)


def features(
    net: LesionNet, images: NDArray[np.uint8], seed: int = 0, batch: int = 64
) -> NDArray[np.float16]:
    """What the trunk makes of each view: ``(VIEWS, n, 192, 3, 3)``, the picture itself first."""
    views = []
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(seed)
        for view in range(VIEWS):
            rows = []
            for i in range(0, len(images), batch):
                x = as_batch(images[i : i + batch])
                rows.append(net.trunk(augment(x, RECIPE) if view else x).half().numpy())
            views.append(np.concatenate(rows))
    return np.stack(views)


def fine_tune(features: NDArray[np.float16], labels: NDArray[np.int64], seed: int = 0) -> LesionNet:
    """Train the tail by `RECIPE`; running statistics of batch normalisation stay ImageNet's."""
    net = LesionNet()
    n, size = len(labels), RECIPE.batch_size
    targets = torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.tail.parameters())
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net.tail["head"][-1].reset_parameters()
        for epoch in range(RECIPE.epochs):
            order = torch.randperm(n)
            for i in range(0, n, size):
                rows = order[i : i + size]
                for group in optimizer.param_groups:
                    group["lr"] = RECIPE.rate((epoch + i / n) / RECIPE.epochs)
                views = torch.randint(VIEWS, (len(rows),))
                x = torch.from_numpy(features[views.numpy(), rows.numpy()]).float()
                loss = functional.cross_entropy(net.classify(x), targets[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return net.eval()


def predict(net: LesionNet, features: NDArray[np.float16], batch: int = 256) -> NDArray[np.float32]:
    """Logits of pictures whose features (one view, ``(n, 192, 3, 3)``) are known."""
    with torch.inference_mode():
        return np.concatenate(
            [
                net.classify(torch.from_numpy(features[i : i + batch]).float()).numpy()
                for i in range(0, len(features), batch)
            ]
        )
