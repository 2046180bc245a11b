"""HAM10000 as the experiments need it: images, diagnoses, lesions and acquisition sites.

Tschandl, Rosendahl, Kittler: The HAM10000 dataset. Scientific Data 5, 180161 (2018), CC BY-NC 4.0.
Several photographs show one lesion, so every split here is by lesion, never by image.
"""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from sklearn.model_selection import StratifiedGroupKFold

from temperance_skin_lesion.classes import CODES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SITES", "Lesions", "load", "split"]

SITES = ("rosendahl", "vidir_modern", "vidir_molemax")
"""Acquisition sites: a practice in Queensland; Vienna with a modern camera and with a MoleMax."""


@dataclass(frozen=True, slots=True)
class Lesions:
    """Photographs with what is known of them.

    ``lesions`` numbers the lesion each one shows, ``rows`` its line in the metadata.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    lesions: NDArray[np.int64]
    sites: NDArray[np.str_]
    names: NDArray[np.str_]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Lesions:
        return Lesions(*(getattr(self, field.name)[rows] for field in fields(self)))


def load(directory: Path) -> Lesions:
    """Read ``HAM10000_metadata.csv`` and ``HAM10000_images.zip``, pictures of one size."""
    with (directory / "HAM10000_metadata.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with zipfile.ZipFile(directory / "HAM10000_images.zip") as archive:
        images = []
        for row in rows:
            with archive.open(f"{row['image_id']}.jpg") as file:
                images.append(np.asarray(Image.open(file).convert("RGB")))
    _, lesions = np.unique([row["lesion_id"] for row in rows], return_inverse=True)
    return Lesions(
        images=np.stack(images),
        labels=np.array([CODES.index(row["dx"]) for row in rows]),
        lesions=lesions.astype(np.int64),
        sites=np.array([row["dataset"] for row in rows]),
        names=np.array([row["image_id"] for row in rows]),
        rows=np.arange(len(rows)),
    )


def split(data: Lesions, held_out: float, seed: int = 0) -> tuple[Lesions, Lesions]:
    """Divide lesions at random into a larger part and a ``held_out`` share of fifths.

    Stratified by diagnosis, and no lesion is on both sides.
    """
    fold = np.empty(len(data), dtype=np.int64)
    folds = StratifiedGroupKFold(n_splits=5, shuffle=True, random_state=seed)
    for number, (_, rows) in enumerate(folds.split(data.labels, data.labels, data.lesions)):
        fold[rows] = number
    out = fold < round(5 * held_out)
    return data[~out], data[out]
