"""Comma-separated values: ``logit_0 … logit_{K-1}``, optional ``label`` and ``group``.

The file is read once, line by line, into the array that it becomes. Other columns are passed over,
or kept as the text that they are.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import is_numpy
from temperance._core.checks import InputError
from temperance._core.files import opened
from temperance._core.progress import tracked
from temperance.data.columns import columns_of
from temperance.data.parquet import values_of
from temperance.io import table as tables
from temperance.io.table import PREFIXES, Content, Keep, Named, Table

LONGEST = 1 << 24  # characters of a line; 30,000 logits take a million


def read_csv(path: Path, keep: Keep, content: Content) -> dict[str, Any]:
    """Read a table of logits; an error names the line and the column."""
    with opened(path) as stream:
        file = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            reader = csv.reader(_bounded(file, path.name), strict=True)
            return _table(reader, path.name, keep, content)
        except UnicodeDecodeError as error:
            msg = f"{path.name} must be UTF-8 text. Got the byte 0x{error.object[error.start]:02x}."
            raise InputError(msg) from None


def _bounded(file: IO[str], name: str) -> Iterator[str]:
    """Yield the lines of a file; one without an end would fill the memory."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST and line[-1] not in "\r\n":
            raise InputError(f"{name} must have lines of at most {LONGEST:,} characters.")
        yield line


def _table(reader: Any, name: str, keep: Keep, content: Content) -> dict[str, Any]:
    header = next(_lines(reader, name), [])
    named = tables.columns_named(header, content, name)
    columns = columns_of(header, name, PREFIXES[named])
    places = {column: place for place, column in enumerate(header)}
    pick = itemgetter(*(places[column] for column in columns))
    kept = tables.kept(keep, header, columns, name)
    extras = {key: places[column] for key, column in kept.items()}
    found: dict[str, list[str]] = {key: [] for key in extras}
    numbers = array("d")
    for cells in tracked(_lines(reader, name), "lines"):
        if len(cells) != len(header):
            msg = f"{name}, line {reader.line_num} must have {len(header)} cells, as the header"
            raise InputError(f"{msg} has. It has {len(cells)}.")
        picked = pick(cells)
        try:
            numbers.extend(map(float, picked))
        except ValueError:
            raise _bad_cell(name, reader.line_num, columns, picked) from None
        together = "".join(picked)
        if "_" in together or not together.isascii():  # Python reads 1_000 and other digits
            raise _bad_cell(name, reader.line_num, columns, picked)
        for key, at in extras.items():
            if keep == "labels" and not cells[at].strip():
                place = f"{name}, line {reader.line_num}, column {header[at]}"
                raise InputError(f"{place} must not be empty. Fill it, or leave the row out.")
            found[key].append(cells[at])
    logits = np.frombuffer(numbers, np.float64).reshape(-1, len(columns))
    if keep != "columns":
        return {named: logits} | {key: tables.as_labels(cells) for key, cells in found.items()}
    carried = {column: tables.as_they_stand(cells) for column, cells in found.items()}
    in_front = tables.count_in_front(header, columns)
    return {named: logits, "columns": carried, "in_front": in_front}


def _lines(reader: Any, name: str) -> Iterator[list[str]]:
    """Yield the lines that are not empty."""
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            msg = f"{name}, line {reader.line_num} must be comma-separated values ({error})."
            raise InputError(msg) from None
        if cells:
            yield cells


def _bad_cell(name: str, line: int, columns: list[str], cells: tuple[str, ...]) -> InputError:
    pairs = zip(columns, cells, strict=True)
    column, cell = next(pair for pair in pairs if not _is_number(pair[1]))
    shown = "an empty cell" if not cell.strip() else f"{cell[:40]!a}"
    return InputError(f"{name}, line {line}, column {column} must be a number. Got {shown}.")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.isascii()


def write_csv(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: Named) -> None:
    """Write the blocks with the digits that give them back exactly."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    for i, columns in enumerate(table.written(blocks, name)):
        if i == 0:
            writer.writerow(columns)
        writer.writerows(zip(*(_cells(*one) for one in columns.items()), strict=True))
    text.detach()


def _cells(name: str, column: Any) -> list[Any]:
    """Return a column that is an array or came from Parquet as the cells of a file."""
    if not is_numpy(column):
        return values_of(column, name)
    return (column if column.dtype.hasobject else column.astype(str)).tolist()
