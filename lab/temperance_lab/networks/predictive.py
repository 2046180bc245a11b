r"""The predictive distribution of several networks, or of one random network drawn several times.

.. math:: \log \hat p(y \mid x) = \log \frac1S \sum_{s=1}^S \mathrm{softmax}(z_s)_y

Log-probabilities are logits of themselves, ``softmax(log p) = p``: every metric and every
calibration takes them as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from temperance_lab.networks.images import as_batch, check_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

__all__ = ["log_mean_softmax", "predictive_log_probabilities"]

BATCH = 500


def log_mean_softmax(samples: Iterable[Tensor]) -> Tensor:
    """Log of the mean probability over samples of logits ``(n, K)``; float64, never -inf."""
    total, n_samples = None, 0
    for logits in samples:
        log_p = torch.log_softmax(logits.double(), dim=1)
        total = log_p if total is None else torch.logaddexp(total, log_p)
        n_samples += 1
    if total is None:
        msg = "samples must not be empty"
        raise ValueError(msg)
    return total - math.log(n_samples)


@torch.no_grad()
def predictive_log_probabilities(
    samples: Callable[[Tensor], Iterable[Tensor]], images: ArrayLike, device: torch.device
) -> NDArray[np.float64]:
    """Apply ``samples``, a function from a batch to its sampled logits, to all images."""
    x = check_images(images)
    rows = [
        log_mean_softmax(samples(as_batch(x[i : i + BATCH], device))).cpu().numpy()
        for i in range(0, len(x), BATCH)
    ]
    return np.concatenate(rows)
