"""LeNet-5: LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86 (1998) 2278-2324, figure 2.

C1 6@5x5 - S2 - C3 16@5x5 - S4 - C5 120 - F6 84 - output, on a 32 x 32 field. As everywhere today
the units are rectified, the subsampling is a parameter-free maximum, C3 sees all six maps of S2
and the output is linear, where 1998 had tanh, trainable averages, a sparse table and RBF units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from torch.nn import functional

from temperance import InputError
from temperance_lab.networks.network import Network

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["lenet5"]

FIELD = 32


class Centre(nn.Module):
    """Centre an image on the paper's 32 x 32 field: digits of 28 x 28 get a border of 2."""

    def forward(self, x: Tensor) -> Tensor:
        """Pad with zeros, which standardised images have as their mean."""
        height, width = x.shape[-2:]
        if max(height, width) > FIELD:
            msg = f"images must be at most {FIELD} x {FIELD} for LeNet-5. Got {height} x {width}."
            raise InputError(msg)
        top, left = (FIELD - height) // 2, (FIELD - width) // 2
        return functional.pad(x, (left, FIELD - width - left, top, FIELD - height - top))


def lenet5(n_classes: int, in_channels: int) -> Network:
    """LeNet-5 for grey or colour images up to 32 x 32."""
    body = nn.Sequential(
        Centre(),
        nn.Conv2d(in_channels, 6, 5),  # C1
        nn.ReLU(),
        nn.MaxPool2d(2),  # S2
        nn.Conv2d(6, 16, 5),  # C3
        nn.ReLU(),
        nn.MaxPool2d(2),  # S4
        nn.Conv2d(16, 120, 5),  # C5
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(120, 84),  # F6
        nn.ReLU(),
    )
    return Network(body, nn.Linear(84, n_classes), in_channels)
