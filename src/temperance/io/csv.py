"""Comma-separated values: ``logit_0 … logit_{K-1}``, optional ``label`` and ``group``.

The file is read once, line by line, into the array that it becomes. Other columns are passed over,
or kept as the text that they are.
"""

from __future__ import annotations

import csv
import io
from array import array
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks import InputError
from temperance._core.progress import tracked
from temperance.data.columns import columns_of
from temperance.io.columns import as_they_stand, beside, beside_new, kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from temperance.io.table import Keep, Table


def read_csv(path: Path, keep: Keep) -> dict[str, Any]:
    """Read a table of logits; an error names the line and the column."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            return _table(csv.reader(file, strict=True), path.name, keep)
        except UnicodeDecodeError as error:
            msg = f"{path.name} must be UTF-8 text. Got the byte 0x{error.object[error.start]:02x}."
            raise InputError(msg) from None


def _table(reader: Any, name: str, keep: Keep) -> dict[str, Any]:
    header = next(_lines(reader, name), [])
    columns = columns_of(header, name)
    place = [header.index(column) for column in columns]
    pick = itemgetter(*place)
    extras = {
        key: header.index(column) for key, column in kept(keep, header, columns, name).items()
    }
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
        if "_" in "".join(picked):  # Python reads 1_000 as a number; nobody else does
            raise _bad_cell(name, reader.line_num, columns, picked)
        for key, at in extras.items():
            if keep == "labels" and not cells[at].strip():
                place = f"{name}, line {reader.line_num}, column {header[at]}"
                raise InputError(f"{place} must not be empty. Fill it, or leave the row out.")
            found[key].append(cells[at])
    logits = np.frombuffer(numbers, np.float64).reshape(-1, len(columns))
    if keep == "columns":
        return {"logits": logits, "columns": {k: as_they_stand(v) for k, v in found.items()}}
    return {"logits": logits} | beside(found)


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
    column, cell = next(
        pair for pair in zip(columns, cells, strict=True) if not _is_number(pair[1])
    )
    shown = "an empty cell" if not cell.strip() else repr(cell[:40])
    return InputError(f"{name}, line {line}, column {column} must be a number. Got {shown}.")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def write_csv(file: IO[bytes], blocks: Iterable[NDArray[Any]], table: Table, name: str) -> None:
    """Write the blocks with the digits that give them back exactly."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    prefix = "logit" if name == "logits" else "prob"
    new = [f"{prefix}_{k}" for k in range(table.logits.shape[1])]
    extras = beside_new(table, new)
    writer.writerow([*new, *extras])
    start = 0
    for block in blocks:
        rows = block.astype(str).tolist()  # the shortest digits of each dtype
        beside = [_cells(value[start : start + len(rows)]) for value in extras.values()]
        writer.writerows(row + list(rest) for row, *rest in zip(rows, *beside, strict=True))
        start += len(rows)
    text.detach()


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column that came from text, or from Parquet."""
    return column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
