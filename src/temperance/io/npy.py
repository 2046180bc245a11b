"""NumPy's own formats: ``.npy``, one array of logits, and ``.npz``, a zip of named arrays.

An array that is stored as it is, alone or inside a zip, is mapped into memory, not read. A
compressed one is unpacked straight into the array that it becomes. Object arrays are pickles, and
pickles run code: they are refused by their header, before anything else is read.
"""

from __future__ import annotations

import io
import math
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from temperance._core.checks import InputError
from temperance.io.columns import spelled
from temperance.io.table import check_expansion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from temperance.io.table import Keep, Table

KEYS = ("logits", "labels", "classes", "prior", "groups")
CHUNK = 1 << 24  # bytes unpacked at a time


class Header(NamedTuple):
    """What stands before the numbers of an array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int

    @property
    def nbytes(self) -> int:
        """Return the size of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_array(path: Path) -> NDArray[Any]:
    """Map the array of a ``.npy`` file."""
    with path.open("rb") as file:
        header = _header(file, path.name)
    return _map(path, 0, path.stat().st_size, header, path.name)


def read_npy(path: Path, _: Keep) -> dict[str, Any]:
    """Map the logits of a ``.npy`` file."""
    return {"logits": read_array(path)}


def read_npz(path: Path, keep: Keep) -> dict[str, Any]:
    """Map or unpack the arrays of a ``.npz`` file that a table is made of."""
    with _opened(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if "logits" not in members:
            held = ", ".join(list(members)[:8]) or "nothing"
            msg = (
                f"{path.name} must hold an array named 'logits', (n, K). It holds {held}; write it "
                f"with numpy.savez(path, logits=..., labels=...)."
            )
            raise InputError(msg)
        names = {key: key for key in ("logits", "classes", "prior") if key in members}
        names |= {} if keep == "logits" else spelled(members, path.name)
        found: dict[str, Any] = {
            key: _member(path, archive, members[name]) for key, name in names.items()
        }
    if "classes" in found:
        found["classes"] = found["classes"].ravel().tolist()
    return found


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        msg = f"{path.name} must be a NumPy .npz file, a zip of arrays, but it is not ({error})."
        raise InputError(msg) from None


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    name = f"{info.filename} in {path.name}"
    if info.flag_bits & 1:
        msg = f"{name} must not be encrypted. Save the arrays again without a password."
        raise InputError(msg)
    check_expansion(info.file_size, info.compress_size, name)
    with archive.open(info) as stream:
        header = _header(stream, name)
        if header.length + header.nbytes != info.file_size:
            raise _cut(name, header, info.file_size - header.length)
        if info.compress_type == zipfile.ZIP_STORED:
            return _map(path, _offset(path, info), info.file_size, header, name)
        return _unpack(stream, header)


def _offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Place of a member's bytes: its local header has a name and an extra field of its own."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    return (
        info.header_offset + 30 + sum(int.from_bytes(local[i : i + 2], "little") for i in (26, 28))
    )


def _unpack(stream: IO[bytes], header: Header) -> NDArray[Any]:
    array = np.empty(header.shape, header.dtype, "F" if header.fortran else "C")
    flat = array.reshape(-1, order="A").view(np.uint8)
    for start in range(0, flat.size, CHUNK):
        part = stream.read(min(CHUNK, flat.size - start))
        flat[start : start + len(part)] = np.frombuffer(part, np.uint8)
    stream.read(1)  # at the end of the stream its checksum is compared
    return array


def _header(stream: IO[bytes], name: str) -> Header:
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, TypeError, SyntaxError, OverflowError, MemoryError):
        msg = (
            f"{name} must be an array in NumPy's format, and a pickle is never read. It is neither"
        )
        raise InputError(f"{msg}: write it with numpy.save or numpy.savez.") from None
    if dtype.hasobject:
        msg = (
            f"{name} must hold numbers or strings. Got an object array, whose reading can run code"
        )
        raise InputError(f"{msg}: save numbers as floats and names with dtype=str.")
    return Header(tuple(shape), fortran, dtype, stream.tell())


def _map(path: Path, offset: int, size: int, header: Header, name: str) -> NDArray[Any]:
    shape, fortran, dtype, length = header
    if header.nbytes > size - length:
        raise _cut(name, header, size - length)
    if header.nbytes == 0:
        return np.empty(shape, dtype)
    order = "F" if fortran else "C"
    return np.memmap(path, dtype, "r", offset + length, shape, order)


def _cut(name: str, header: Header, held: int) -> InputError:
    return InputError(
        f"{name} must hold {header.nbytes:,} bytes for shape {header.shape}. It holds {held:,}: "
        f"the file is damaged or was cut short; copy it again."
    )


def write_npy(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, _: str) -> None:
    """Write the blocks as one array; a ``.npy`` file has no room for anything else."""
    _write_array(file, blocks, table.logits.shape)


def write_npz(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: str) -> None:
    """Write the blocks, and what else the table holds, as named arrays."""
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            _write_array(member, blocks, table.logits.shape)
        for key in KEYS[1:]:
            value = getattr(table, key)
            if value is not None:
                buffer = io.BytesIO()
                np.save(buffer, np.asarray(value), allow_pickle=False)
                archive.writestr(f"{key}.npy", buffer.getvalue())


def _write_array(stream: IO[bytes], blocks: Iterable[NDArray[Any]], shape: tuple[int, ...]) -> None:
    for i, block in enumerate(blocks):
        if i == 0:
            descr = npy.dtype_to_descr(block.dtype)
            facts = {"descr": descr, "fortran_order": False, "shape": tuple(map(int, shape))}
            npy.write_array_header_1_0(stream, facts)
        stream.write(np.ascontiguousarray(block).data)
