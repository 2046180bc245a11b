r"""Variational inference with Flipout: Blundell et al., ICML 2015; Wen et al., ICLR 2018.

Weights have the posterior :math:`q(W) = \mathcal N(\mu, \sigma^2)`, element by element, and the
prior :math:`\mathcal N(0, \sigma_p^2)`, with :math:`\sigma_p^2 = 2 / \mathrm{fan\ in}` unless
another is given: the scale at which a rectified layer keeps the size of its signal (He et al.,
ICCV 2015). Training minimises, per example,

.. math:: \mathbb E_q[-\log p(y \mid x, W)] + \tfrac{\lambda}n \mathrm{KL}(q \,\|\, p), \qquad
   \mathrm{KL} = \sum \log\frac{\sigma_p}{\sigma} + \frac{\sigma^2 + \mu^2}{2\sigma_p^2} - \frac12 .

One perturbation :math:`\Delta W = \sigma \circ \epsilon` serves the whole batch, but random signs
s, r for each example make its effects nearly independent between examples (Wen et al., eq. 3),

.. math:: y_i = \mu^\top x_i + r_i \circ \bigl(\Delta W^\top (s_i \circ x_i)\bigr) + b,

so the gradient keeps its mean and loses the variance that a shared perturbation would give it.
Biases are points, and :math:`\sigma` starts at a tenth of the scale of its layer: at a constant
0.05 the noise of a layer of a thousand inputs exceeds its signal. :math:`\lambda = 1` is the
evidence lower bound; below it the posterior is cold (Wenzel et al., ICML 2020).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from temperance import InputError
from temperance_lab.checks import check_integer, check_number
from temperance_lab.networks.images import check_images
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.predictive import predictive_log_probabilities
from temperance_lab.networks.run import seeded
from temperance_lab.networks.training import train

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network
    from temperance_lab.networks.recipes import Recipe
    from temperance_lab.networks.run import Epoch

__all__ = [
    "FlipoutConv2d",
    "FlipoutLinear",
    "kl_divergence",
    "predict_svi",
    "to_flipout",
    "train_svi",
]

INITIAL_STD = 0.1  # over the scale of the layer


class FlipoutLinear(nn.Linear):
    """A linear layer with Gaussian weights: sampled while training, at their mean otherwise."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log_std = _initial_log_std(self)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Mean response, and while training the perturbation with its signs."""
        mean = super().forward(input)
        if not self.training:
            return mean
        delta = self.log_std.exp() * torch.randn_like(self.weight)
        r, s = _signs(mean), _signs(input)
        return mean + r * functional.linear(s * input, delta)


class FlipoutConv2d(nn.Conv2d):
    """A convolution with Gaussian weights; signs are drawn per example and channel."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.log_std = _initial_log_std(self)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Mean response, and while training the perturbation with its signs."""
        mean = super().forward(input)
        if not self.training:
            return mean
        delta = self.log_std.exp() * torch.randn_like(self.weight)
        r, s = _signs(mean[:, :, :1, :1]), _signs(input[:, :, :1, :1])
        return mean + r * self._conv_forward(s * input, delta, None)


def _scale(layer: nn.Linear | nn.Conv2d) -> float:
    """Deviation of weights that keep the size of a rectified signal: the root of 2 / fan-in."""
    return math.sqrt(2 / layer.weight[0].numel())


def _initial_log_std(layer: nn.Linear | nn.Conv2d) -> nn.Parameter:
    return nn.Parameter(torch.full_like(layer.weight, math.log(INITIAL_STD * _scale(layer))))


def _signs(like: Tensor) -> Tensor:
    """Independent fair signs in the shape of a tensor."""
    return torch.empty_like(like).bernoulli_(0.5).mul_(2).sub_(1)


def to_flipout(network: Network) -> Network:
    """Make every linear and convolutional layer variational, in place, around its weights.

    Examples
    --------
    >>> from temperance_lab import networks
    >>> networks.to_flipout(networks.build("lenet5", n_classes=10, in_channels=1)).head
    FlipoutLinear(in_features=84, out_features=10, bias=True)
    """
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            flipout = _variational(layer)
            if flipout is not None:
                flipout.load_state_dict(layer.state_dict(), strict=False)
                setattr(parent, name, flipout)
    return network


def _variational(layer: nn.Module) -> FlipoutLinear | FlipoutConv2d | None:
    """Return a Flipout layer of the shape of a plain one."""
    if type(layer) is nn.Linear:
        return FlipoutLinear(layer.in_features, layer.out_features, layer.bias is not None)
    if type(layer) is nn.Conv2d:
        return FlipoutConv2d(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            layer.stride,
            layer.padding,
            layer.dilation,
            layer.groups,
            layer.bias is not None,
        )
    return None


def _flipout_layers(network: nn.Module) -> list[FlipoutLinear | FlipoutConv2d]:
    layers = [m for m in network.modules() if isinstance(m, FlipoutLinear | FlipoutConv2d)]
    if not layers:
        msg = "network must have Flipout layers. Got none; use networks.to_flipout(network)."
        raise InputError(msg)
    return layers


def kl_divergence(network: nn.Module, prior_std: float | None = None) -> Tensor:
    """KL divergence from the prior to the posterior, summed over all variational weights.

    Without ``prior_std`` the prior of a layer has the root of 2 / fan-in.
    """
    total = torch.zeros(())
    for layer in _flipout_layers(network):
        std = _scale(layer) if prior_std is None else prior_std
        second_moment = (2 * layer.log_std).exp() + layer.weight.square()
        excess = second_moment / (2 * std**2) - layer.log_std
        total = total.to(excess.device) + (excess + (math.log(std) - 0.5)).sum()
    return total


def train_svi(
    network: Network,
    images: ArrayLike,
    labels: ArrayLike,
    recipe: Recipe | str,
    *,
    prior_std: float | None = None,
    kl_weight: float = 1.0,
    **options: Any,
) -> list[Epoch]:
    """Maximise the evidence lower bound of a network from `to_flipout`.

    ``prior_std`` is as for `kl_divergence`, and ``kl_weight`` below 1 makes the posterior cold.
    ``options`` are those of `networks.train`; the reported loss includes the KL term.
    """
    if prior_std is not None:
        prior_std = check_number(prior_std, "prior_std", low=0.0, open_low=True)
    share = check_number(kl_weight, "kl_weight", low=0.0) / len(check_images(images))
    return train(
        network,
        images,
        labels,
        recipe,
        penalty=lambda module: share * kl_divergence(module, prior_std),
        **options,
    )


def predict_svi(
    network: Network, images: ArrayLike, n_samples: int = 50, seed: int = 0
) -> NDArray[np.float64]:
    """Predictive log-probabilities ``(n, K)`` over ``n_samples`` draws of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.to_flipout(networks.build("lenet5", n_classes=10, in_channels=1))
    >>> networks.predict_svi(network, np.zeros((2, 28, 28), dtype=np.uint8), n_samples=3).shape
    (2, 10)
    """
    n_samples = check_integer(n_samples, "n_samples", low=1)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        return (network(batch) for _ in range(n_samples))

    with evaluating(network), seeded(check_integer(seed, "seed")):
        for layer in _flipout_layers(network):
            layer.train()  # perturbed; batch normalisation and dropout stay as they are
        return predictive_log_probabilities(samples, images, network.mean.device)
