"""Wide residual networks: Zagoruyko & Komodakis, BMVC 2016 (arXiv:1605.07146v4, table 1).

A WRN-d-k has ``d = 6n + 4`` layers in three stages of n pre-activated units, k times as wide as a
ResNet's: ``x + f(x)`` with f = BN, ReLU, 3 x 3, BN, ReLU, dropout, 3 x 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from temperance_lab.networks.network import Network, he_initialised

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["wideresnet40_4"]

DEPTH, WIDTH = 40, 4


class WideUnit(nn.Module):
    """Pre-activated unit with dropout between its convolutions."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.activate = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU())
        self.path = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Dropout(0.0),  # a recipe sets the rate
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
        )
        changes = n_in != n_out
        self.projection = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """Sum of the shortcut and the path; a projection sees the activated input."""
        a = self.activate(x)
        return self.path(a) + (x if self.projection is None else self.projection(a))


def wideresnet40_4(n_classes: int, in_channels: int) -> Network:
    """WRN-40-4 for 32 x 32 images."""
    layers: list[nn.Module] = [nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)]
    n_in = 16
    for stage in range(3):
        n_out = 16 * WIDTH * 2**stage
        for unit in range((DEPTH - 4) // 6):
            layers.append(WideUnit(n_in, n_out, 2 if unit == 0 and stage > 0 else 1))
            n_in = n_out
    layers += [nn.BatchNorm2d(n_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return he_initialised(Network(nn.Sequential(*layers), nn.Linear(n_in, n_classes), in_channels))
