"""Pictures of every shift: photographs of scikit-learn corrupted, digits rotated and rolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from temperance_lab import datasets, shifts

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 64  # pixels of the photographs, shrunk
SEVERITIES = range(1, 6)
DEGREES = (0, 15, 30, 45, 60, 90, 135, 180)
PIXELS = (0, 2, 4, 6, 8, 10, 12, 14)


def strip(images: np.ndarray) -> np.ndarray:
    """Images side by side, a white line between them."""
    framed = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=255)
    return np.concatenate(list(framed), axis=1)


def draw(
    rows: list[tuple[str, list[np.ndarray]]], heads: list[str], path: Path, zoom: float
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
    figure.savefig(path, dpi=100, bbox_inches="tight")
    plt.close(figure)


def build(folder: Path) -> None:
    """Draw three sheets into a folder."""
    photographs = load_sample_images().images
    pictures = np.stack(
        [cv2.resize(x[:, 100:527], (SIDE, SIDE), interpolation=cv2.INTER_AREA) for x in photographs]
    )
    digits = datasets.load("mnist-5k").x_test[:4]
    digits = digits.reshape(4, 28, 28, 1)
    rows = []
    for name in shifts.CORRUPTIONS:
        corrupted = [strip(shifts.corrupt(pictures, name, severity)) for severity in SEVERITIES]
        rows.append((name, [strip(pictures), *corrupted]))
    heads = ["original", *(f"severity {severity}" for severity in SEVERITIES)]
    draw(rows, heads, folder / "shifts.png", 0.012)
    turned = [strip(shifts.rotate(digits, degrees)) for degrees in DEGREES]
    rolled = [strip(shifts.roll(digits, pixels)) for pixels in PIXELS]
    draw([("rotate", turned)], [f"{d}°" for d in DEGREES], folder / "shifts_rotate.png", 0.015)
    draw([("roll", rolled)], [f"{p} px" for p in PIXELS], folder / "shifts_roll.png", 0.015)
