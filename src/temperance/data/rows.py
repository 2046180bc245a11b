"""Rows in passes over blocks: what is common to all kinds, and the rows of an array.

An array may be NumPy, a memory map, torch or of any Array API library; it is read where it is.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks, kernels
from temperance._core.arrays import Array, Floats, beside, host_view, is_numpy, namespace, to_numpy
from temperance._core.progress import tracked
from temperance._core.threads import THREADED_ELEMENTS, in_threads, n_threads

MULTIPLE = 64  # rows per block are a multiple of this
BLOCK = 1 << 17  # elements of a block: few calls, and working copies that stay in the cache
ROWS_PER_RELEASE = 16  # rows of a sample that are read before their pages are given back

Totals = tuple[Any, ...]
S = TypeVar("S")
"""Sum of a statistic: anything with ``+``, or a tuple, which is added entry by entry."""


class Block(NamedTuple):
    """Rows that are read together: logits, and labels and weights where there are any."""

    logits: Array
    labels: NDArray[Any] | None
    weight: Floats | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.logits.shape[0])

    def pick(self, rows: slice | NDArray[np.int64]) -> Block:
        """Return some of the rows: views for a slice, copies for numbers of rows."""
        z, y, w = self
        whole = isinstance(rows, slice)
        z = z[rows, :] if whole else namespace(z).take(z, beside(rows, z), axis=0)
        return Block(z, None if y is None else y[rows], None if w is None else w[rows])

    def masked(self, name: str, start: int = 0) -> Block:
        """Return the same rows with -inf as a finite mask; the first row has number ``start``."""
        z, y = checks.masked(self.logits, name, start), self.labels
        if z is not self.logits and y is not None and y.ndim == 1 and y.max() < z.shape[1]:
            impossible = to_numpy(self.logits)[np.arange(self.n), y] == -np.inf
            if impossible.any():
                row = int(np.argmax(impossible))
                raise checks.InputError(
                    f"labels must be of classes that are possible. Row {start + row} has class "
                    f"{int(y[row])}, whose logit is -inf; drop that row."
                )
        return self._replace(logits=z)

    def checked(
        self, classes: Sequence[object] | None, start: int, name: str, labels: str = "labels"
    ) -> Block:
        """Return the same rows, checked but for the logits' values; ``start`` as of `masked`."""
        z, y, w = checks.check_logits(self.logits, name), self.labels, self.weight
        n, k = (int(size) for size in z.shape)
        if y is not None:
            y = checks.check_labels(y, n, k, checks.names_for(y, classes), labels, start)
        return Block(z, y, None if w is None else checks.check_weights(w, n, start))

    def copy(self) -> Block:
        """Return the same rows in memory of their own."""
        xp = namespace(self.logits)
        y, w = (None if column is None else column.copy() for column in self[1:])
        return Block(xp.asarray(self.logits, copy=True), y, w)


