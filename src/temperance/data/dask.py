"""Rows that lie with the workers of Dask (extra: ``dask``).

A pass is a map over the partitions and a tree of additions. Each partition is reduced where it is
by the same statistic that an array in memory is, so a pass brings back as many numbers as the
statistic has, whatever n: O(K) of them, O(K²) for a matrix. Rows themselves travel only where some
are asked for, as a sample. A partition that is lost with its worker is read again from wherever its
graph begins, so the answer does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import reduce
from typing import Any, NamedTuple, final

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import as_array, to_numpy
from temperance._core.checks import InputError
from temperance.data.columns import LABEL, columns_of
from temperance.data.rows import ArrayRows, Block, Rows, S, Statistic, Totals, add, joined, nothing
from temperance.data.types import is_dask

FAN_IN = 8  # partial sums that are added by one task


def dask_rows(
    logits: Any, labels: Any, sample_weight: Any, *, classes: Sequence[object] | None, name: str
) -> DaskRows:
    """Return the rows of a Dask array, or of a Dask data frame with columns as in Parquet."""
    if not hasattr(logits, "columns"):
        return _of_arrays(logits, labels, sample_weight, classes, name)
    if labels is not None or sample_weight is not None:
        raise InputError(
            f"labels must be the column {LABEL!r} of a Dask data frame. Add it, or pass arrays "
            f"with .to_dask_array(lengths=True)."
        )
    columns = columns_of([str(column) for column in logits.columns], name)
    labelled = LABEL in logits.columns
    read = logits[[*columns, LABEL] if labelled else columns]
    build = delayed(_from_frame, pure=False)
    parts = [build(part, columns, labelled) for part in read.to_delayed()]
    return DaskRows(parts, len(columns), labelled, classes=classes, name=name)


def _of_arrays(
    logits: Any, labels: Any, sample_weight: Any, classes: Sequence[object] | None, name: str
) -> DaskRows:
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise InputError(
            f"{name} must have shape (n, K), one column per class. Got a Dask array of shape "
            f"{logits.shape}."
        )
    z = logits.rechunk({1: -1})
    sizes = z.chunks[0]
    known = not np.isnan(sizes).any()
    y = _beside(labels, z, "labels")
    w = _beside(sample_weight, z, "sample_weight")
    columns = (z.to_delayed()[:, 0], *(_parts(column, len(sizes)) for column in (y, w)))
    build = delayed(Block, pure=False)
    parts = [build(*part) for part in zip(*columns, strict=True)]
    soft = y is not None and y.ndim == 2 and y.shape[1] > 1
    return DaskRows(
        parts, z.shape[1], y is not None, list(sizes) if known else None,
        soft=soft, classes=classes, name=name,
    )  # fmt: skip


def _beside(values: Any, z: Any, name: str) -> Any:
    """Return a Dask array cut as the logits are."""
    if values is None:
        return None
    if is_dask(values) and hasattr(values, "to_dask_array"):  # a column of a data frame
        values = values.to_dask_array(lengths=True)
    if not is_dask(values):
        import dask.array as da

        values = da.from_array(to_numpy(as_array(values)))
    alike = values.numblocks[0] == z.numblocks[0] if np.isnan(z.shape[0]) else None
    if alike is False or (alike is None and values.shape[:1] != z.shape[:1]):
        raise InputError(
            f"{name} must have one entry per row of logits. Got shapes {values.shape} and "
            f"{z.shape}, in {values.numblocks[0]} and {z.numblocks[0]} parts."
        )
    whole = dict.fromkeys(range(1, values.ndim), -1)
    return values.rechunk(whole if alike else {0: z.chunks[0], **whole})


def _parts(values: Any, n: int) -> list[Any]:
    return [None] * n if values is None else list(values.to_delayed().ravel())


class Place(NamedTuple):
    """Names, classes and first row of a partition, for the checks and messages of a worker."""

    n_classes: int
    classes: Sequence[object] | None
    name: str
    labels: str
    start: int


@final
class DaskRows(Rows):
    """Rows in partitions, each a delayed `Block`; ``sizes`` are theirs where known."""

    def __init__(
        self,
        parts: list[Any],
        n_classes: int,
        labelled: bool,
        sizes: list[int] | None = None,
        *,
        soft: bool = False,
        classes: Sequence[object] | None = None,
        name: str = "logits",
    ) -> None:
        self.n_classes, self.labelled, self.soft = n_classes, labelled, soft
        self.passes = 0
        self._parts = parts
        self._sizes = sizes
        self._name = name
        starts = _starts(sizes or [0] * len(parts))
        part = [f" of partition {i}" if sizes is None else "" for i in range(len(parts))]
        self._places = [
            Place(n_classes, classes, f"{name}{of}", f"labels{of}", start)
            for of, start in zip(part, starts, strict=True)
        ]

    @property
    def n(self) -> int:
        """Return the number of rows; where the partitions do not know theirs, this is a pass."""
        if self._sizes is None:
            self.reduce(nothing)
        return sum(self._sizes or ())

    def reduce(self, statistic: Callable[[Block], S]) -> S:
        """Return the sum of ``statistic`` over all partitions: one pass, where they are."""
        shared = delayed(statistic, pure=False, traverse=False)
        work = delayed(_reduced, pure=False)
        tasks = [
            work(part, shared, place, first=not self._checked)
            for part, place in zip(self._parts, self._places, strict=True)
        ]
        (sums,) = _compute(_tree(tasks))
        if sums.totals is None:
            raise InputError("logits must have at least one row. Got empty partitions only.")
        if not self._checked:
            look, self._sizes, weight = sums.seen
            look.check(self._name, self.n_classes)
            checks.check_weight_sum(weight)
            self._checked = True
        self.passes += 1
        return sums.totals

    def take(self, index: NDArray[np.int64]) -> Block:
        """Return the given rows: only these travel, and only their partitions are read."""
        if not self._checked:
            self.reduce(nothing)
        order = np.argsort(index, kind="stable")
        wanted = index[order]
        if len(wanted) == 0 or wanted[-1] >= self.n:
            msg = f"index must hold numbers of rows below {self.n}. Got {wanted[-1:].tolist()}."
            raise InputError(msg)
        starts = _starts(self._sizes or [])
        cuts = np.searchsorted(wanted, [*starts, self.n])
        work = delayed(_picked, pure=False)
        tasks = [
            work(part, place, wanted[first:last] - start)
            for part, place, start, first, last in zip(
                self._parts, self._places, starts, cuts[:-1], cuts[1:], strict=True
            )
            if last > first
        ]
        blocks = list(_compute(*tasks))
        self.passes += len(tasks) / len(self._parts)
        return joined(blocks).pick(np.argsort(order, kind="stable"))

    def thin_by(self, stride: int) -> Rows:
        """Return a sample, which travels."""
        return ArrayRows(*self.take(np.arange(0, self.n, stride)), checked=True)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows here, one partition after the other; no fit and no metric does this."""
        for part, place in zip(self._parts, self._places, strict=True):
            (given,) = _compute(part)
            if len(given.logits):
                yield from _rows_of(given, place).blocks()


