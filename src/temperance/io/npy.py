"""NumPy's own formats: ``.npy``, one array of logits, and ``.npz``, a zip of named arrays.

An array that is stored as it is, alone or inside a zip, is mapped into memory, not read. A
compressed one is unpacked straight into the array that it becomes. Object arrays are pickles, and
pickles run code: they are refused by their header, before anything else is read.
"""

from __future__ import annotations

import io
import math
import struct
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from temperance._core.checks import InputError
from temperance._core.files import check_expansion, decoding, opened
from temperance.io.table import Content, Keep, Named, Table, array_named, spelled

ARRAYS = ("logits", "labels", "classes", "prior", "groups")
AXES = 8  # of an array; a table has two
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
ZIP = "a NumPy .npz file, a zip of arrays"


class Header(NamedTuple):
    """Header of an array: shape, order, type of the numbers, and its own length."""

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
    with opened(path) as file:
        header = _header(file, path.name)
    return _text_checked(_map(path, 0, header, path.name), path.name)


def read_npy(path: Path, _: Keep, content: Content) -> dict[str, Any]:
    """Map the logits of a ``.npy`` file."""
    del content  # such a file has no names
    return {"logits": read_array(path)}


def read_npz(path: Path, keep: Keep, content: Content) -> dict[str, Any]:
    """Map or unpack the arrays of a ``.npz`` file that a table is made of."""
    with opened(path) as file, decoding(path.name, ZIP), zipfile.ZipFile(file) as archive:
        members = _members(archive, path.name)
        named = array_named(members, content, path.name)
        names = {key: key for key in (named, "classes", "prior") if key in members}
        names |= {} if keep == "logits" else spelled(members, path.name)
        found: dict[str, Any] = {}
        for key, name in names.items():  # the logits first: they have a column for each class
            size = math.prod(found[named].shape[1:]) if key == "classes" else None
            found[key] = _member(archive, members[name], path.name, path, size)
        if "classes" in found:
            found["classes"] = found["classes"].ravel().tolist()
    return found


def unpack_npz(data: bytes, names: Iterable[str], what: str) -> list[NDArray[Any]]:
    """Return named arrays of a ``.npz`` file in memory; errors call the file ``what``."""
    with decoding(what, ZIP), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = _members(archive, what)
        return [_member(archive, members[name], what, None) for name in names]


def _members(archive: zipfile.ZipFile, what: str) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise InputError(f"{what} must hold each array once. It holds {name!a} twice.")
        members[name] = info
    return members


def _member(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    what: str,
    path: Path | None,
    size: int | None = None,
) -> NDArray[Any]:
    """Return an array of an archive; one that is stored as it is in a file is mapped.

    An array that does not hold ``size`` values, where that is given, is refused unread.
    """
    name = f"{info.filename} in {what}"
    if info.flag_bits & 1:
        raise InputError(f"{name} must not be encrypted. Save the arrays again without a password.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        msg = f"{name} must be stored or deflated, as numpy.savez and savez_compressed do"
        raise InputError(f"{msg}. It is compressed in another way.")
    check_expansion(info.file_size, info.compress_size, name)
    with archive.open(info) as stream:
        header = _header(stream, name)
        if header.length + header.nbytes != info.file_size:
            raise _cut(name, header, info.file_size - header.length)
        if size is not None and math.prod(header.shape) != size:
            msg = f"{name} must hold {size:,} values, one per column of the logits. It holds"
            raise InputError(f"{msg} {math.prod(header.shape):,}.")
        if path is not None and info.compress_type == zipfile.ZIP_STORED:
            return _text_checked(_map(path, _offset(path, info), header, name), name)
    with archive.open(info) as stream:
        try:
            array = npy.read_array(stream, allow_pickle=False)
        except ValueError:
            raise _cut(name, header, stream.tell() - header.length) from None
        stream.read(1)  # at the end of the stream its checksum is compared
    return _text_checked(array, name)


def _text_checked(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Raise at a character beyond Unicode, of which Python would make a broken text."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder + "u4")
        if codes.max() > sys.maxunicode:
            msg = f"{name} must hold text. It holds a character that Unicode lacks"
            raise InputError(f"{msg}: the file is damaged; copy it again.")
    return array


def _offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Place of a member's bytes: its local header has a name and an extra field of its own."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + sum(lengths)


def _header(stream: IO[bytes], name: str) -> Header:
    """Read what stands before the numbers."""
    try:
        shape, fortran, dtype = HEADERS[npy.read_magic(stream)](stream)
        sound = isinstance(shape, tuple) and all(type(s) is int and s >= 0 for s in shape)
        sound = sound and len(shape) <= AXES and type(fortran) is bool
        sound = sound and math.prod(max(1, s) for s in shape) * dtype.itemsize < 1 << 62
    except Exception:  # noqa: BLE001 - whatever a damaged header raises
        sound, shape, fortran, dtype = False, (), False, np.dtype(float)
    if not sound:
        raise InputError(
            f"{name} must be an array in NumPy's format, and a pickle is never read. It is neither:"
            f" write it with numpy.save or numpy.savez."
        )
    if dtype.hasobject or dtype.names or dtype.itemsize == 0:
        raise InputError(
            f"{name} must hold numbers or strings. Got an object array or records: save numbers as "
            f"floats and names with dtype=str; an object array is a pickle, whose reading can run "
            f"code."
        )
    return Header(shape, fortran, dtype, stream.tell())


def _map(path: Path, offset: int, header: Header, name: str) -> NDArray[Any]:
    shape, fortran, dtype, length = header
    held = path.stat().st_size - offset - length
    if header.nbytes > held:
        raise _cut(name, header, max(0, held))
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
    """Write the blocks as one array; a ``.npy`` file holds nothing beside it."""
    _write_array(file, blocks, table.logits.shape)


def write_npz(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: Named) -> None:
    """Write the blocks, and what else the table holds, as named arrays."""
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            _write_array(member, blocks, table.logits.shape)
        for key in ARRAYS[1:]:
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
