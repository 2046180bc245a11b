r"""Last-layer Monte Carlo dropout: Gal & Ghahramani, ICML 2016; "ll-Dropout" of the paper.

The network is trained with dropout of rate p on the activations before its last layer, and the
dropout stays active at test time:

.. math:: \hat p(y \mid x) = \frac1S \sum_{s=1}^S
          \mathrm{softmax}\!\Bigl(W \frac{m_s \circ h(x)}{1-p} + b\Bigr)_y,
          \qquad m_s \sim \mathrm{Bernoulli}(1-p)^d

The features h(x) are deterministic, so they are computed once for all S samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from temperance import InputError
from temperance_lab.checks import check_integer, check_number
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.predictive import predictive_log_probabilities
from temperance_lab.networks.run import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network

__all__ = ["add_last_layer_dropout", "predict_ll_dropout"]


def add_last_layer_dropout(network: Network, p: float = 0.5) -> Network:
    """Put dropout of rate ``p`` before the last layer, in place; train the network afterwards.

    Examples
    --------
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> networks.add_last_layer_dropout(network).head[0]
    Dropout(p=0.5, inplace=False)
    """
    network.head = nn.Sequential(nn.Dropout(check_number(p, "p", high=1.0, low=0.0)), network.head)
    return network


def predict_ll_dropout(
    network: Network, images: ArrayLike, n_samples: int = 50, seed: int = 0
) -> NDArray[np.float64]:
    """Predictive log-probabilities ``(n, K)`` over ``n_samples`` dropout masks.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> network = networks.add_last_layer_dropout(network)
    >>> log_p = networks.predict_ll_dropout(network, np.zeros((2, 28, 28), dtype=np.uint8))
    >>> np.exp(log_p).sum(axis=1).round(6)
    array([1., 1.])
    """
    if not any(isinstance(module, nn.Dropout) for module in network.head.modules()):
        msg = (
            "network must have dropout before its last layer. Got a head without; use "
            "networks.add_last_layer_dropout(network) before training."
        )
        raise InputError(msg)
    n_samples = check_integer(n_samples, "n_samples", low=1)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        features = network.features(batch)
        return (network.head(features) for _ in range(n_samples))

    with evaluating(network), seeded(check_integer(seed, "seed")):
        network.head.train()  # dropout active: a linear layer knows no other difference
        return predictive_log_probabilities(samples, images, network.mean.device)
