"""Rows that come as a stream of blocks, which can be started again for each pass.

The blocks may be of any size; they are cut and joined to those that an array would be read in, so
a statistic of a stream equals that of the same rows in memory but for the rounding of sums. One
block, or one of the user's where that is larger, is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast, final

import numpy as np

from temperance._core import checks
from temperance._core.arrays import as_array, host_view
from temperance._core.checks import InputError
from temperance.data.rows import ArrayRows, Block, Rows, joined, nothing, release, rows_per_block

KEPT_ELEMENTS = 1 << 20  # elements of the rows that are kept from the first pass, for a first guess


@final
class StreamRows(Rows):
    """Rows of blocks that ``start()`` yields anew in each pass.

    A block is ``logits``, ``(logits, labels)`` or ``(logits, labels, weight)``; all are alike.
    ``n`` is the number of rows where it is known before they are read.
    """

    def __init__(
        self,
        start: Callable[[], Iterable[Any]],
        *,
        classes: Sequence[Any] | None = None,
        name: str = "logits",
        n: int | None = None,
    ) -> None:
        self._start = start
        self._classes = classes
        self._name = name
        self._n = n
        self._sample: Sample | None = None  # of a complete pass
        self.passes = 0
        items = iter(start())
        first = next((item for item in items if not _is_empty(_columns(item, name)[0])), None)
        if first is None:
            raise InputError(f"{name} must have at least one row. Got an empty stream instead.")
        self._begun: Iterator[Any] | None = _resumed([first], items)  # the first pass
        z, y, w = _columns(first, name)
        self.n_classes = int(checks.check_logits(z, name).shape[1])
        self.labelled, self._weighted = y is not None, w is not None
        given = None if y is None else as_array(y)
        self.soft = given is not None and given.ndim == 2 and min(given.shape) > 1

    @property
    def n(self) -> int:
        """Return the number of rows; where it is not known, this takes a pass."""
        if self._n is None:
            self.reduce(nothing)
        return self._n or 0

    def _n_blocks(self) -> int:
        return 0 if self._n is None else super()._n_blocks()

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in blocks of the usual size; the first pass checks and samples them."""
        first, sample = self._sample is None, Sample()
        n, weight = 0, 0.0
        for block in self._with_checks(recut(self._given(), rows_per_block(self.n_classes))):
            if first:
                sample.see(block)
                weight += 0.0 if block.weight is None else float(block.weight.sum())
            n += block.n
            yield block
        if n != (n if self._n is None else self._n):
            raise InputError(
                f"{self._name} must be blocks that come again in every pass. The first time there "
                f"were {self._n} rows, this time {n}; pass a list of blocks, an object whose "
                f"__iter__ starts anew, or the function that yields them."
            )
        if first and n:
            if self._weighted:
                checks.check_weight_sum(weight)
            self._n, self._sample = n, sample

    def thin_by(self, stride: int) -> Rows:
        """Return rows that were kept from the first pass; more of them take another pass."""
        if self._sample is None:
            self.reduce(nothing)
        thin = None if self._sample is None else self._sample.thin_by(stride)
        if thin is None:  # more than was kept
            thin = self.take(np.arange(0, self.n, stride))
        return ArrayRows(*thin, checked=True)

    def _given(self) -> Iterator[Block]:
        """Yield the blocks as they come, checked but for the values of the logits."""
        begun, self._begun = self._begun, None
        start = 0
        for item in self._start() if begun is None else begun:
            block = self._read(item, start)
            if block is not None:
                start += block.n
                yield block
                release(block.logits)

    def _read(self, item: Any, start: int) -> Block | None:
        z, y, w = _columns(item, self._name)
        if _is_empty(z):
            return None
        z = checks.check_logits(z, self._name)
        first = (self.n_classes, self.labelled, self._weighted)
        form = (int(z.shape[1]), y is not None, w is not None)
        if form != first:
            raise InputError(
                f"blocks must be alike: of {_form(*first)}, as the first is. Got one of "
                f"{_form(*form)}."
            )
        block = Block(z, y, w).checked(self._classes, start, self._name)
        return block._replace(logits=host_view(block.logits))


def _resumed(read: list[Any], items: Iterator[Any]) -> Iterator[Any]:
    """Yield a block that was read, of which nothing is kept, and then the others."""
    yield read.pop()
    yield from items


def _columns(item: Any, name: str) -> tuple[Any, Any, Any]:
    """Return logits, labels and weights of what a stream yields; what is not there is None."""
    if not isinstance(item, (tuple, list)):
        return item, None, None
    parts = tuple(cast("Iterable[Any]", item))
    if not 1 <= len(parts) <= 3:
        raise InputError(
            f"{name} must come in blocks of logits, (logits, labels) or (logits, labels, weight). "
            f"Got one of {len(parts)} parts."
        )
    z, y, w = (*parts, None, None)[:3]
    return z, y, w


def _is_empty(z: Any) -> bool:
    """Return whether a block, such as a partition or a batch, has no rows."""
    return len(getattr(z, "shape", ())) == 2 and z.shape[0] == 0


def _form(n_classes: int, labelled: bool, weighted: bool) -> str:
    labels = f"with labels{' and weights' if weighted else ''}" if labelled else "without labels"
    return f"{n_classes} classes, {labels}"


def recut(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """Yield the same rows in blocks of ``size`` rows; the last may be shorter."""
    waiting: list[Block] = []
    short = size  # rows that the waiting ones lack of a full block
    for block in blocks:
        start = 0
        if waiting:
            start = min(short, block.n)
            waiting.append(block.pick(slice(0, start)))
            short -= start
            if short:
                waiting[-1] = waiting[-1].copy()
                continue
            yield joined(waiting)
            waiting, short = [], size
        full = start + (block.n - start) // size * size
        for first in range(start, full, size):
            yield block.pick(slice(first, first + size))
        if full < block.n:  # whoever yields the next block may do it in the same memory
            waiting = [block.pick(slice(full, None)).copy()]
            short = size - waiting[0].n
    if waiting:
        yield joined(waiting)


class Sample:
    """Rows at equal distances from a stream of unknown length, in bounded memory."""

    def __init__(self) -> None:
        self.kept: list[Block] = []
        self.stride = 1
        self.seen = 0

    def see(self, block: Block) -> None:
        """Keep every ``stride``-th row; double ``stride`` when too many rows are kept."""
        self.kept.append(block.pick(slice(-self.seen % self.stride, None, self.stride)).copy())
        self.seen += block.n
        if self.seen // self.stride * int(block.logits.shape[1]) > 2 * KEPT_ELEMENTS:
            self.kept = [joined(self.kept).pick(slice(None, None, 2)).copy()]
            self.stride *= 2

    def thin_by(self, stride: int) -> Block | None:
        """Return the rows 0, stride, 2 stride and so on, or None where fewer were kept."""
        if stride < self.stride:
            return None
        return joined(self.kept).pick(slice(None, None, stride // self.stride))
