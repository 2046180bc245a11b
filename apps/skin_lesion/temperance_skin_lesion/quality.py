"""Is a picture fit to be judged? Sharpness, light, contrast and colour, at the network's size.

The limits of sharpness, contrast and colour are the 0.1 % quantiles of the 1,685 validation
pictures (lab/experiments/skin_lesion/quality.py): a picture beyond a limit is unlike what was
validated. The lower limit of light is far below the darkest validation picture (0.28) on purpose:
the validation pictures show mostly light skin, and dark skin is no fault of a picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LIMITS", "Quality", "faults", "measure"]


class Quality(NamedTuple):
    """Four numbers of a picture, each from 0 to 1."""

    sharpness: float
    light: float
    contrast: float
    colour: float


LIMITS = {
    "sharpness": (0.0097, 1.0),
    "light": (0.12, 0.865),
    "contrast": (0.0258, 1.0),
    "colour": (0.0431, 1.0),
}
"""Least and largest value of a picture fit to be judged."""

SENTENCES = {
    ("sharpness", "low"): "The picture is blurred: hold the dermatoscope still and focus again.",
    ("light", "low"): "The picture is too dark: use the light of the dermatoscope.",
    ("light", "high"): "The picture is overexposed: use less light.",
    ("contrast", "low"): "The picture shows hardly any contrast: clean the glass and focus again.",
    ("colour", "low"): "The picture has no colour: the network was trained on colour pictures.",
}


def measure(pixels: NDArray[np.uint8]) -> Quality:
    """Measure a picture ``(64, 64, 3)``."""
    x = pixels.astype(np.float64) / 255
    grey = x @ [0.299, 0.587, 0.114]
    edges = (
        grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * grey[1:-1, 1:-1]
    )
    return Quality(
        sharpness=float(np.abs(edges).mean()),
        light=float(grey.mean()),
        contrast=float(grey.std()),
        colour=float((x.max(axis=2) - x.min(axis=2)).mean()),
    )


def faults(quality: Quality) -> list[str]:
    """Say what is wrong with a picture and what would help; empty for a picture that is fit."""
    said = []
    for name, (low, high) in LIMITS.items():
        value = getattr(quality, name)
        side = "low" if value < low else "high" if value > high else ""
        if side and (name, side) in SENTENCES:
            said.append(SENTENCES[name, side])
    return said
