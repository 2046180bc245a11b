"""From uint8 images to the batches a network reads, and the random views training shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from temperance import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from temperance_lab.networks.recipes import Recipe

__all__ = ["as_batch", "augment", "channel_moments", "check_images"]

BLOCK = 1_000


def check_images(images: Any, name: str = "images") -> NDArray[np.uint8]:
    """Return images as uint8 ``(n, H, W, C)``; grey ``(n, H, W)`` gains its channel."""
    array = np.asanyarray(images)  # a memmap stays one
    if array.ndim == 3:
        array = array[..., None]
    if array.dtype != np.uint8 or array.ndim != 4 or array.size == 0:
        msg = (
            f"{name} must be a non-empty uint8 array (n, H, W, C) or (n, H, W). Got dtype "
            f"{array.dtype}, shape {np.shape(images)}; for floats in [0, 1] use "
            f"(x * 255).round().astype('uint8')."
        )
        raise InputError(msg)
    return array


def as_batch(images: NDArray[np.uint8], device: torch.device | str = "cpu") -> Tensor:
    """Float ``(n, C, H, W)`` in [0, 1] of uint8 ``(n, H, W, C)``, in channels-last memory."""
    pixels = torch.from_numpy(np.array(images, order="C"))  # a copy: torch needs it writable
    return pixels.to(device).permute(0, 3, 1, 2).float().div_(255)


def channel_moments(images: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel in [0, 1], shaped ``(C, 1, 1)``; exact integer sums."""
    n_channels = images.shape[3]
    first, second = np.zeros((2, n_channels), dtype=np.int64)
    for i in range(0, len(images), BLOCK):
        pixels = np.asarray(images[i : i + BLOCK]).reshape(-1, n_channels)
        first += pixels.sum(axis=0, dtype=np.int64)
        second += np.square(pixels, dtype=np.uint16).sum(axis=0, dtype=np.int64)
    n_pixels = images.size // n_channels
    mean = first / n_pixels
    # A constant channel has no deviation: one grey level keeps it at zero after standardising.
    std = np.sqrt(np.maximum(second / n_pixels - mean**2, 1.0))
    mean, std = (torch.from_numpy(v / 255).float().reshape(-1, 1, 1) for v in (mean, std))
    return mean, std


def augment(x: Tensor, recipe: Recipe) -> Tensor:
    """Random flips, shifts and rotations of a batch, from torch's current random state."""
    for axis, letter in ((-1, "h"), (-2, "v")):
        if letter in recipe.flip:
            x = torch.where(_half(x), x.flip(axis), x)
    if recipe.rotate:
        x = torch.where(_half(x), _rotated(x, recipe.rotate), x)
    return _cropped(x, recipe.crop) if recipe.crop else x


def _half(x: Tensor) -> Tensor:
    """Toss a fair coin per image."""
    return torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5


def _rotated(x: Tensor, degrees: float) -> Tensor:
    """Rotate each image about its centre by its own angle, uniform in ± ``degrees``."""
    angle = (2 * torch.rand(len(x), device=x.device) - 1) * math.radians(degrees)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    ratio = x.shape[-1] / x.shape[-2]  # the sampling grid is in units of each side
    rows = (torch.stack(row, 1) for row in ((cos, -sin / ratio, zero), (sin * ratio, cos, zero)))
    grid = functional.affine_grid(torch.stack(list(rows), 1), list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def _cropped(x: Tensor, border: int) -> Tensor:
    """Add a border of zeros and cut a window of the old size at a random place."""
    n, channels, height, width = x.shape
    padded = functional.pad(x, (border,) * 4)
    top, left = torch.randint(2 * border + 1, (2, n, 1, 1, 1), device=x.device)
    i, c, h, w = (torch.arange(size, device=x.device) for size in (n, channels, height, width))
    window = padded[i[:, None, None, None], c[:, None, None], top + h[:, None], left + w]
    return window.contiguous(memory_format=torch.channels_last)
