"""Parquet: ``logit_0 … logit_{K-1}``, optional ``label`` and ``group`` (extra: ``parquet``).

Batches of rows go straight into the array that they become; other columns are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._checks import InputError
from temperance._progress import tracked
from temperance.files.columns import beside, columns_of
from temperance.files.table import check_expansion

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from temperance.files.table import Table

BATCH = 1 << 16  # rows


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        msg = "Parquet files need the package pyarrow: pip install temperance[parquet]."
        raise InputError(msg) from error
    return pa


def read_parquet(path: Path) -> dict[str, Any]:
    """Read a table of logits; an error names the row and the column."""
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            return _table(pa, file, path)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        msg = f"{path.name} must be a Parquet file, but it is damaged or none ({reason})."
        raise InputError(msg) from None


def _table(pa: Any, file: Any, path: Path) -> dict[str, Any]:
    schema, n = file.schema_arrow, file.metadata.num_rows
    columns = columns_of(schema.names, path.name)
    for column in columns:
        kind = schema.field(column).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{path.name}, column {column} must be numbers. Got {kind}.")
    kinds = [np.dtype(schema.field(column).type.to_pandas_dtype()) for column in columns]
    dtype = np.result_type(*kinds, np.float16)
    check_expansion(n * len(columns) * dtype.itemsize, path.stat().st_size, path.name)
    extras = [key for key in ("label", "group") if key in schema.names]
    found: dict[str, list[Any]] = {key: [] for key in extras}
    logits = np.empty((n, len(columns)), dtype)
    start = 0
    for batch in tracked(file.iter_batches(BATCH, columns=[*columns, *extras]), "batches"):
        for key in (*columns, *extras):
            if batch[key].null_count:
                row = start + batch[key].is_null().index(True).as_py()
                raise InputError(f"{path.name}, row {row}, column {key} must not be empty.")
        for k, column in enumerate(columns):
            logits[start : start + len(batch), k] = batch[column].to_numpy(zero_copy_only=False)
        for key in extras:
            found[key].extend(batch[key].to_pylist())
        start += len(batch)
    return {"logits": logits} | beside(found)


def write_parquet(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: str) -> None:
    """Write the blocks, a row group each."""
    pa = _pyarrow()
    prefix = "logit" if name == "logits" else "prob"
    extras = {"label": table.labels, "group": table.groups}
    start, writer = 0, None
    for block in blocks:
        stop = start + len(block)
        columns = {f"{prefix}_{k}": block[:, k] for k in range(block.shape[1])}
        columns |= {key: v[start:stop] for key, v in extras.items() if v is not None}
        part = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(file, part.schema)
        writer.write_table(part)
        start = stop
    if writer is not None:
        writer.close()