def _compute(*tasks: Any) -> Any:
    """Return results. A pass that a restart of the scheduler cancels is made once more."""
    try:
        return compute(*tasks)
    except CancelledError:
        return compute(*tasks)


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()][: len(sizes)]


class PartialSums(NamedTuple):
    """Totals of a partition, None where it is empty; in a first pass its `Look`, [size], weight."""

    totals: Any
    seen: Totals


def _from_frame(frame: Any, columns: list[str], labelled: bool) -> Block:
    return Block(frame[columns].to_numpy(), frame[LABEL].to_numpy() if labelled else None, None)


def _rows_of(block: Block, place: Place) -> ArrayRows:
    """Check a partition, but for the values of its logits."""
    n_classes, classes, name, labels, start = place
    checks.check_same_classes(int(block.logits.shape[1]), n_classes, name)
    part = block.checked(classes, start, name, labels).masked(name, start)
    return ArrayRows(*part, checked=True)


def _reduced(block: Block, statistic: Statistic, place: Place, first: bool) -> PartialSums:
    """Reduce one partition, and in a first pass look at its values."""
    n = len(block.logits)
    if n == 0:
        return PartialSums(None, (checks.Look(), [0], 0.0))
    rows, look, totals = _rows_of(block, place), checks.Look(), None
    if not first:
        totals = rows.reduce(statistic)
    else:  # rows are numbered in the order in which they are looked at: not in threads
        for part in rows.blocks():
            checks.check_finite(part.logits, place.name, place.start + look.rows)
            look += checks.Look.at(part.logits)
            sums = statistic(part)
            totals = sums if totals is None else add(totals, sums)
    return PartialSums(totals, (look, [n], float(n if rows.weight is None else rows.weight.sum())))


def _picked(block: Block, place: Place, index: NDArray[np.int64]) -> Block:
    return _rows_of(block, place).take(index)


def _added(parts: list[PartialSums]) -> PartialSums:
    """Add up partitions that lie side by side, in their order."""
    totals = [part.totals for part in parts if part.totals is not None]
    seen = reduce(add, (part.seen for part in parts))
    return PartialSums(reduce(add, totals) if totals else None, seen)


def _tree(tasks: list[Any]) -> Any:
    work = delayed(_added, pure=False)
    while len(tasks) > 1:
        tasks = [work(tasks[i : i + FAN_IN]) for i in range(0, len(tasks), FAN_IN)]
    return tasks[0]
