"""Caltech-UCSD Birds 200-2011: Wah et al. (2011). The folder ``CUB_200_2011`` as it is published.

``images.txt``, ``image_class_labels.txt`` and ``train_test_split.txt`` give for each image number
its file, its class from 1 to 200, and whether it is for training; ``classes.txt`` has the names.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from temperance import InputError
from temperance_lab.datasets.dataset import Dataset
from temperance_lab.datasets.files import find, missing, read_bytes
from temperance_lab.datasets.photographs import read_photographs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_cub200"]

TABLES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def load_cub200(data_dir: Path, size: int | None) -> Dataset:
    """5,994 + 5,794 photographs of 200 species of birds, in the published split."""
    folder = find(data_dir, ("cub200",), ["CUB_200_2011"])
    if folder is None or not all((folder / table).is_file() for table in TABLES):
        what = "the unpacked folder CUB_200_2011, with images.txt and the other tables in it,"
        source = "www.vision.caltech.edu/datasets/cub_200_2011"
        raise missing("cub200", data_dir, what, source)
    files, labels, training, names = (_table(folder / table) for table in TABLES)
    for file in files.values():
        if ".." in PurePosixPath(file).parts or PurePosixPath(file).is_absolute():
            msg = (
                f"{folder / TABLES[0]} must name files below images. Got {file!r}; fetch it again."
            )
            raise InputError(msg)
    absent = [key for key in files if key not in labels or key not in training]
    if absent:
        msg = f"{folder} must label every image. Image {absent[0]} has no class or no split."
        raise InputError(msg)
    readers = {file: (folder / "images" / file).read_bytes for file in files.values()}
    parts = []
    for part in ("1", "0"):
        chosen = [key for key in files if training[key] == part]
        parts.append(read_photographs(readers, [files[key] for key in chosen], size))
        parts.append(np.array([int(labels[key]) - 1 for key in chosen], dtype=np.int64))
    return Dataset(*parts, classes=tuple(names.values()))


def _table(path: Path) -> dict[str, str]:
    """Rows ``number value`` as a dictionary, in the order of the file."""
    rows = (line.split(maxsplit=1) for line in read_bytes(path).decode().splitlines())
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}
