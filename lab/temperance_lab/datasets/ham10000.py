"""HAM10000, the training set of ISIC 2018 task 3: Tschandl, Rosendahl & Kittler (2018).

A table of metadata and the photographs, in folders or zip archives that stay packed. Either the
table of the Harvard Dataverse (``HAM10000_metadata``: lesion_id, image_id, dx, perhaps dataset) or
that of the challenge (``ISIC2018_Task3_Training_GroundTruth.csv``, with the lesion groupings).

A lesion may have several photographs, so the split is by lesion: 60 % of the lesions of each class
are for training, the share of the paper. No lesion is on both sides.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance import InputError
from temperance_lab.datasets.dataset import Dataset, Split
from temperance_lab.datasets.files import missing, read_bytes
from temperance_lab.datasets.photographs import album, read_photographs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_ham10000"]

CLASSES = ("mel", "nv", "bcc", "akiec", "bkl", "df", "vasc")
"""In the order of the challenge's columns."""

TRAINING_SHARE = 0.6
METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab")
CHALLENGE = "ISIC2018_Task3_Training_GroundTruth.csv"
GROUPINGS = "ISIC2018_Task3_Training_LesionGroupings.csv"


def load_ham10000(data_dir: Path, size: int | None) -> Dataset:
    """10,015 dermatoscopic photographs of seven kinds of lesion.

    ``groups["lesion_id"]`` names the lesion, and ``groups["site"]``, when the table has the column
    ``dataset``, where it was photographed.
    """
    folder, rows = _rows(data_dir)
    photographs = album(
        [p for p in sorted(folder.iterdir()) if p.suffix == ".zip" or (p.is_dir() and _is_ham(p))]
        or [folder]
    )
    absent = [row["image_id"] for row in rows if row["image_id"] not in photographs]
    if absent:
        msg = (
            f"{folder} must hold all photographs. {len(absent)} of {len(rows)} are missing, first "
            f"{absent[0]}; put HAM10000_images_part_1 and _2 there, unpacked or as .zip."
        )
        raise InputError(msg)
    train = _training_rows(rows)
    parts = [
        [row for row, t in zip(rows, train, strict=True) if t is side] for side in (True, False)
    ]
    arrays: list[Any] = []
    for part in parts:
        arrays.append(read_photographs(photographs, [row["image_id"] for row in part], size))
        arrays.append(np.array([CLASSES.index(row["dx"]) for row in part], dtype=np.int64))
    groups = {
        name: Split(*(np.array([row[column] for row in part]) for part in parts))
        for name, column in (("lesion_id", "lesion_id"), ("site", "dataset"))
        if column in rows[0]
    }
    return Dataset(*arrays, classes=CLASSES, groups=groups)


def _is_ham(path: Path) -> bool:
    return path.name.lower().startswith(("ham10000", "isic2018"))


def _rows(data_dir: Path) -> tuple[Path, list[dict[str, str]]]:
    """The folder of the metadata, and its rows with lesion_id, image_id and dx."""
    folders = [data_dir, *sorted(p for p in data_dir.glob("*") if p.is_dir() and _is_ham(p))]
    for folder in folders:
        for name in METADATA:
            if (folder / name).is_file():
                return folder, _checked(_table(folder / name), folder / name)
        if (folder / CHALLENGE).is_file():
            return folder.parent if folder != data_dir else folder, _challenge(folder)
    what = "HAM10000_metadata.csv and HAM10000_images_part_1 and _2, folders or .zip,"
    source = "doi.org/10.7910/DVN/DBW86T or challenge.isic-archive.com (2018, task 3)"
    raise missing("ham10000", data_dir / "ham10000", what, source)


def _challenge(folder: Path) -> list[dict[str, str]]:
    """Rows of the challenge's tables in the shape of the metadata."""
    truth = _table(folder / CHALLENGE)
    if not (folder / GROUPINGS).is_file():
        raise missing("ham10000", folder, GROUPINGS, "challenge.isic-archive.com (2018, task 3)")
    lesions = {row["image"]: row["lesion_id"] for row in _table(folder / GROUPINGS)}
    rows = [
        {
            "image_id": row["image"],
            "lesion_id": lesions.get(row["image"], ""),
            "dx": max(CLASSES, key=lambda name: float(row[name.upper()])),
        }
        for row in truth
    ]
    return _checked(rows, folder / GROUPINGS)


def _table(path: Path) -> list[dict[str, str]]:
    text = read_bytes(path).decode("utf-8-sig")
    first = text.partition("\n")[0]
    return list(csv.DictReader(io.StringIO(text), delimiter="\t" if "\t" in first else ","))


def _checked(rows: list[dict[str, str]], path: Path) -> list[dict[str, str]]:
    """Refuse rows without a lesion, an image or a known diagnosis."""
    for line, row in enumerate(rows, start=2):
        if not (row.get("lesion_id") and row.get("image_id") and row.get("dx") in CLASSES):
            msg = (
                f"{path} must give lesion_id, image_id and dx (one of {', '.join(CLASSES)}) in "
                f"each row. Line {line} gives {row.get('lesion_id')!r}, {row.get('image_id')!r} "
                f"and {row.get('dx')!r}."
            )
            raise InputError(msg)
    if not rows:
        msg = f"{path} must have at least one row. Got none."
        raise InputError(msg)
    return rows


def _training_rows(rows: list[dict[str, str]]) -> list[bool]:
    """Whether each row is for training: by lesion, the same share of every class."""
    lesions = {row["lesion_id"]: row["dx"] for row in rows}
    rng = np.random.default_rng(0)
    training: set[str] = set()
    for name in CLASSES:
        of_class = sorted(lesion for lesion, dx in lesions.items() if dx == name)
        chosen = rng.permutation(len(of_class))[: round(TRAINING_SHARE * len(of_class))]
        training |= {of_class[i] for i in chosen}
    return [row["lesion_id"] in training for row in rows]
