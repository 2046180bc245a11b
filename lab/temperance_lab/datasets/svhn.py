"""SVHN, cropped digits: Netzer et al. (2011). ``train_32x32.mat`` and ``test_32x32.mat``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.io import loadmat, whosmat

from temperance_lab.datasets.dataset import Dataset
from temperance_lab.datasets.files import check_published, check_size, find, missing, reading

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_svhn"]


def load_svhn(data_dir: Path) -> Dataset:
    """73,257 + 26,032 colour images of house-number digits, 32 x 32."""
    parts = []
    for part in ("train", "test"):
        file = f"{part}_32x32.mat"
        path = find(data_dir, ("svhn", "SVHN"), [file])
        if path is None:
            source = "ufldl.stanford.edu/housenumbers"
            raise missing("svhn", data_dir / "svhn", "train_32x32.mat and test_32x32.mat", source)
        check_published(path, file)
        parts += _read(path)
    return Dataset(*parts, classes=tuple("0123456789"))


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with reading(path):
        shapes = {name: shape for name, shape, _ in whosmat(path)}
        check_size(int(np.prod([int(side) for side in shapes["X"]], dtype=object)), path)
        content = loadmat(path, variable_names=["X", "y"])
    x = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
    y = content["y"].ravel().astype(np.int64)
    return x, np.where(y == 10, 0, y)  # the file calls the digit 0 "10"
