"""Measure what is known of darker skin: nearly nothing, and what becomes of darkened pictures.

    python lab/experiments/skin_lesion/skin_tone.py

writes records/skin_tone.json. The tone of a picture is the individual typology angle (ITA, the
angle of (b*, L* - 50); Chardon et al., 1991) of the median colour of its outer frame, in the groups
of Del Bino and Bernerd (2013). First, all pictures are counted by their tone. Those that come out
brown or dark are so by red or dim light, or by a lesion or hair that fills the frame; hardly any
seems to show dark skin, so nothing can be measured on it. Second, all validation pictures are
judged as if seen through more melanin at the same exposure: each channel is weakened in linear
light by exp(-m w), with w the absorption of melanin (a power -3.33 of the wavelength, Jacques,
2013) relative to red, and m chosen for each picture so that its frame has the middle tone of a
group. That is a simulation, not a patient: it says whether the program notices and stays cautious,
not how well it would do. It is the reason for the rule that brown and dark pictures are not
answered; "before" is without that rule.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ham10000
import numpy as np
import torch
from run import write

import temperance as tp
from temperance_skin_lesion import model, quality
from temperance_skin_lesion.classes import MELANOMA
from temperance_skin_lesion.decision import Policy, examine
from temperance_skin_lesion.quality import linear, typology_angle
from temperance_skin_lesion.thresholds import share_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUPS = {
    "light": (41, 180.1),
    "intermediate": (28, 41),
    "tan": (10, 28),
    "brown": (-30, 10),
    "dark": (-180.1, -30),
}
"""Least and largest ITA of each group, in degrees; "light" joins two groups of the literature."""

DARKENED = {"tan": 19, "brown": -10, "dark": -50}
"""ITA to which the pictures are darkened."""

MELANIN = (np.array([610, 550, 465]) / 610) ** -3.33


def srgb(light: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Pixels in sRGB of light."""
    x = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.clip(np.round(255 * x), 0, 255).astype(np.uint8)


def skin(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Light of the outer frame of each picture ``(n, 3)``."""
    return linear(np.stack([quality.frame_colour(image) for image in images]))


def darkened(images: NDArray[np.uint8], angle: float) -> NDArray[np.uint8]:
    """Pictures as if through more melanin, with skin of the given angle at most."""
    colour = skin(images)
    low, high = np.zeros(len(images)), np.full(len(images), 8.0)
    for _ in range(40):  # the angle falls with m: bisection
        m = (low + high) / 2
        lighter = typology_angle(colour * np.exp(-m[:, None] * MELANIN)) > angle
        low, high = np.where(lighter, m, low), np.where(lighter, high, m)
    m = np.where(typology_angle(colour) > angle, high, 0)
    return srgb(linear(images) * np.exp(-m[:, None, None, None] * MELANIN))


def outcome(
    known: model.Model, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> dict[str, Any]:
    """What a new installation says of pictures, and how right it is."""
    seen = known.look(images)
    p = tp.Temperature(known.facts["temperature"][0]).predict_proba(seen.logits.astype(float))
    agreement = (seen.views.argmax(axis=2) == p.argmax(axis=1)[:, None]).sum(axis=1)
    said = examine(p, Policy(), agreement)
    measured = [quality.measure(image) for image in images]
    fit = np.array([not quality.faults(one) for one in measured])
    dark = np.array([quality.is_dark(one) for one in measured])
    before = said.answered & fit & ~seen.foreign
    answered = before & ~dark
    right = said.predicted == labels
    melanoma = labels == MELANOMA
    missed = melanoma & (said.predicted != MELANOMA)

    def share(found: NDArray[np.bool_], of: NDArray[np.bool_]) -> list[float]:
        return [int(found.sum()), int(of.sum()), *share_interval(int(found.sum()), int(of.sum()))]

    every = np.ones(len(labels), dtype=bool)
    return {
        "not_recognised": share(seen.foreign, every),
        "not_fit": share(~fit & ~seen.foreign, every),
        "answered_before": share(before, every),
        "answered": share(answered, every),
        "right": share(right, every),
        "confidence": float(p.max(axis=1).mean()),
        "wrong_before": share(before & ~right, before),
        "missed_before": share(before & missed, melanoma),
        "missed": share(answered & missed, melanoma),
    }


def main() -> None:
    """Write the record."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    data = ham10000.load(Path(os.environ["TEMPERANCE_DATA"]) / "ham10000_64")
    _, validation = ham10000.split(data, 0.2)
    known, tones = model.load(), typology_angle(skin(data.images))
    as_taken = outcome(known, validation.images, validation.labels)
    record = {
        "pictures": {
            name: int(((low <= tones) & (tones < high)).sum())
            for name, (low, high) in GROUPS.items()
        },
        "judged": {"as taken": as_taken}
        | {
            name: outcome(known, darkened(validation.images, angle), validation.labels)
            for name, angle in DARKENED.items()
        },
    }
    write(Path(__file__).parent / "records" / "skin_tone.json", record)


if __name__ == "__main__":
    main()
