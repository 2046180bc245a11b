"""CIFAR-10 and CIFAR-100: Krizhevsky (2009). Python batches, binary batches, or .npz."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from temperance import InputError
from temperance_lab.datasets.batches import read_batch
from temperance_lab.datasets.dataset import Dataset
from temperance_lab.datasets.files import (
    check_published,
    find,
    missing,
    read_bytes,
    read_npz,
    tar_members,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_cifar10", "load_cifar100"]

PIXELS = 3 * 32 * 32
HOME = "www.cs.toronto.edu/~kriz/cifar.html"


class _Version(NamedTuple):
    """One of the published forms of a data set."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str


BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
BINARY = tuple(f"{batch}.bin" for batch in BATCHES)
VERSIONS = {
    "cifar10": (
        _Version(
            "cifar-10-batches-py",
            "cifar-10-python.tar.gz",
            BATCHES,
            ("test_batch",),
            "batches.meta",
        ),
        _Version(
            "cifar-10-batches-bin",
            "cifar-10-binary.tar.gz",
            BINARY,
            ("test_batch.bin",),
            "batches.meta.txt",
        ),
    ),
    "cifar100": (
        _Version("cifar-100-python", "cifar-100-python.tar.gz", ("train",), ("test",), "meta"),
        _Version(
            "cifar-100-binary",
            "cifar-100-binary.tar.gz",
            ("train.bin",),
            ("test.bin",),
            "fine_label_names.txt",
        ),
    ),
}
CLASSES = {
    "cifar10": (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    "cifar100": tuple(map(str, range(100))),  # when neither version's list of names is there
}


def load_cifar10(data_dir: Path) -> Dataset:
    """50,000 + 10,000 colour images of 32 x 32 in ten classes.

    Without any of the published forms ``cifar10_small.npz``, a part of your choice, is taken.
    """
    return _load(data_dir, "cifar10")


def load_cifar100(data_dir: Path) -> Dataset:
    """50,000 + 10,000 colour images of 32 x 32 in a hundred (fine) classes."""
    return _load(data_dir, "cifar100")


def _load(data_dir: Path, name: str) -> Dataset:
    npz = find(data_dir, (name,), [f"{name}.npz"])
    if npz is not None:
        return _from_npz(npz, name)
    small = find(data_dir, (name,), [f"{name}_small.npz"])
    if small is not None and not _published(data_dir, name):
        return _from_npz(small, name)
    version, content = _contents(data_dir, name)
    parts = []
    for files in (version.train, version.test):
        images, labels = zip(*(_batch(content[file], file, name) for file in files), strict=True)
        parts += [np.concatenate(images), np.concatenate(labels)]
    return Dataset(*parts, classes=_names(content, version.meta) or CLASSES[name])


def _from_npz(path: Path, name: str) -> Dataset:
    arrays = read_npz(path)
    y_train, y_test = (arrays[key].ravel().astype(np.int64) for key in ("y_train", "y_test"))
    classes = tuple(map(str, arrays["classes"])) if "classes" in arrays else CLASSES[name]
    return Dataset(arrays["x_train"], y_train, arrays["x_test"], y_test, classes)


def _published(data_dir: Path, name: str) -> bool:
    """Whether one of the published forms is there."""
    forms = [form for version in VERSIONS[name] for form in (version.folder, version.archive)]
    return find(data_dir, (name,), forms) is not None


def _contents(data_dir: Path, name: str) -> tuple[_Version, dict[str, bytes]]:
    """Read the files of the first version that is there, unpacked or not, by their names."""
    for version in VERSIONS[name]:
        wanted = (*version.train, *version.test)
        folder = find(data_dir, (name,), [version.folder])
        archive = find(data_dir, (name,), [version.archive])
        if folder is not None:
            for file in wanted:
                if not (folder / file).is_file():
                    raise missing(name, folder, file, HOME)
                check_published(folder / file, f"{version.folder}/{file}")
            present = [file for file in (*wanted, version.meta) if (folder / file).is_file()]
            return version, {file: read_bytes(folder / file) for file in present}
        if archive is not None:
            check_published(archive, archive.name)
            content = {PurePosixPath(file).name: data for file, data in tar_members(archive)}
            for file in wanted:
                if file not in content:
                    msg = f"{archive} must hold {wanted}. It has no {file}; fetch it again."
                    raise InputError(msg)
            return version, content
    archives = " or ".join(version.archive for version in VERSIONS[name])
    what = f"{archives}, unpacked or not, or {name}.npz or {name}_small.npz,"
    raise missing(name, data_dir, what, HOME)


def _batch(content: bytes, file: str, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and (fine) labels of one file of either version."""
    if file.endswith(".bin"):
        n_labels = 2 if name == "cifar100" else 1  # coarse and fine, or one
        if not content or len(content) % (n_labels + PIXELS):
            msg = (
                f"{file} must hold rows of {n_labels + PIXELS} bytes. It has {len(content)} bytes."
            )
            raise InputError(msg)
        rows = np.frombuffer(content, np.uint8).reshape(-1, n_labels + PIXELS)
        data, labels = rows[:, n_labels:], rows[:, n_labels - 1]
    else:
        batch = read_batch(content, file)
        data = batch.get("data")
        labels = np.asarray(batch.get("fine_labels" if name == "cifar100" else "labels", ()))
    shape = np.shape(data) if isinstance(data, np.ndarray) and data.dtype == np.uint8 else None
    if shape is None or shape != (len(labels), PIXELS) or labels.dtype.kind not in "iu":
        msg = (
            f"{file} must hold data of shape (n, {PIXELS}) and n whole labels. Got shape {shape} "
            f"and {len(labels)} labels of type {labels.dtype}."
        )
        raise InputError(msg)
    planes = np.asarray(data).reshape(-1, 3, 32, 32)  # a red, a green and a blue image
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.int64)


def _names(content: dict[str, bytes], meta: str) -> tuple[str, ...]:
    """Class names, when the version's list of them is there."""
    if meta not in content:
        return ()
    if meta.endswith(".txt"):
        return tuple(content[meta].decode().split())
    batch = read_batch(content[meta], meta)
    names = batch.get("fine_label_names", batch.get("label_names", ()))
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
