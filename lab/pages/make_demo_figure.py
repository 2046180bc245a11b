"""Draw the figure of the README: digits rotated by 60 degrees, before and after calibration.

Run ``python lab/pages/make_demo_figure.py``; it needs the extra ``report`` and a few seconds. The
picture carries its numbers as text, by which a test notices that they have changed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import temperance as tp
from temperance import demo
from temperance.report.displays import ReliabilityDisplay

PICTURE = Path(__file__).parents[2] / "docs" / "figures" / "demo.png"
COLOURS = 32  # of the palette: a quarter of the size, no difference to the eye


def calibrated() -> tp.Calibration:
    """Calibrate as the pages *Start* and *Reading a report* do."""
    source, target = demo.load("source"), demo.load("rotated_60")
    mix = tp.about(demo.class_mix(), rows=2_000)
    return tp.calibrate(target.logits, prior=mix, source=(source.logits, source.labels))


def display() -> ReliabilityDisplay:
    """Open the labels, and measure."""
    target = demo.load("rotated_60")
    return ReliabilityDisplay.from_logits(target.logits, target.labels, calibrated())


def shown() -> str:
    """Return the numbers in the picture."""
    target = demo.load("rotated_60")
    after = calibrated().map(target.logits)
    errors = (tp.metrics.ece(z, target.labels) for z in (target.logits, after))
    return " -> ".join(f"{error:.3f}" for error in errors)


def save(colours: int, path: Path, text: str) -> None:
    """Save a picture again, with fewer colours (the rare ones too) and its numbers as text."""
    facts = PngInfo()
    facts.add_text("Description", text)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(colours, method=Image.Quantize.MAXCOVERAGE)
        few.save(path, optimize=True, pnginfo=facts)


def main() -> None:
    """Draw."""
    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    display().plot(ax=axes)
    axes.set_title("LeNet-5 on digits rotated by 60°, no label used", fontsize=10)
    figure.savefig(PICTURE, dpi=150)
    save(COLOURS, PICTURE, shown())


if __name__ == "__main__":
    main()
