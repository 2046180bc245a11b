"""The shipped model: stored weights with the facts about them, and what it answers to pictures.

A dermatoscope has no "up", so a picture is looked at in the eight orientations of the square. The
logits of a picture are the logarithm of its mean probabilities over the orientations (`combined`),
and so are the validation logits, on which maps are fitted.

A directory holds the tail in half precision (``*.safetensors``), ``source.npz`` (logits, labels and
lesions of the validation rows, which calibration needs), ``appearance.npz`` (what a lesion looks
like) and ``model.json`` (classes, training, accuracy, sha256 of every file). A file that does not
match its hash is not loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from temperance_skin_lesion import appearance
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import ORIENTATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_skin_lesion.appearance import Appearance
    from temperance_skin_lesion.network import LesionNet

__all__ = ["Look", "Model", "ModelError", "Source", "combined", "load", "orientations"]

PACKED = Path(__file__).parent / "weights"
"""Where the wheel puts the weights; a checkout has them beside the package."""

SHIPPED = PACKED if PACKED.is_dir() else Path(__file__).parents[1] / "weights"
APPEARANCE = "appearance.npz"


class ModelError(RuntimeError):
    """The weights are missing or are not what their description says."""


@dataclass(frozen=True, slots=True)
class Source:
    """Labelled validation rows of the sites the model was trained at."""

    logits: NDArray[np.float32]
    views: NDArray[np.float32]
    labels: NDArray[np.int64]
    lesions: NDArray[np.int64]

    @property
    def prior(self) -> NDArray[np.float64]:
        """Class mix of the rows."""
        return np.bincount(self.labels, minlength=len(CODES)) / len(self.labels)


@dataclass(frozen=True, slots=True)
class Model:
    """A network ready to answer, with its identity."""

    net: LesionNet
    source: Source
    appearance: Appearance
    facts: dict[str, Any]

    @property
    def id(self) -> str:
        """Name and the first digits of the hash over all that makes its logits."""
        return f"{self.facts['name']}-{self.facts['sha256'][:12]}"

    def look(self, images: NDArray[np.uint8]) -> Look:
        """Look at pictures ``(n, 64, 64, 3)`` in every orientation."""
        from temperance_skin_lesion.network import look

        n = len(images)
        features, logits = look(self.net, orientations(images).reshape(-1, *images.shape[1:]))
        distance = self.appearance.distance(features).reshape(n, ORIENTATIONS)
        views = logits.reshape(n, ORIENTATIONS, len(CODES))
        foreign = np.median(distance, axis=1) > self.appearance.limit
        return Look(logits=combined(views), views=views, foreign=foreign)


@dataclass(frozen=True, slots=True)
class Look:
    """What the model sees in pictures.

    ``logits`` ``(n, 7)`` combine ``views`` ``(n, 8, 7)``, one row for each orientation; ``foreign``
    pictures look like nothing that the model was trained on.
    """

    logits: NDArray[np.float32]
    views: NDArray[np.float32]
    foreign: NDArray[np.bool_]


def orientations(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay pictures ``(n, s, s, 3)`` in the eight ways of the square: ``(n, 8, s, s, 3)``."""
    mirrored = images[:, :, ::-1]
    turned = [np.rot90(x, k, axes=(1, 2)) for x in (images, mirrored) for k in range(4)]
    return np.stack(turned, axis=1)


def combined(views: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits ``(n, 7)`` of ``(n, 8, 7)``: the logarithm of the mean probability."""
    return np.log(softmax(views.astype(np.float64), axis=2).mean(axis=1)).astype(np.float32)


def load(directory: Path | None = None) -> Model:
    """Load the model in ``directory``, in ``TEMPERANCE_SKIN_LESION_WEIGHTS``, or the shipped."""
    named = os.environ.get("TEMPERANCE_SKIN_LESION_WEIGHTS")
    directory = directory or (Path(named) if named else SHIPPED)
    if not (directory / "model.json").is_file():
        raise ModelError(
            f"No model in {directory}. The weights (CC BY-NC 4.0, non-commercial) come with the "
            f"package: install it again, or name a directory that holds them with "
            f"TEMPERANCE_SKIN_LESION_WEIGHTS."
        )
    facts = json.loads((directory / "model.json").read_text("utf-8"))
    if APPEARANCE not in facts["files"]:
        raise ModelError(
            f"The model in {directory} must know how a lesion looks ({APPEARANCE}). It was written "
            f"by an older version: use the weights that come with the package."
        )
    for name, expected in facts["files"].items():
        found = _sha256((directory / name).read_bytes()) if (directory / name).is_file() else "none"
        if found != expected:
            raise ModelError(
                f"{directory / name} must have sha256 {expected}. Got {found}; restore the file."
            )
    if tuple(facts["classes"]) != CODES:
        raise ModelError(f"model.json must list the classes {CODES}. Got {facts['classes']}.")

    from temperance_skin_lesion.network import LesionNet, load_tail

    with np.load(directory / "source.npz", allow_pickle=False) as rows:
        views = rows["views"].astype(np.float32)
        source = Source(rows["logits"], views, rows["labels"], rows["groups"])
    familiar = appearance.load(directory / APPEARANCE)
    return Model(load_tail(LesionNet(), directory), source, familiar, facts)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
