"""Parquet: ``logit_0 … logit_{K-1}``, optional ``label`` and ``group`` (extra: ``parquet``).

Batches of rows go straight into the array that they become; other columns are not read, or kept as
Arrow holds them. Class names lie in the metadata of the file, as JSON under ``classes``. An array
that is large lies in a temporary file that is mapped, so a dataset may exceed the memory, and yet
it is decoded only once for however many passes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError
from temperance._core.files import check_expansion
from temperance._core.progress import tracked
from temperance.data.columns import Prefix
from temperance.data.parquet import ParquetBlocks, import_pyarrow, parquet_files, values_of
from temperance.io import table as tables
from temperance.io.table import PREFIXES, Content, Keep, Named, Table

IN_MEMORY = 1 << 28  # bytes of logits that are held; more are mapped


def read_parquet(path: Path, keep: Keep, content: Content) -> dict[str, Any]:
    """Read a table of logits from a file, or from all files of a directory, in their order."""

    def choose(header: Sequence[str]) -> Prefix:
        return PREFIXES[tables.columns_named(header, content, path.name)]

    blocks = ParquetBlocks(path, choose)
    shape = (blocks.n, len(blocks.columns))
    size = shape[0] * shape[1] * blocks.dtype.itemsize
    stored = sum(file.stat().st_size for file in parquet_files(path))
    check_expansion(size, stored, path.name)
    header = blocks.schema.names
    columns = tables.kept(keep, header, blocks.columns, path.name)
    named = tables.named_in(_metadata(blocks.schema), path.name)
    for part in blocks.parts:
        blocks.check_alike(part, list(columns.values()))
        if tables.named_in(_metadata(part.schema), part.name) != named:
            first = blocks.parts[0].name
            raise InputError(f"{part.name} must name the classes as {first} does, or not at all.")
    if size <= IN_MEMORY:
        logits = np.empty(shape, blocks.dtype)
    else:  # a file that has no name and goes when the array does
        with tempfile.TemporaryFile() as file:
            logits = np.memmap(file, blocks.dtype, "w+", shape=shape)
    extras = columns if keep == "labels" else {}
    found: dict[str, list[Any]] = {key: [] for key in extras}
    start = 0
    for z, others in tracked(blocks.batches(list(extras.values())), "batches"):
        logits[start : start + len(z)] = z
        start += len(z)
        for key, column in extras.items():
            found[key].extend(values_of(others[column], column))
    if keep == "columns":  # with their types, and cells may be empty
        whole = blocks.table(list(columns))
        named["columns"] = {key: whole[key] for key in columns}
        named["in_front"] = tables.count_in_front(header, blocks.columns)
    name = next(name for name, prefix in PREFIXES.items() if prefix == blocks.prefix)
    return {name: logits} | {key: tables.as_labels(cells) for key, cells in found.items()} | named


def _metadata(schema: Any) -> dict[str, bytes]:
    return {key.decode(errors="replace"): v for key, v in (schema.metadata or {}).items()}


def write_parquet(
    file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: Named
) -> None:
    """Write the blocks, a row group each."""
    pa = import_pyarrow()
    named = None if table.classes is None else {"classes": json.dumps(table.classes)}
    writer = None
    for columns in table.written(blocks, name):
        part = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(file, part.schema.with_metadata(named))
        writer.write_table(part)
    if writer is not None:
        writer.close()
