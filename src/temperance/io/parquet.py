"""Parquet: ``logit_0 … logit_{K-1}``, optional ``label`` and ``group`` (extra: ``parquet``).

Batches of rows go straight into the array that they become; other columns are not read, or kept as
Arrow holds them. Class names lie in the metadata of the file, as JSON under ``classes``. An array
that is large lies in a temporary file that is mapped, so a dataset may exceed the memory, and yet
it is decoded only once for however many passes.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.progress import tracked
from temperance.data.parquet import ParquetBlocks, import_pyarrow
from temperance.io.columns import beside, beside_new, kept, named_in
from temperance.io.table import check_expansion

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from temperance.io.table import Keep, Table

IN_MEMORY = 1 << 28  # bytes of logits that are held; more are mapped


def read_parquet(path: Path, keep: Keep) -> dict[str, Any]:
    """Read a table of logits from a file, or from all files of a directory, in their order."""
    blocks = ParquetBlocks(path)
    shape = (blocks.n, len(blocks.columns))
    size = shape[0] * shape[1] * blocks.dtype.itemsize
    stored = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))
    check_expansion(size, stored, path.name)
    logits = np.empty(shape, blocks.dtype) if size <= IN_MEMORY else _mapped(shape, blocks.dtype)
    header = blocks.dataset.schema
    columns = kept(keep, header.names, blocks.columns, path.name)
    extras = columns if keep == "labels" else {}
    found: dict[str, list[Any]] = {key: [] for key in extras}
    start = 0
    for z, others in tracked(blocks.batches(list(extras.values())), "batches"):
        logits[start : start + len(z)] = z
        start += len(z)
        for key, column in extras.items():
            found[key].extend(others[column].to_pylist())
    metadata = {key.decode(errors="replace"): v for key, v in (header.metadata or {}).items()}
    named = named_in(metadata, path.name)
    if keep == "columns":  # with their types, and cells may be empty
        whole = blocks.checked(blocks.dataset.to_table, columns=list(columns))
        named["columns"] = {key: whole[key] for key in columns}
    return {"logits": logits} | beside(found) | named


def _mapped(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array in a file that has no name and goes when the array does."""
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def write_parquet(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: str) -> None:
    """Write the blocks, a row group each."""
    pa = import_pyarrow()
    prefix = "logit" if name == "logits" else "prob"
    new = [f"{prefix}_{k}" for k in range(table.logits.shape[1])]
    extras = beside_new(table, new)
    named = None if table.classes is None else {"classes": json.dumps(table.classes)}
    start, writer = 0, None
    for block in blocks:
        stop = start + len(block)
        columns = {name: block[:, k] for k, name in enumerate(new)}
        columns |= {key: value[start:stop] for key, value in extras.items()}
        part = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(file, part.schema.with_metadata(named))
        writer.write_table(part)
        start = stop
    if writer is not None:
        writer.close()
