"""Files of others: found where the official layouts put them, checked, and read within bounds.

Nothing here trusts a file: no pickle is run, no archive is unpacked to disk, and whatever says how
large it is gets refused, before it is read, when that is absurd.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "MAX_BYTES",
    "MAX_MEMBER",
    "check_published",
    "check_size",
    "find",
    "missing",
    "read_bytes",
    "read_npz",
    "reading",
    "tar_members",
]

MAX_BYTES = 8 << 30
"""More than any array here holds: 50,000 photographs of 224 x 224 are 7 GiB."""

MAX_MEMBER = 1 << 28
"""Bytes of a batch or photograph; the largest, the training set of CIFAR-100, has 155 MB."""

# Length and MD5 of the files as published: for CIFAR on its page, for the others, whose pages give
# none, as the common loaders agree.
PUBLISHED = {
    "cifar-10-python.tar.gz": (170_498_071, "c58f30108f718f92721af3b95e74349a"),
    "cifar-10-binary.tar.gz": (170_052_171, "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar-100-python.tar.gz": (169_001_437, "eb9058c3a382ffc7106e4002c42a8d85"),
    "cifar-100-binary.tar.gz": (168_513_733, "03b5dce01913d631647c71ecec9e9cb8"),
    "cifar-10-batches-py/data_batch_1": (31_035_704, "c99cafc152244af753f735de768cd75f"),
    "cifar-10-batches-py/data_batch_2": (31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
    "cifar-10-batches-py/data_batch_3": (31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
    "cifar-10-batches-py/data_batch_4": (31_035_696, "634d18415352ddfa80567beed471001a"),
    "cifar-10-batches-py/data_batch_5": (31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
    "cifar-10-batches-py/test_batch": (31_035_526, "40351d587109b95175f43aff81a1287e"),
    "cifar-100-python/train": (155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
    "cifar-100-python/test": (31_049_893, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    "mnist/train-images-idx3-ubyte.gz": (9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "mnist/train-labels-idx1-ubyte.gz": (28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    "mnist/t10k-images-idx3-ubyte.gz": (1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    "mnist/t10k-labels-idx1-ubyte.gz": (4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
    "fashion-mnist/train-images-idx3-ubyte.gz": (26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    "fashion-mnist/train-labels-idx1-ubyte.gz": (29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    "fashion-mnist/t10k-images-idx3-ubyte.gz": (4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": (5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    "train_32x32.mat": (182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test_32x32.mat": (64_275_384, "eb5a983be6a315427106f1b164d9cef3"),
}


def find(data_dir: Path, folders: Iterable[str], names: Iterable[str]) -> Path | None:
    """Return the first of ``names`` that exists, in ``data_dir`` or one of its ``folders``."""
    wanted = tuple(names)
    for folder in ("", *folders):
        for name in wanted:
            path = data_dir / folder / name
            if path.exists():
                return path
    return None


def missing(name: str, data_dir: Path, what: str, source: str) -> InputError:
    """Say what to place where."""
    return InputError(
        f"data_dir must hold the files of {name!r}. Put {what} into {data_dir}; they come from "
        f"{source}."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong with a broken file into one sentence that names it."""
    broken = (OSError, EOFError, ValueError, KeyError, zlib.error, tarfile.TarError)
    try:
        yield
    except InputError:
        raise
    except (*broken, zipfile.BadZipFile, NotImplementedError) as error:
        msg = f"data_dir must hold readable files. {path} is not: {error}; fetch it again."
        raise InputError(msg) from error


def check_size(n_bytes: int, path: Path, limit: int | None = None) -> None:
    """Refuse what claims to be larger than anything that belongs here."""
    limit = MAX_BYTES if limit is None else limit
    if not 0 <= n_bytes <= limit:
        msg = (
            f"data_dir must hold files of the size of their data set. {path} claims {n_bytes:,} "
            f"bytes, more than the {limit:,} allowed; it is broken or hostile."
        )
        raise InputError(msg)


def check_published(path: Path, name: str) -> None:
    """Compare a file's MD5 with the published one when it has the published length.

    A file of another length is somebody's subset or recompression, and has only to be consistent.
    """
    length, published = PUBLISHED.get(name, (-1, ""))
    if path.stat().st_size != length:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != published:
        msg = (
            f"data_dir must hold intact files. {path} has the published length but MD5 {found}, "
            f"not {published}; fetch it again."
        )
        raise InputError(msg)


def read_bytes(path: Path, n_bytes: int | None = None) -> bytes:
    """Read a file, decompressed when it ends in .gz: all of it, or at most ``n_bytes``."""
    limit = MAX_MEMBER if n_bytes is None else n_bytes
    with reading(path), (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        content = file.read(limit + 1)
    if n_bytes is None:
        check_size(len(content), path, MAX_MEMBER)
    return content


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays ``x_train y_train x_test y_test`` and perhaps ``classes`` of an .npz, no pickle."""
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            check_size(sum(member.file_size for member in archive.infolist()), path)
        with np.load(path, allow_pickle=False) as arrays:
            names = ["x_train", "y_train", "x_test", "y_test"]
            return {name: arrays[name] for name in names + ["classes"] * ("classes" in arrays)}


def tar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the regular files of a tar archive, in memory."""
    with reading(path), tarfile.open(path, "r:*") as archive:
        for member in archive:
            if member.isreg():
                check_size(member.size, path, MAX_MEMBER)
                file = archive.extractfile(member)
                if file is not None:
                    yield member.name, file.read()
