"""What a fit reads: n rows of K logits, with labels and weights, in passes over blocks.

Every statistic of the library is a sum over rows, so every fit and metric is written once, as
``rows.reduce(statistic)``: the statistic maps a block of rows to a tuple of numbers or arrays, and
the tuples are added. Whether the rows are an array in memory, a memory map, a stream of blocks, a
Parquet file or a Dask array only changes who calls the statistic.
"""

from __future__ import annotations

from temperance.data.array import ArrayRows
from temperance.data.base import (
    BLOCK,
    Block,
    MappedRows,
    Rows,
    Statistic,
    Totals,
    add,
    rows_per_block,
    shuffled,
)
from temperance.data.given import as_labelled_rows, as_rows, is_blocks
from temperance.data.stream import StreamRows

__all__ = [
    "BLOCK",
    "ArrayRows",
    "Block",
    "MappedRows",
    "Rows",
    "Statistic",
    "StreamRows",
    "Totals",
    "add",
    "as_labelled_rows",
    "as_rows",
    "is_blocks",
    "rows_per_block",
    "shuffled",
]
