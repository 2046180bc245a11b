"""Rows of an array: NumPy, a memory map, torch or any Array API library, where it is."""

from __future__ import annotations

import itertools
import mmap
from typing import TYPE_CHECKING, Any, final

import numpy as np

from temperance import _checks
from temperance._arrays import Array, detached, is_numpy, on_host, to_numpy
from temperance.rows.base import Block, Rows, Statistic, Totals, joined, rows_per_block
from temperance.rows.threads import LARGE, n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


RESIDENT = 1 << 25  # bytes of a file that a pass leaves mapped
APART = 16  # rows of a sample that are read before their pages are given back


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
        self._vouched = self._told = False  # whether what reads these tells if they are in order
        self._together = 1  # blocks that are read as one

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.logits.shape[0])

    @property
    def labels(self) -> NDArray[Any] | None:
        """Return the labels, whose values are checked when they are first asked for."""
        if self._labels is not None and not self._indexed:
            _checks.check_indices(self._labels, self.n_classes)
            self._indexed = True
        return self._labels

    def blocks(self) -> Iterator[Block]:
        """Yield slices; the first pass checks their values."""
        check = None if self._checked else _checks.BlockCheck(self._name)
        whole = Block(self.logits, self._labels if self._told else self.labels, self.weight)
        n, size = self.n, self._n_together()
        release = self._releaser(size)
        for start in range(0, n, size):
            block = whole if size >= n else whole.pick(slice(start, min(start + size, n)))
            if check is not None:
                check.see(block.logits, values=not self._vouched)
            yield block
            if release is not None:
                release()
        if check is not None:
            check.finish(self.n_classes)
            self._checked = True

    def reduce(self, statistic: Statistic) -> Totals:
        """Return the sum of ``statistic`` over all blocks; of a small array there is only one."""
        if self.n > self._n_together():
            return super().reduce(statistic)
        (block,) = self.blocks()
        self.passes += 1
        return statistic(block)

    def reduce_vouched(
        self,
        statistic: Statistic,
        sound: Callable[[Totals], bool],
        *,
        labels: bool = False,
        together: int = 1,
    ) -> Totals:
        """Look for values that are not in order only where the statistic tells that there are."""
        known = self._checked and (self._indexed or not labels)
        # A copy, in the quickest way: others may read these rows, and nobody vouches for them.
        told = ArrayRows.__new__(ArrayRows)
        vars(told).update(vars(self))
        vars(told).update(_vouched=not self._checked, _told=labels, _together=together)

        def quiet(block: Block) -> Totals:
            with np.errstate(all="ignore"):  # what is wrong with the values is told by the totals
                return statistic(block)

        try:
            totals = told.reduce(quiet)
            self.passes = told.passes
            if known or sound(totals):
                self._checked, self._indexed = True, self._indexed or labels
                return totals
        except _checks.InputError:  # of several things that are wrong the values come first
            if known:
                raise
        self._checked = False
        return self.reduce(statistic)

    def _n_together(self) -> int:
        """Return how many rows are read together."""
        return self._together * rows_per_block(self.n_classes)

    def _n_blocks(self) -> int:
        """Return the number of blocks."""
        return -(-self.n // self._n_together())

    def _n_threads(self) -> int:
        """Return the number of processors for a large array in memory, 1 for others."""
        held = is_numpy(self.logits) and self._file is None
        return n_threads() if held and self.exceeds(LARGE) else 1

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

    def trust(self) -> None:
        """Leave the check out of the first pass."""
        self._checked = True

    def every(self, stride: int) -> Rows:
        """Return every ``stride``-th row: a view, or of a file that is mapped a copy."""
        whole = Block(self.logits, self.labels, self.weight)
        release = self._releaser(self.n)
        if release is None:
            thin = whole.pick(slice(None, None, stride))
        else:  # rows far apart each bring in up to 2 MB around them
            parts: list[Block] = []
            for start in range(0, self.n, APART * stride):
                part = whole.pick(slice(start, min(start + APART * stride, self.n), stride))
                parts.append(part.copy())
                release()
            thin = joined(parts)
        return ArrayRows(*thin, name=self._name, checked=self._checked, indexed=True)

    def _releaser(self, size: int) -> Callable[[], None] | None:
        """Return what is called after each block of a file that is mapped, None for other arrays.

        Pages that have been read count as memory of the process for as long as the file is mapped,
        so now and then they are given back to the system, which keeps them while it has room.
        """
        file = self._file
        if file is None:
            return None
        row = max(abs(self.logits.strides[0]), self.n_classes * self.logits.itemsize)
        every = max(1, RESIDENT // (row * size))
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
    # What is not in a file, or only the changes of what is, lives in these pages and nowhere else.
    in_file = isinstance(owner, np.memmap) and owner.mode != "c"
    given_back = in_file and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")
    return base if given_back else None
