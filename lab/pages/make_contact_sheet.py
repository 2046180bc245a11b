"""Draw every shift at every severity, on CIFAR-10 and MNIST images: docs/figures/shifts*.png.

Run with ``TEMPERANCE_DATA`` naming the directory of ``cifar10_small.npz`` and ``mnist.npz``.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from temperance_lab import shifts

FIGURES = Path(__file__).parent / "figures"
PICKS = (1, 5, 10, 11)  # test images: dog, horse, aeroplane, cat
SEVERITIES = range(1, 6)
DEGREES = (0, 15, 30, 45, 60, 90, 135, 180)
PIXELS = (0, 2, 4, 6, 8, 10, 12, 14)


def strip(images: np.ndarray) -> np.ndarray:
    """Images side by side, a white line between them."""
    framed = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=255)
    return np.concatenate(list(framed), axis=1)


def draw(
    rows: list[tuple[str, list[np.ndarray]]], heads: list[str], name: str, zoom: float
) -> None:
    """One row per shift, one column per strength; pixels stay square and unsmoothed."""
    height, width = rows[0][1][0].shape[:2]
    figure, axes = plt.subplots(
        len(rows),
        len(heads),
        figsize=(zoom * width * len(heads) + 1.3, zoom * (height + 1) * len(rows) + 0.3),
        gridspec_kw={"wspace": 0.03, "hspace": 0.03},
        squeeze=False,
    )
    for line, (label, cells) in zip(axes, rows, strict=True):
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
        for axis, cell in zip(line, cells, strict=True):
            axis.imshow(cell, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    for axis, head in zip(axes[0], heads, strict=True):
        axis.set_title(head, fontsize=9)
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / name, dpi=100, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Read the images, shift them, draw three sheets."""
    data = Path(os.environ["TEMPERANCE_DATA"])
    with np.load(data / "cifar10_small.npz") as cifar:
        pictures = cifar["x_test"][list(PICKS)]
    with np.load(data / "mnist.npz") as mnist:
        digits = mnist["x_test"][:4, ..., np.newaxis]
    rows = []
    for name in shifts.CORRUPTIONS:
        corrupted = [strip(shifts.corrupt(pictures, name, severity)) for severity in SEVERITIES]
        rows.append((name, [strip(pictures), *corrupted]))
    heads = ["original", *(f"severity {severity}" for severity in SEVERITIES)]
    draw(rows, heads, "shifts.png", 0.02)
    turned = [strip(shifts.rotate(digits, degrees)) for degrees in DEGREES]
    rolled = [strip(shifts.roll(digits, pixels)) for pixels in PIXELS]
    draw([("rotate", turned)], [f"{degrees}°" for degrees in DEGREES], "shifts_rotate.png", 0.015)
    draw([("roll", rolled)], [f"{pixels} px" for pixels in PIXELS], "shifts_roll.png", 0.015)


if __name__ == "__main__":
    main()
