"""The shape of every network here: standardise, embed, classify."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["Network", "evaluating", "he_initialised"]


class Network(nn.Module):
    r"""A classifier split where the baselines need it split: ``z = head(body((x - μ) / σ))``.

    ``body`` maps images to a feature vector and ``head`` is the last, linear, layer, so that
    last-layer dropout has one place to go. The channel mean μ and deviation σ of the training
    set are buffers: they travel in the checkpoint, count as no parameter, and a network can
    not be evaluated with somebody else's normalisation.

    Parameters
    ----------
    body
        Module from standardised images ``(n, C, H, W)`` to features ``(n, d)``.
    head
        Module from features to logits ``(n, K)``.
    in_channels
        Number C of image channels.

    Examples
    --------
    >>> import torch
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=10, in_channels=1)
    >>> network(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, body: nn.Module, head: nn.Module, in_channels: int) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.register_buffer("mean", torch.zeros(in_channels, 1, 1))
        self.register_buffer("std", torch.ones(in_channels, 1, 1))

    def standardise(self, mean: Tensor, std: Tensor) -> None:
        """Set the channel moments of the training set, each ``(C, 1, 1)`` for pixels in [0, 1]."""
        self.mean.copy_(mean)
        self.std.copy_(std)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a float batch ``(n, C, H, W)`` in [0, 1]."""
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """What the head sees of a float batch ``(n, C, H, W)`` in [0, 1]."""
        return self.body((images - self.mean) / self.std)


def he_initialised(network: Network) -> Network:
    """Draw every convolution from N(0, 2 / fan-out) (He et al., ICCV 2015), biases zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode; afterwards put every module back into its own mode."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
