"""Is a picture fit to be judged? Sharpness, light, contrast and colour, at the network's size.

The limits of sharpness, contrast and colour are the 0.1 % quantiles of the 1,685 validation
pictures (lab/experiments/skin_lesion/quality.py): a picture beyond a limit is unlike what was
validated. The lower limit of light is far below the darkest validation picture (0.28) on purpose:
the validation pictures show light skin, and dark skin is no fault of a picture.

It is a reason not to answer, though: nothing was validated on it. The tone of the skin is the
individual typology angle (Chardon et al., 1991), the angle of (b*, L* - 50) in the plane of
lightness and yellow, of the median colour of the outer frame; below `BROWN` the groups of Del Bino
and Bernerd (2013) begin that are called brown and dark. One in ninety pictures of HAM10000 is below
it, by its light or by a lesion that fills the frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROWN",
    "LIMITS",
    "Quality",
    "faults",
    "frame_colour",
    "is_dark",
    "linear",
    "measure",
    "typology_angle",
]


class Quality(NamedTuple):
    """Four numbers of a picture, each from 0 to 1, and the tone of the skin in degrees."""

    sharpness: float
    light: float
    contrast: float
    colour: float
    tone: float = 90.0  # records of older versions have none


BROWN = 10.0
"""Tone below which nothing was validated."""

FRAME = 6
"""Pixels of the outer frame."""

BLACK = 0.15
"""Grey level of the corners that a dermatoscope leaves black."""

# From linear sRGB to X/Xn, Y/Yn, Z/Zn with the white of D65.
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / np.array([[0.9505], [1], [1.089]])


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
        tone=float(typology_angle(linear(frame_colour(pixels)))),
    )


def frame_colour(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the median colour of the outer frame, without black corners where others are left."""
    frame = np.ones(pixels.shape[:2], dtype=bool)
    frame[FRAME:-FRAME, FRAME:-FRAME] = False
    found = pixels[frame]
    lit = found @ np.array([0.299, 0.587, 0.114]) > 255 * BLACK
    return np.median(found[lit] if lit.any() else found, axis=0)


def linear(pixels: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the light of pixels in sRGB."""
    x = np.asarray(pixels, dtype=np.float64) / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def typology_angle(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the individual typology angle of colours ``(..., 3)`` in linear light, in degrees."""
    ratio = light @ TO_XYZ.T
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.degrees(np.arctan2(116 * f[..., 1] - 66, 200 * (f[..., 1] - f[..., 2])))


def is_dark(quality: Quality) -> bool:
    """Whether the skin is of a tone on which nothing was validated."""
    return quality.tone < BROWN


def faults(quality: Quality) -> list[str]:
    """Say what is wrong with a picture and what would help; empty for a picture that is fit."""
    said = []
    for name, (low, high) in LIMITS.items():
        value = getattr(quality, name)
        side = "low" if value < low else "high" if value > high else ""
        if side and (name, side) in SENTENCES:
            said.append(SENTENCES[name, side])
    return said
