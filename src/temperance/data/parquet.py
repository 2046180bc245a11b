"""Parquet as a stream: ``logit_0 … logit_{K-1}`` and ``label`` (extra: ``parquet``).

One file, a directory of them, or a ``pyarrow.dataset``, which may lie elsewhere, be partitioned or
be filtered. Other columns are not read. Arrow holds about one row group at a time; write row groups
of 10 to 100 MB.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks import InputError
from temperance.data.columns import LABEL, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ELEMENTS = 1 << 20  # of a batch
BUFFER = 1 << 16  # bytes that are read of a column at a time


def import_pyarrow() -> Any:
    """Return pyarrow with its readers of Parquet, or say how to install it."""
    try:
        import pyarrow as pa
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        msg = "Parquet files need the package pyarrow: pip install temperance[parquet]."
        raise InputError(msg) from error
    return pa


class ParquetBlocks:
    """Blocks ``logits`` or ``(logits, labels)`` of Parquet, read anew whenever they are iterated.

    Parameters
    ----------
    source : path of a file or directory, or ``pyarrow.dataset.Dataset``
    """

    def __init__(self, source: str | os.PathLike[str] | Any) -> None:
        self._arrow = import_pyarrow()
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            self.name = path.name or str(path)
            self.dataset = self._opened(path)
        else:
            self.name, self.dataset = "the dataset", source
        schema = self.dataset.schema
        self.columns = columns_of(schema.names, self.name)
        self.labelled = LABEL in schema.names
        self.n: int = self.checked(self.dataset.count_rows)
        kinds = [schema.field(column).type for column in self.columns]
        types = self._arrow.types
        for column, kind in zip(self.columns, kinds, strict=True):
            if not (types.is_floating(kind) or types.is_integer(kind)):
                raise InputError(f"{self.name}, column {column} must be numbers. Got {kind}.")
        narrow = [np.dtype(kind.to_pandas_dtype()) for kind in set(kinds)]
        self.dtype = np.result_type(*narrow, np.float16)

    def __iter__(self) -> Iterator[Any]:
        for z, beside in self.batches([LABEL] if self.labelled else []):
            yield (z, beside[LABEL].to_numpy(zero_copy_only=False)) if self.labelled else z

    def batches(self, extras: list[str]) -> Iterator[tuple[NDArray[Any], dict[str, Any]]]:
        """Yield logits (n, K), and the Arrow arrays of other columns."""
        read = self.dataset.to_batches(
            columns=[*self.columns, *extras],
            batch_size=max(1, ELEMENTS // len(self.columns)),
            batch_readahead=1,
            fragment_readahead=1,
        )
        start = 0
        while True:
            batch = self.checked(next, read, None)
            if batch is None:
                return
            for key, column in zip(batch.schema.names, batch.columns, strict=True):
                if column.null_count:
                    row = start + column.is_null().index(self._arrow.scalar(True)).as_py()
                    raise InputError(f"{self.name}, row {row}, column {key} must not be empty.")
            if len(batch):
                yield self._logits(batch), {key: batch[key] for key in extras}
            start += len(batch)

    def _logits(self, batch: Any) -> NDArray[Any]:
        z = np.empty((len(batch), len(self.columns)), self.dtype)
        for k, column in enumerate(self.columns):
            z[:, k] = batch[column].to_numpy(zero_copy_only=False)
        return z

    def _opened(self, path: Path) -> Any:
        if not path.exists():
            raise InputError(
                f"logits must be an array, blocks, or the path of a Parquet file or directory. "
                f"There is nothing at {str(path)!r}."
            )
        dataset = self._arrow.dataset
        options = dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=BUFFER, pre_buffer=False
        )
        form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        return self.checked(dataset.dataset, path, format=form)

    def checked(self, function: Any, *args: Any, **options: Any) -> Any:
        """Call what reads, and say in one sentence that the file is damaged where it is."""
        try:
            return function(*args, **options)
        except (self._arrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            msg = f"{self.name} must be Parquet, but it is damaged or none ({reason})."
            raise InputError(msg) from None
