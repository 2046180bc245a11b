"""Rows of an array: NumPy, a memory map, torch or any Array API library, where it is."""

from __future__ import annotations

import itertools
import mmap
from typing import TYPE_CHECKING, Any, final

import numpy as np

from temperance._core import checks
from temperance._core.arrays import Array, detached, is_numpy, on_host, to_numpy
from temperance._core.threads import THREADED_ELEMENTS, n_threads
from temperance.data.base import Block, Rows, S, joined, rows_per_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


MAPPED_BYTES = 1 << 25  # bytes of a file that a pass leaves mapped
ROWS_PER_RELEASE = 16  # rows of a sample that are read before their pages are given back


@final
class ArrayRows(Rows):
    """Rows of an array in memory or of a memory map.

    Host arrays are read as NumPy views; an array on a device is cut into blocks there.
    """

    def __init__(
        self,
        logits: Array,
        labels: NDArray[Any] | None = None,
        weight: NDArray[np.float64] | None = None,
        *,
        name: str = "logits",
        checked: bool = False,
        indexed: bool = False,
    ) -> None:
        self.logits = to_numpy(logits) if on_host(logits) else detached(logits)
        self._labels = labels
        self.weight = weight
        self.n_classes = int(logits.shape[1])
        self.labelled = labels is not None
        self.soft = labels is not None and labels.ndim == 2
        self.passes = 0
        self._name = name
        self._file = file_of(self.logits)
        self._checked, self._indexed = checked, checked or indexed  # values; those of labels
        self._masks = False  # whether blocks hold -inf

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.logits.shape[0])

    @property
    def labels(self) -> NDArray[Any] | None:
        """Return the labels, whose values are checked when they are first asked for."""
        if self._labels is not None and not self._indexed:
            checks.check_indices(self._labels, self.n_classes)
            self._indexed = True
        return self._labels

    def blocks(self) -> Iterator[Block]:
        """Yield slices; the first pass checks their values."""
        return self._read(rows_per_block(self.n_classes))

    def _read(
        self, size: int, *, check_values: bool = True, check_labels: bool = True
    ) -> Iterator[Block]:
        """Yield slices of so many rows.

        With ``check_values=False`` NaN and infinity are not looked for here; the caller's statistic
        must report them.
        """
        check = None if self._checked else checks.BlockCheck(self._name)
        n, labels = self.n, self.labels if check_labels else self._labels
        whole = Block(self.logits, labels, self.weight)
        release = self._releaser(size)
        for start in range(0, n, size):
            block = whole if size >= n else whole.pick(slice(start, min(start + size, n)))
            if self._masks:
                block = block.masked(self._name, start)
            if check is not None:
                try:
                    check.see(block.logits, values=check_values)
                except checks.InputError:
                    block = block.masked(self._name, start)
                    check.see(block.logits, values=check_values)
                    self._masks = True
                    if self._file is None:
                        self.logits = checks.masked(self.logits, self._name)
            yield block
            if release is not None:
                release()
        if check is not None:
            check.finish(self.n_classes)
            self._checked = self._checked or check_values

    def _sum(self, statistic: Callable[[Block], S], blocks: Iterator[Block], n_blocks: int) -> S:
        """Return the sum over all blocks; a small array is a single block."""
        if n_blocks > 1:
            return super()._sum(statistic, blocks, n_blocks)
        (block,) = blocks
        self.passes += 1
        return statistic(block)

    def reduce_with_validity(
        self,
        statistic: Callable[[Block], S],
        is_valid: Callable[[S], bool],
        *,
        labels: bool = False,
        blocks_per_call: int = 1,
    ) -> S:
        """Check the values only where the sum of the statistic is not valid."""
        known = self._checked and (self._indexed or not labels)
        size = blocks_per_call * rows_per_block(self.n_classes)
        blocks = self._read(size, check_values=False, check_labels=not labels)

        def quiet(block: Block) -> S:
            with np.errstate(all="ignore"):  # ``is_valid`` finds unfit values
                return statistic(block)

        try:
            totals = self._sum(quiet, blocks, -(-self.n // size))
            if known or is_valid(totals):
                self._checked, self._indexed = True, self._indexed or labels
                return totals
        except checks.InputError:  # of several things that are wrong the values come first
            if known:
                raise
        self._checked = False
        return self.reduce(statistic)

    def _n_threads(self) -> int:
        """Return the number of processors for a large array in memory, 1 for others."""
        held = is_numpy(self.logits) and self._file is None
        return n_threads() if held and self.exceeds(THREADED_ELEMENTS) else 1

    def take(self, index: NDArray[np.int64]) -> Block:
        """Return the given rows: where the array is in memory, without going through it."""
        outside = len(index) > 0 and int(index.max()) >= self.n
        if outside or not is_numpy(self.logits) or self._file is not None:
            return super().take(index)
        if not self._checked:
            for _ in self.blocks():
                pass
        self.passes += 1
        whole = Block(self.logits, self.labels, self.weight)
        return whole.copy() if np.array_equal(index, np.arange(self.n)) else whole.pick(index)

    def skip_value_checks(self) -> None:
        """Leave the check out of the first pass."""
        self._checked = True

    def thin_by(self, stride: int) -> Rows:
        """Return every ``stride``-th row: a view, or of a file that is mapped a copy."""
        whole = Block(self.logits, self.labels, self.weight)
        release = self._releaser(self.n)
        if release is None:
            thin = whole.pick(slice(None, None, stride))
        else:  # rows far apart each bring in up to 2 MB around them
            parts: list[Block] = []
            for start in range(0, self.n, ROWS_PER_RELEASE * stride):
                part = whole.pick(
                    slice(start, min(start + ROWS_PER_RELEASE * stride, self.n), stride)
                )
                parts.append(part.copy())
                release()
            thin = joined(parts)
        if self._masks:
            thin = thin.masked(self._name)
        return ArrayRows(*thin, name=self._name, checked=self._checked, indexed=True)

    def _releaser(self, size: int) -> Callable[[], None] | None:
        """Return what is called after each block of a file that is mapped, None for other arrays.

        Pages that have been read count as memory of the process for as long as the file is mapped,
        so now and then the pages are given back to the system, whose own cache may keep them.
        """
        file = self._file
        if file is None:
            return None
        row = max(abs(self.logits.strides[0]), self.n_classes * self.logits.itemsize)
        every = max(1, MAPPED_BYTES // (row * size))
        calls = itertools.count(1)

        def release() -> None:
            if next(calls) % every == 0:
                file.madvise(mmap.MADV_DONTNEED)

        return release


def file_of(array: Array) -> mmap.mmap | None:
    """Return the file that an array is a map of, if its pages can be given back."""
    owner: Any = array
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    base: Any = getattr(owner, "base", None)
    # Pages of an anonymous map, and changed pages of a copy-on-write map, exist nowhere else.
    in_file = isinstance(owner, np.memmap) and owner.mode != "c"
    given_back = in_file and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")
    return base if given_back else None
