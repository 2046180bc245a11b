"""Parquet as a stream: ``logit_0 … logit_{K-1}`` and ``label`` (extra: ``parquet``).

One file, a directory of files, or a ``pyarrow.dataset``, which may lie elsewhere, be partitioned or
be filtered. Other columns are not read. Arrow holds about one row group at a time; write row groups
of 10 to 100 MB. All files of a directory must have the same columns; a file that differs is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError
from temperance._core.files import (
    check_expansion,
    check_regular,
    decoding,
    shown_path,
    walked,
)
from temperance.data.columns import LABEL, Prefix, columns_of, has_columns

ELEMENTS = 1 << 20  # of a batch
BUFFER = 1 << 16  # bytes that are read of a column at a time
OTHERS = (".npz", ".npy", ".csv", ".safetensors")  # formats that the command line reads


def import_pyarrow() -> Any:
    """Return pyarrow with its readers of Parquet, or say how to install it."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        msg = "Parquet files need the package pyarrow: pip install temperance[parquet]."
        raise InputError(msg) from error
    return pa


def parquet_files(path: Path) -> list[Path]:
    """Return a file, or those of a directory in order; names with . or _ in front are left out."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for folder, inner, names in walked(path):
        inner[:] = [name for name in inner if not name.startswith((".", "_"))]
        found += [folder / name for name in names if not name.startswith((".", "_"))]
    return sorted(found)


def values_of(column: Any, name: str) -> list[Any]:
    """Return the values of an Arrow column; a date may be one that Python does not know."""
    with decoding(f"the column {name!a}", f"{column.type} that can be written"):
        return column.to_pylist()


class Part(NamedTuple):
    """Rows that are read together: a file, or a dataset that Arrow puts together itself."""

    name: str
    rows: Any  # a fragment or a dataset: both have to_batches, to_table and count_rows
    schema: Any
    n: int
    stored: int | None = None  # bytes of a file


def _check_path(path: Path) -> None:
    """Raise where there is nothing, or a file of another format."""
    if not path.exists():
        raise InputError(
            f"logits must be an array, blocks, or the path of a Parquet file or directory. "
            f"There is nothing at {shown_path(path)}."
        )
    if path.suffix.lower() in OTHERS and path.is_file():
        raise InputError(
            f"logits must be an array, blocks, or the path of Parquet. Got the path of a "
            f"{path.suffix} file: load the array, or use the command line, which reads it."
        )


class ParquetBlocks:
    """Blocks ``logits`` or ``(logits, labels)`` of Parquet, read anew whenever they are iterated.

    ``choose(names of all columns)`` is "logit" or "prob", with which those that are read begin.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Any,
        choose: Callable[[Sequence[str]], Prefix] = lambda _: "logit",
    ) -> None:
        is_path = isinstance(source, (str, os.PathLike))
        self.name = (Path(source).name or str(source)) if is_path else "the dataset"
        if is_path:
            _check_path(Path(source))  # before pyarrow is asked for: the file may need none
        self._arrow = import_pyarrow()
        parts = self._files(Path(source)) if is_path else self._dataset(source)
        self.parts = [part for part in parts if part.n] or parts[:1]
        self.schema = self.parts[0].schema
        self.prefix: Prefix = choose(self.schema.names)
        self.columns = columns_of(self.schema.names, self.parts[0].name, self.prefix)
        self.labelled = LABEL in self.schema.names
        self.n = sum(part.n for part in self.parts)
        kinds = [np.dtype(np.float16)]
        for part in self.parts:
            self.check_alike(part, [LABEL])
            kinds += [self._kind(part, column) for column in self.columns]
        self.dtype = np.result_type(*set(kinds))

    def __iter__(self) -> Iterator[Any]:
        for z, beside in self.batches([LABEL] if self.labelled else []):
            yield (z, beside[LABEL].to_numpy(zero_copy_only=False)) if self.labelled else z

    def batches(self, extras: list[str]) -> Iterator[tuple[NDArray[Any], dict[str, Any]]]:
        """Yield logits (n, K), and the Arrow arrays of other columns."""
        for part in self.parts:
            yield from self._batches(part, extras)

    def table(self, columns: list[str]) -> Any:
        """Return other columns of all files as one Arrow table, with their types."""
        with decoding(self.name, "Parquet files of one kind"):
            tables: list[Any] = []
            for part in self.parts:
                table = part.rows.to_table(columns=columns)
                chunks = [chunk for column in table.columns for chunk in column.chunks]
                self._check_words(part, sum(map(self._n_letters, chunks)))
                as_written = self._arrow.schema([part.schema.field(column) for column in columns])
                tables.append(table.cast(as_written))
            return self._arrow.concat_tables(tables, promote_options="permissive")

    def check_alike(self, part: Part, others: Sequence[str]) -> None:
        """Refuse a file whose logits, or whose other columns of some names, are not the first's."""
        first = self.parts[0]
        if part is first:
            return
        found, wanted = set(part.schema.names), set(self.columns)
        named = {name for name in found if has_columns([name], self.prefix)}
        has = {name for name in others if name in self.schema.names}
        missing = sorted(wanted - found, key=lambda name: (len(name), name)) + sorted(has - found)
        beyond = sorted(named - wanted) + sorted((set(others) & found) - has)
        if missing or beyond:
            what = f"lacks {missing[0]!a}" if missing else f"has {beyond[0]!a} besides"
            raise InputError(
                f"{part.name} must have the columns that {first.name} has. It {what}; write all "
                f"files with the same columns."
            )

    def _batches(
        self, part: Part, extras: list[str]
    ) -> Iterator[tuple[NDArray[Any], dict[str, Any]]]:
        with decoding(part.name, "Parquet"):
            read = part.rows.to_batches(
                columns=[*self.columns, *extras],
                batch_size=max(1, ELEMENTS // len(self.columns)),
                batch_readahead=1,
                fragment_readahead=1,
            )
        start = letters = 0
        while True:
            with decoding(part.name, "Parquet"):
                batch = next(read, None)
                if batch is None:
                    break
                columns = {key: batch[key] for key in batch.schema.names}
                letters += sum(map(self._n_letters, columns.values()))
                self._check_words(part, letters)
                for key, column in columns.items():
                    if self._arrow.types.is_dictionary(column.type):  # numbers of values
                        columns[key] = column.dictionary_decode()
            for key, column in columns.items():
                if column.null_count:
                    row = start + column.is_null().index(self._arrow.scalar(True)).as_py()
                    raise InputError(f"{part.name}, row {row}, column {key} must not be empty.")
            if len(batch):
                z = np.empty((len(batch), len(self.columns)), self.dtype)
                for k, key in enumerate(self.columns):
                    z[:, k] = columns[key].to_numpy(zero_copy_only=False)
                yield z, {key: columns[key] for key in extras}
            start += len(batch)
        if start != part.n and part.schema is not None:
            msg = f"{part.name} must hold the {part.n:,} rows that it announces. It holds {start:,}"
            raise InputError(f"{msg}: it is damaged, or was changed while it was read.")

    def _n_letters(self, column: Any) -> int:
        """Return the bytes of the words of a column that is kept as numbers of words."""
        if not self._arrow.types.is_dictionary(column.type) or not self._is_text(column.dictionary):
            return 0
        lengths = self._arrow.compute.binary_length(column.dictionary)
        return self._arrow.compute.sum(lengths.take(column.indices)).as_py() or 0

    def _is_text(self, column: Any) -> bool:
        types = self._arrow.types
        tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
        return any(test(column.type) for test in tests)

    @staticmethod
    def _check_words(part: Part, letters: int) -> None:
        """Refuse one long word that a small file repeats for every row."""
        if part.stored is not None:
            check_expansion(letters, part.stored, part.name)

    def _kind(self, part: Part, column: str) -> np.dtype[Any]:
        """Return the dtype of a column that must hold numbers."""
        types, kind = self._arrow.types, part.schema.field(column).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_floating(kind) or types.is_integer(kind)):
            raise InputError(f"{part.name}, column {column} must be numbers. Got {kind}.")
        return np.dtype(kind.to_pandas_dtype())

    def _files(self, path: Path) -> list[Part]:
        files = parquet_files(path)
        if not files:
            raise InputError(f"{path.name or path} must hold Parquet files. It holds none.")
        for file in files:
            check_regular(file, path.name)
        dataset = self._arrow.dataset
        options = dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=BUFFER, pre_buffer=False
        )
        names = [file.name if len(files) == 1 else str(file.relative_to(path)) for file in files]
        return [self._part(file, name, options) for file, name in zip(files, names, strict=True)]

    def _part(self, file: Path, name: str, options: Any) -> Part:
        def fragment(**more: Any) -> Any:
            form = data.ParquetFileFormat(default_fragment_scan_options=options, **more)
            (found,) = data.dataset(file, format=form).get_fragments()
            return found

        data = self._arrow.dataset
        with decoding(name, "Parquet"):
            schema = fragment().physical_schema
            kinds = dict(
                zip(schema.names, schema, strict=True)
            )  # names that are no text raise here
            words = {name for name, field in kinds.items() if self._is_text(field)}
            rows = fragment(dictionary_columns=words)  # a word that is repeated is held once
            return Part(name, rows, schema, rows.count_rows(), file.stat().st_size)

    def _dataset(self, given: Any) -> list[Part]:
        """Return a dataset as one part, for it may be filtered; its files are compared here."""
        with decoding("the dataset", "a pyarrow dataset"):
            whole = Part("the dataset", given, given.schema, given.count_rows())
            wanted = {c for c in whole.schema.names if has_columns([c], "logit")}
            for file in getattr(given, "files", ()):
                schema = given.format.make_fragment(file, given.filesystem).physical_schema
                found = {c for c in schema.names if has_columns([c], "logit")}
                if odd := sorted(found ^ wanted):
                    raise InputError(
                        f"{file} must have the logits that the dataset has. It "
                        f"{'lacks' if odd[0] in wanted else 'has'} {odd[0]!a}."
                    )
                for column in found:
                    self._kind(Part(file, None, schema, 0), column)
        return [whole]
