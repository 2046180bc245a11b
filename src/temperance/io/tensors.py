"""Safetensors: ``logits``, optional ``labels``, ``prior``, ``groups``; names in the header.

The header lies in front as JSON and the tensors behind it as they are in memory, so they are
mapped, not read. The library's own reader checks the header first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from temperance._core.checks import InputError
from temperance._core.files import check_regular, decoding, opened
from temperance.io.strict_json import parse
from temperance.io.table import Content, Keep, Named, Table, array_named, named_in, spelled

SIZES = {"F": (2, 4, 8), "I": (1, 2, 4, 8), "U": (1, 2, 4, 8)}  # bytes of a number
DTYPES = {f"{k}{8 * size}": f"<{k.lower()}{size}" for k, sizes in SIZES.items() for size in sizes}
DTYPES["BF16"] = "<u2"  # last: integers of 16 bits are written as U16
TENSORS = ("logits", "labels", "prior", "groups")


def read_safetensors(path: Path, keep: Keep, content: Content) -> dict[str, Any]:
    """Map the tensors of a table."""
    check_regular(path)
    with decoding(path.name, "a safetensors file"), safe_open(path, framework="np"):
        pass  # offsets inside the file, disjoint, as long as shape and dtype say
    with opened(path) as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = parse(file.read(length))
        except InputError as error:
            msg = f"{path.name} must be a safetensors file. Its header {error}."
            raise InputError(msg) from None
    metadata = header.get("__metadata__") or {}
    named = array_named(header, content, path.name)
    names = {key: key for key in (named, "prior") if key in header}
    names |= {} if keep == "logits" else spelled(header, path.name)
    found = {key: _tensor(path, 8 + length, name, header[name]) for key, name in names.items()}
    return found | named_in(metadata, path.name)


def _tensor(path: Path, base: int, key: str, facts: dict[str, Any]) -> NDArray[Any]:
    if facts["dtype"] not in DTYPES:
        known = ", ".join(DTYPES)
        raise InputError(f"{key} in {path.name} must be of one of {known}. Got {facts['dtype']}.")
    shape, (begin, end) = tuple(facts["shape"]), facts["data_offsets"]
    dtype = np.dtype(DTYPES[facts["dtype"]])
    if begin == end:
        return np.empty(shape, dtype)
    tensor = np.memmap(path, dtype, "r", base + begin, shape)
    if facts["dtype"] == "BF16":  # the upper half of a float32
        return (tensor.astype(np.uint32) << 16).view(np.float32)
    return tensor


def write_safetensors(
    file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: Named
) -> None:
    """Write header and tensors, the logits block by block."""
    others = {key: getattr(table, key) for key in TENSORS[1:]}
    arrays = {k: np.ascontiguousarray(v) for k, v in others.items() if v is not None}
    arrays = {k: v for k, v in arrays.items() if v.dtype.kind != "U"}  # tensors hold no names
    blocks = iter(blocks)
    first = next(blocks)
    place, header = 0, {}
    if table.classes is not None:
        header["__metadata__"] = {"classes": json.dumps(table.classes)}
    sizes = {name: (first.dtype, table.logits.shape)}
    sizes |= {key: (value.dtype, value.shape) for key, value in arrays.items()}
    for key, (dtype, shape) in sizes.items():
        nbytes = dtype.itemsize * int(np.prod(shape))
        header[key] = {
            "dtype": next(name for name, code in DTYPES.items() if np.dtype(code) == dtype),
            "shape": [int(s) for s in shape],
            "data_offsets": [place, place + nbytes],
        }
        place += nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    file.write(np.ascontiguousarray(first).data)
    for block in blocks:
        file.write(np.ascontiguousarray(block).data)
    for value in arrays.values():
        file.write(value.data)