def joined(blocks: list[Block]) -> Block:
    """Return the rows of several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    z, y, w = zip(*blocks, strict=True)
    return Block(
        namespace(z[0]).concat(list(z), axis=0),
        None if y[0] is None else np.concatenate(y),
        None if w[0] is None else np.concatenate(w),
    )


Statistic = Callable[[Block], Totals]


def nothing(_: Block) -> Totals:
    """Return no sums: a statistic of a pass that only checks and counts."""
    return ()


class Rows(ABC):
    """Rows of logits that can be read again and again."""

    n_classes: int
    passes: float  # full passes so far; a partial pass counts by its share
    labelled: bool  # whether the rows carry labels
    soft: bool  # whether these are probabilities of the classes
    _name = "logits"  # in messages
    _checked = False  # whether the values are known to be finite logits
    _masks = False  # whether blocks hold -inf

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield the rows, in order."""

    def _with_checks(self, blocks: Iterator[Block], *, values: bool = True) -> Iterator[Block]:
        """Yield blocks, -inf as a mask; the first complete pass checks their values.

        Without ``values`` the caller's statistic looks for NaN and infinity.
        """
        first, look, start = not self._checked, checks.Look(), 0
        for given in blocks:
            block = given.masked(self._name, start) if self._masks else given
            if first:
                if values and not checks.are_sound(block.logits):
                    block, self._masks = given.masked(self._name, start), True
                    checks.check_finite(block.logits, self._name, start)
                look += checks.Look.at(block.logits)
            start += block.n
            yield block
        if first and start:
            look.check(self._name, self.n_classes)
            self._checked = self._checked or values

    def reduce(self, statistic: Callable[[Block], S]) -> S:
        """Return the sum of ``statistic`` over all blocks: one pass."""
        return self._sum(statistic, self.blocks())

    def _sum(self, statistic: Callable[[Block], S], blocks: Iterator[Block]) -> S:
        total: S | None = None
        n_blocks, what = self._n_blocks(), f"blocks in pass {int(self.passes) + 1}"
        shown = blocks if n_blocks == 1 else tracked(blocks, what, n_blocks)
        n = self._n_threads()
        for part in in_threads(statistic, shown, n) if n > 1 else map(statistic, shown):
            total = part if total is None else add(total, part)
        if total is None:
            msg = "logits must have at least one row. Got an empty stream instead."
            raise checks.InputError(msg)
        self.passes += 1
        return total

    def reduce_with_validity(self, statistic: Callable[[Block], S]) -> S:
        """Return a sum of a kernel whose ``are_valid`` tells whether all values were fit for it.

        Rows in memory look for NaN and infinity themselves only where they were not.
        """
        return self.reduce(statistic)

    def _n_blocks(self) -> int:
        """Return the number of blocks, 0 where it is not known yet."""
        return -(-self.n // rows_per_block(self.n_classes))

    def _n_threads(self) -> int:
        """Return the number of threads for one pass; 1 where blocks come one after the other."""
        return 1

    def draw(self, n_rows: int, seed: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of at most ``n_rows`` rows, drawn without repetition, in order."""
        n = self.n
        return np.arange(n) if n <= n_rows else np.sort(seed.choice(n, n_rows, replace=False))

    def take(self, index: NDArray[np.int64]) -> Block:
        """Return the given rows as one block of NumPy arrays, in that order: one pass."""
        order = np.argsort(index, kind="stable")
        wanted = index[order]
        parts: list[Block] = []
        start = 0
        for block in self.blocks():
            first, last = np.searchsorted(wanted, (start, start + block.n))
            if last > first or not parts:
                part = block.pick(wanted[first:last] - start)
                parts.append(part._replace(logits=to_numpy(part.logits)))
            start += block.n
        self.passes += 1
        if len(wanted) and wanted[-1] >= start:
            msg = f"index must lie below the number of rows, {start}. Got {wanted[-1]} instead."
            raise checks.InputError(msg)
        return joined(parts).pick(np.argsort(order, kind="stable"))

    def thin(self, n_rows: int) -> Rows:
        """Return ``n_rows`` rows, or up to twice as many, at equal distances; of fewer, all."""
        stride = stride_of(self.n, n_rows)
        return self if stride == 1 else self.thin_by(stride)

    @abstractmethod
    def thin_by(self, stride: int) -> Rows:
        """Return the rows 0, stride, 2 stride and so on."""

    def skip_value_checks(self) -> None:  # noqa: B027 - most rows have nothing to do
        """Leave values unchecked in a sample: the first pass over all rows checks them."""

    def mapped(self, function: Callable[[Array], Array]) -> Rows:
        """Return the same rows with ``function`` of their logits, such as a map, in their place.

        It is applied to each block as it is read, so that nothing is held.
        """
        return MappedRows(self, function)


def add(left: S, right: S) -> S:
    """Return the sum of two statistics; tuples are added entry by entry."""
    if isinstance(left, tuple):
        pairs = zip(cast("Totals", left), cast("Totals", right), strict=True)
        make = getattr(cast("Any", left), "_make", tuple)  # a named tuple keeps its names
        return cast("S", make(add(a, b) for a, b in pairs))
    return cast("Any", left) + right


def rows_per_block(n_classes: int) -> int:
    """Return the number of rows of a block."""
    n = BLOCK // n_classes
    return max(1, n - n % MULTIPLE if n > MULTIPLE else n)


def stride_of(n: int, n_rows: int) -> int:
    """Return the power of two by which n rows are thinned to ``n_rows`` or up to twice as many.

    Powers of two nest, so a stream of unknown length can be thinned while it goes by.
    """
    return 1 << max(0, (n // max(1, n_rows)).bit_length() - 1)


@final
class MappedRows(Rows):
    """Rows seen through a map; see `Rows.mapped`."""

    def __init__(self, rows: Rows, function: Callable[[Array], Array]) -> None:
        self.rows = rows
        self.function = function
        self.n_classes = rows.n_classes
        self.labelled, self.soft = rows.labelled, rows.soft
        self.passes = 0

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return self.rows.n

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the rows, mapped."""
        return map(partial(_through, self.function), self.rows.blocks())

    def reduce(self, statistic: Callable[[Block], S]) -> S:
        """Map and sum where the rows are."""
        function = self.function  # the statistic may travel; the rows stay here
        self.passes += 1
        return self.rows.reduce(lambda block: statistic(_through(function, block)))

    def take(self, index: NDArray[np.int64]) -> Block:
        """Map the rows that are taken."""
        self.passes += 1
        return _through(self.function, self.rows.take(index))

    def thin_by(self, stride: int) -> Rows:
        """Map some of the rows."""
        return MappedRows(self.rows.thin_by(stride), self.function)


def _through(function: Callable[[Array], Array], block: Block) -> Block:
    mapped = function(block.logits)
    checks.check_mapped(block.logits, mapped)
    return block._replace(logits=mapped)


# ------------------------------------------------------------------------ rows of an array


@final
class ArrayRows(Rows):
    """Rows of an array in memory or of a memory map.

    Host arrays are read as NumPy views; an array on a device is cut into blocks there.
    """

    def __init__(
        self,
        logits: Array,
        labels: NDArray[Any] | None = None,
        weight: Floats | None = None,
        *,
        name: str = "logits",
        checked: bool = False,
    ) -> None:
        self.logits = host_view(logits)
        self.labels, self.weight = labels, weight
        self.n_classes = int(logits.shape[1])
        self.labelled = labels is not None
        self.soft = labels is not None and labels.ndim == 2
        self.passes = 0
        self._name, self._checked = name, checked
        self._in_file = file_of(self.logits) is not None

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.logits.shape[0])

    def blocks(self, per_call: int = 1, *, values: bool = True) -> Iterator[Block]:
        """Yield slices, as long as so many blocks of other rows."""
        yield from self._with_checks(self._slices(per_call), values=values)
        if self._masks and not self._in_file:
            self.logits, self._masks = checks.masked(self.logits, self._name), False

    def _slices(self, per_call: int) -> Iterator[Block]:
        whole, n = Block(self.logits, self.labels, self.weight), self.n
        size = per_call * rows_per_block(self.n_classes)
        for start in range(0, n, size):
            yield whole if size >= n else whole.pick(slice(start, start + size))
            release(self.logits)

    def reduce_with_validity(self, statistic: Callable[[Block], S]) -> S:
        """Check the values only where the sum is not valid; read several blocks in one call."""
        per_call = kernels.BLOCKS_PER_CALL
        if not self._checked:
            # Of several things that are wrong the values come first.
            with suppress(checks.InputError), np.errstate(all="ignore"):
                totals = self._sum(statistic, self.blocks(per_call, values=False))
                if cast("Any", totals).are_valid:
                    self._checked = True
                    return totals
        return self._sum(statistic, self.blocks(per_call))

    def _n_threads(self) -> int:
        """Return the number of processors for a large array in memory, 1 for others."""
        held = is_numpy(self.logits) and not self._in_file
        large = self.n * self.n_classes > THREADED_ELEMENTS
        return n_threads() if held and large else 1

    def take(self, index: NDArray[np.int64]) -> Block:
        """Return the given rows: where the array is in memory, without going through it."""
        outside = len(index) > 0 and int(index.max()) >= self.n
        if outside or not is_numpy(self.logits) or self._in_file:
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
        if self._in_file:  # rows far apart each bring in up to 2 MB around them
            parts: list[Block] = []
            size = ROWS_PER_RELEASE * stride
            for start in range(0, self.n, size):
                part = slice(start, min(start + size, self.n), stride)
                parts.append(whole.pick(part).copy())
                release(self.logits)
            thin = joined(parts)
        else:
            thin = whole.pick(slice(None, None, stride))
        if self._masks:
            thin = thin.masked(self._name)
        return ArrayRows(*thin, name=self._name, checked=self._checked)


def release(array: Array) -> None:
    """Give the pages of a mapped file back to the system: they count as memory of the process."""
    file = file_of(array)
    if file is not None:
        file.madvise(mmap.MADV_DONTNEED)


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
