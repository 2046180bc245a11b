"""Rows for a fit: n rows of K logits, with labels and weights, in passes over blocks.

Every statistic of the library is a sum over rows, so every fit and metric is written once, as
``rows.reduce(statistic)``. Whether the rows are an array in memory, a memory map, a stream of
blocks, a Parquet file or a Dask array only changes who calls the statistic.

How to write a statistic
------------------------
A statistic is a function from a `Block` to a tuple of numbers or arrays, or to anything else with
``+``; what it returns is added over all blocks. The mean of the largest logit, by hand:

>>> import numpy as np
>>> def largest(block):
...     top = block.logits.max(axis=1).astype(np.float64)
...     weight = np.ones(block.n) if block.weight is None else block.weight
...     return weight @ top, weight.sum()
>>> total, mass = as_rows([[2.0, 0.5], [0.0, 1.0]]).reduce(largest)
>>> float(total / mass)
1.5

Five rules make a statistic right wherever the rows lie. Sum in float64, for a block may be of half
precision. Return sums, not means, for blocks differ in size. Use ``block.weight`` and
``block.labels`` where they are not None. Keep no state between blocks, for Dask calls the statistic
in other processes and threads call it side by side. Return O(K) numbers, for they travel.
"""

from __future__ import annotations

from temperance.data.given import as_labelled_rows, as_rows
from temperance.data.rows import ArrayRows, Block, Rows, Totals, add
from temperance.data.stream import StreamRows

__all__ = [
    "ArrayRows",
    "Block",
    "Rows",
    "StreamRows",
    "Totals",
    "add",
    "as_labelled_rows",
    "as_rows",
]
