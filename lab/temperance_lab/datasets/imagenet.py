"""ImageNet's validation set: Russakovsky et al. (2015). One folder per class, by WordNet id.

The published archive is flat; the folders are what the usual preparation script makes of it.
Classes are numbered in the order of their ids, as trained networks expect when all 1,000 are there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.datasets.dataset import Dataset
from temperance_lab.datasets.files import missing, read_bytes
from temperance_lab.datasets.photographs import is_photograph, read_photographs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_imagenet"]

PLACES = ("val", "imagenet/val", "imagenet", "ILSVRC2012_img_val", "")


def load_imagenet(data_dir: Path, size: int | None) -> Dataset:
    """50,000 photographs of 1,000 classes, all for testing; 7 GB at 224 x 224."""
    for place in PLACES:
        root = data_dir / place
        ids = sorted(p.name for p in root.glob("n*") if re.fullmatch(r"n\d{8}", p.name))
        if ids:
            break
    else:
        what = "val/n01440764/ILSVRC2012_val_….JPEG and so on, a folder for each WordNet id,"
        raise missing("imagenet", data_dir, what, "www.image-net.org (ILSVRC2012_img_val.tar)")
    files = [
        (label, path)
        for label, name in enumerate(ids)
        for path in sorted((root / name).iterdir())
        if is_photograph(path.name)
    ]
    readers = {str(path): path.read_bytes for _, path in files}
    x_test = read_photographs(readers, list(readers), size)
    y_test = np.array([label for label, _ in files], dtype=np.int64)
    names = _names(data_dir, root)
    classes = tuple(names.get(name, name) for name in ids)
    nothing = np.empty((0, *x_test.shape[1:]), dtype=np.uint8), np.empty(0, dtype=np.int64)
    return Dataset(*nothing, x_test, y_test, classes)


def _names(*folders: Path) -> dict[str, str]:
    """Class names by WordNet id, when ``LOC_synset_mapping.txt`` is there."""
    for folder in folders:
        path = folder / "LOC_synset_mapping.txt"
        if path.is_file():
            rows = (line.split(maxsplit=1) for line in read_bytes(path).decode().splitlines())
            return {row[0]: row[1] for row in rows if len(row) == 2}
    return {}
