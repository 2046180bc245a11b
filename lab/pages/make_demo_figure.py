"""Draw the figure of the README: digits rotated by 60 degrees, before and after calibration.

Run ``python lab/pages/make_demo_figure.py``; it needs the extra ``report`` and a few seconds.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

import temperance as tp
from temperance import demo
from temperance.report.displays import ReliabilityDisplay

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "demo.png"
COLOURS = 128  # of the palette: a third of the size, no difference to the eye


def main() -> None:
    """Calibrate as the page *Start* does, then open the labels and draw."""
    source, target = demo.load("source"), demo.load("rotated_60")
    mix = tp.about(demo.class_mix(), rows=2_000)
    cal = tp.calibrate(target.logits, prior=mix, source=(source.logits, source.labels))
    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    ReliabilityDisplay.from_logits(target.logits, target.labels, cal).plot(ax=axes)
    axes.set_title("LeNet-5 on digits rotated by 60°, no label used", fontsize=10)
    figure.savefig(FIGURE, dpi=150)
    with Image.open(FIGURE) as picture:
        picture.convert("RGB").quantize(COLOURS).save(FIGURE, optimize=True)


if __name__ == "__main__":
    main()
