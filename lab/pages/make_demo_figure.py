"""Draw the figure of the README: digits rotated by 60 degrees, before and after calibration.

Run ``python lab/pages/make_demo_figure.py``; it needs the extra ``report`` and a few seconds.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import temperance as tp
from temperance.report.displays import ReliabilityDisplay

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "demo.png"
COLOURS = 128  # of the palette: a third of the size, no difference to the eye


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and labels of a shipped file."""
    with np.load(str(files("temperance.cli") / "demo_data" / name)) as data:
        return data["logits"].astype(np.float32), data["labels"]


def main() -> None:
    """Calibrate without a label of the rotated digits, then open the labels and draw."""
    z, y = load("mnist_rotated_60.npz")
    source = load("mnist_source.npz")
    counts = np.bincount(source[1], minlength=10)
    prior = tp.about(counts / counts.sum(), rows=int(counts.sum()))
    cal = tp.calibrate(z, prior=prior, source=source)
    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    ReliabilityDisplay.from_logits(z, y, cal).plot(ax=axes)
    axes.set_title("LeNet-5 on digits rotated by 60°, no label used", fontsize=10)
    figure.savefig(FIGURE, dpi=150)
    with Image.open(FIGURE) as picture:
        picture.convert("RGB").quantize(COLOURS).save(FIGURE, optimize=True)


if __name__ == "__main__":
    main()
