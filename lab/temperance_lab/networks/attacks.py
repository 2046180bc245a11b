r"""Attacked images: projected gradient ascent, Madry et al., ICLR 2018.

Within :math:`|x' - x| \le \epsilon`, pixel by pixel, the loss of the true class is raised in steps of
the sign of its gradient,

.. math:: x' \leftarrow \Pi_\epsilon \bigl( x' + \alpha \,\mathrm{sign}\, \nabla_{x'} \mathrm{NLL}(x', y) \bigr),
          \qquad \alpha = 2.5\, \epsilon / S .

One step is the fast gradient sign method (Goodfellow et al., ICLR 2015).
"""  # noqa: E501

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from temperance_lab.checks import check_integer, check_number
from temperance_lab.networks.images import as_batch, check_images
from temperance_lab.networks.network import evaluating

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import nn

__all__ = ["attack"]

BATCH = 500


def attack(
    network: nn.Module, images: ArrayLike, labels: ArrayLike, epsilon: float, steps: int = 10
) -> NDArray[np.uint8]:
    """Return images that differ by at most ``epsilon`` (of a range of 1) and fool the network.

    The answer has whole grey levels, as a stored image has.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> images = np.full((2, 28, 28), 100, dtype=np.uint8)
    >>> attacked = networks.attack(network, images, [3, 5], epsilon=0.1, steps=3)
    >>> int(np.abs(attacked[..., 0].astype(int) - images).max()) <= 25
    True
    """
    x, y = check_images(images), np.asarray(labels)
    # A whole number of grey levels, so that rounding does not leave the ball.
    radius = np.floor(255 * check_number(epsilon, "epsilon", low=0.0, high=1.0) + 1e-9) / 255
    steps = check_integer(steps, "steps", low=1)
    device = next(network.parameters()).device
    out = []
    with evaluating(network):
        for i in range(0, len(x), BATCH):
            clean = as_batch(x[i : i + BATCH], device)
            target = torch.as_tensor(y[i : i + BATCH], device=device)
            moved = clean.clone()
            for _ in range(steps):
                moved.requires_grad_()
                loss = functional.cross_entropy(network(moved), target, reduction="sum")
                (slope,) = torch.autograd.grad(loss, moved)
                moved = moved.detach() + 2.5 * radius / steps * slope.sign()
                moved = torch.clamp(moved, clean - radius, clean + radius).clamp(0, 1)
            levels = (255 * moved).round().to(torch.uint8)
            out.append(levels.permute(0, 2, 3, 1).cpu().numpy())
    return np.concatenate(out)
