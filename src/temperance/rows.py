"""What a fit reads: n rows of K logits, with labels and weights, in passes over blocks.

Every statistic of the library is a sum over rows, so every fit and metric is written once, as
``rows.reduce(statistic)``: the statistic maps a block of rows to a tuple of numbers or arrays, and
the tuples are added. Whether the rows are an array in memory, a memory map, a stream of blocks, a
Parquet file or a Dask array only changes who calls the statistic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from temperance import _checks
from temperance._arrays import Array, detached, on_host, to_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1 << 16  # elements of a block: its working copies stay in a core's second-level cache

Totals = tuple[Any, ...]


class Block(NamedTuple):
    """Rows that are read together: logits, and labels and weights where there are any."""

    logits: Array
    labels: NDArray[Any] | None
    weight: NDArray[np.float64] | None


Statistic = Callable[[Block], Totals]


class Rows(ABC):
    """Rows of logits that can be read again and again."""

    n_classes: int
    passes: float  # full passes so far; a partial pass counts by its share

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def labelled(self) -> bool:
        """Return whether the rows carry labels."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield the rows, in order."""

    def take(self, index: NDArray[np.int64]) -> Block:
        """Return the given rows as one block of NumPy arrays, in that order: one pass."""
        order = np.argsort(index, kind="stable")
        wanted = index[order]
        parts: list[Block] = []
        start = 0
        for block in self.blocks():
            z = to_numpy(block.logits)
            first, last = np.searchsorted(wanted, (start, start + z.shape[0]))
            here = wanted[first:last] - start
            y, w = block.labels, block.weight
            parts.append(
                Block(z[here], None if y is None else y[here], None if w is None else w[here])
            )
            start += z.shape[0]
        self.passes += 1
        if len(wanted) and wanted[-1] >= start:
            msg = f"index must lie below the number of rows, {start}. Got {wanted[-1]} instead."
            raise _checks.InputError(msg)
        back = np.argsort(order, kind="stable")
        columns = (
            None if column[0] is None else np.concatenate(column)[back]
            for column in zip(*parts, strict=True)
        )
        return Block(*columns)

    def draw(self, n_rows: int, seed: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of at most ``n_rows`` rows, drawn without repetition, in order."""
        n = self.n
        return np.arange(n) if n <= n_rows else np.sort(seed.permutation(n)[:n_rows])

    @abstractmethod
    def head(self, n_rows: int) -> Rows:
        """Return about ``n_rows`` rows spread over the whole, for a first guess."""

    def reduce(self, statistic: Statistic) -> Totals:
        """Return the sum of ``statistic`` over all blocks: one pass."""
        total: Totals | None = None
        for block in self.blocks():
            part = statistic(block)
            total = part if total is None else add(total, part)
        if total is None:
            msg = "logits must have at least one row. Got an empty stream instead."
            raise _checks.InputError(msg)
        self.passes += 1
        return total


def add(left: Totals, right: Totals) -> Totals:
    """Return two tuples of statistics, added entry by entry."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


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
    ) -> None:
        self.logits = to_numpy(logits) if on_host(logits) else detached(logits)
        self.labels = labels
        self.weight = weight
        self.n_classes = int(logits.shape[1])
        self.passes = 0
        self._name = name
        self._checked = checked

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.logits.shape[0])

    @property
    def labelled(self) -> bool:
        """Return whether there are labels."""
        return self.labels is not None

    def blocks(self) -> Iterator[Block]:
        """Yield slices; the first pass checks their values."""
        check = None if self._checked else _checks.BlockCheck(self._name)
        size = max(1, BLOCK // self.n_classes)
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            block = Block(
                self.logits[rows, :],
                None if self.labels is None else self.labels[rows],
                None if self.weight is None else self.weight[rows],
            )
            if check is not None:
                check.see(block.logits)
            yield block
        if check is not None:
            check.finish(self.n_classes)
            self._checked = True

    def head(self, n_rows: int) -> Rows:
        """Return every m-th row."""
        if n_rows >= self.n:
            return self
        pick = slice(0, self.n, self.n // n_rows)
        return ArrayRows(
            self.logits[pick, :],
            None if self.labels is None else self.labels[pick],
            None if self.weight is None else self.weight[pick],
            name=self._name,
            checked=self._checked,
        )


def as_rows(
    logits: object,
    labels: object = None,
    sample_weight: object = None,
    *,
    classes: list[Any] | None = None,
    name: str = "logits",
) -> Rows:
    """Return checked rows from whatever a user holds.

    ``labels`` may be None where none are needed; `as_labelled_rows` demands them.
    """
    if isinstance(logits, Rows):
        return logits
    z = _checks.check_logits(logits, name)
    n, k = (int(s) for s in z.shape)
    y = None if labels is None else _checks.check_labels(labels, n, k, classes)
    w = _checks.check_sample_weight(sample_weight, n)
    return ArrayRows(z, y, w, name=name)


def as_labelled_rows(
    logits: object,
    labels: object,
    sample_weight: object = None,
    *,
    classes: list[Any] | None = None,
    name: str = "logits",
) -> Rows:
    """Return checked rows that carry labels."""
    rows = as_rows(logits, labels, sample_weight, classes=classes, name=name)
    if not rows.labelled:
        _checks.check_labels(None, rows.n, rows.n_classes)
    return rows
