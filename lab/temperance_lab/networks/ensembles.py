r"""Deep ensembles: Lakshminarayanan, Pritzel & Blundell, NeurIPS 2017.

M networks are trained on the same data from different initial weights and in different orders, so
with M seeds; the prediction is the mean of their probabilities,
:math:`\hat p(y \mid x) = \frac1M \sum_m \mathrm{softmax}(z_m)_y`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from temperance import InputError
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.predictive import predictive_log_probabilities

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network

__all__ = ["predict_ensemble"]


def predict_ensemble(networks: Sequence[Network], images: ArrayLike) -> NDArray[np.float64]:
    """Predictive log-probabilities ``(n, K)``: the log of the members' mean probability.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> members = [networks.build("lenet5", n_classes=10, in_channels=1, seed=m) for m in range(3)]
    >>> networks.predict_ensemble(members, np.zeros((2, 28, 28), dtype=np.uint8)).shape
    (2, 10)
    """
    if not networks:
        msg = "networks must hold at least one network. Got an empty sequence instead."
        raise InputError(msg)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        return (network(batch) for network in networks)

    with ExitStack() as modes:
        for network in networks:
            modes.enter_context(evaluating(network))
        return predictive_log_probabilities(samples, images, networks[0].mean.device)
