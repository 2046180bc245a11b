"""The data sets of the paper, read from their official layouts.

Nothing is downloaded: files are looked for in a directory of yours, and an error says what to put
where. Nothing is trusted either: no pickle is run, archives stay packed, sizes are bounded, and
files of the published length must have the published checksum.

Examples
--------
>>> from temperance_lab import datasets
>>> datasets.load("mnist-5k")
Dataset(3000 training and 2000 test images of 28x28x1, 10 classes)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from temperance import InputError
from temperance_lab.checks import check_choice, check_integer
from temperance_lab.datasets.cifar import load_cifar10, load_cifar100
from temperance_lab.datasets.cub200 import load_cub200
from temperance_lab.datasets.dataset import Dataset, Split
from temperance_lab.datasets.ham10000 import load_ham10000
from temperance_lab.datasets.imagenet import load_imagenet
from temperance_lab.datasets.mnist import load_fashion_mnist, load_mnist, load_mnist_5k
from temperance_lab.datasets.svhn import load_svhn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NAMES", "Dataset", "Split", "load"]

_OF_ONE_SIZE: dict[str, Callable[[Path], Dataset]] = {
    "mnist": load_mnist,
    "fashion-mnist": load_fashion_mnist,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "svhn": load_svhn,
}
_PHOTOGRAPHS: dict[str, Callable[[Path, int | None], Dataset]] = {
    "cub200": load_cub200,
    "ham10000": load_ham10000,
    "imagenet": load_imagenet,
}
NAMES = ("mnist-5k", *_OF_ONE_SIZE, *_PHOTOGRAPHS)


def load(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, size: int | None = None
) -> Dataset:
    """Load a data set from files in their official layout.

    Parameters
    ----------
    name
        ``"mnist-5k"``, which needs no files; ``"mnist"``, ``"fashion-mnist"``, ``"cifar10"``,
        ``"cifar100"``, ``"svhn"``; ``"cub200"``, ``"ham10000"`` (ISIC 2018,
        task 3) and ``"imagenet"`` (validation).
    data_dir
        Where the files are, there or in the folder their archive unpacks to; the environment
        variable ``TEMPERANCE_DATA`` when not given.
    size
        Side, in pixels, of photographs (the last three names): the shorter side is scaled to it and
        the centre cut out. 224, or the shorter side of the first photograph if that is less.

    Examples
    --------
    >>> from temperance_lab import datasets
    >>> data = datasets.load("mnist-5k")
    >>> data.x_train.shape, data.x_train.dtype, data.y_train[:5].tolist()
    ((3000, 28, 28, 1), dtype('uint8'), [4, 8, 1, 0, 9])
    """
    name = check_choice(name, NAMES, "name")
    if size is not None:
        size = check_integer(size, "size", low=1)
        if name not in _PHOTOGRAPHS:
            msg = f"size must be left out for {name!r}, whose images have one. Got {size}."
            raise InputError(msg)
    if name == "mnist-5k":
        return load_mnist_5k()
    directory = _directory(data_dir, name)
    if name in _PHOTOGRAPHS:
        return _PHOTOGRAPHS[name](directory, size)
    return _OF_ONE_SIZE[name](directory)


def _directory(data_dir: str | os.PathLike[str] | None, name: str) -> Path:
    named = data_dir if data_dir is not None else os.environ.get("TEMPERANCE_DATA")
    if not named:
        msg = (
            f"data_dir must be given for {name!r}, or TEMPERANCE_DATA set to a directory. Got "
            f"neither; only 'mnist-5k' needs no files."
        )
        raise InputError(msg)
    directory = Path(named)
    if not directory.is_dir():
        msg = f"data_dir must be a directory. Got {str(directory)!r}, which is none."
        raise InputError(msg)
    return directory
