"""The content of a file of logits, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError, check_classes, check_labels, check_logits

Keep = Literal["labels", "logits", "columns"]
Content = Literal["logits", "probabilities", "either"]
WRITTEN_ELEMENTS = 1 << 18  # elements that are read, mapped or written together
PATIENT = 1 << 30  # bytes that a file may grow to without being asked why
EXPANSION = 100  # times its own size that a larger file may grow to; logits shrink 2 to 10 times


@dataclass(frozen=True)
class Table:
    """Rows of logits with what is known about them."""

    logits: NDArray[Any]
    """Array (n, K); a memory map where the format allows it, not read before it is needed."""
    labels: NDArray[Any] | None = None
    """Class indices, or names that ``classes`` lists."""
    classes: list[str] | None = None
    prior: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    """Patient, lesion, video or site of each row."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Other columns, as they stand, to be written again; labels and groups among them."""
    in_front: int = 0
    """Number of other columns that stand before the logits."""

    def __post_init__(self) -> None:
        check_logits(self.logits)
        n, k = self.logits.shape
        if self.classes is not None:
            names = [str(name) for name in check_classes(self.classes, k)]
            object.__setattr__(self, "classes", names)
        if self.labels is not None:
            object.__setattr__(self, "labels", self._index(self.labels))
        if self.groups is not None and self.groups.shape != (n,):
            msg = f"groups must have shape ({n},), one per row. Got shape {self.groups.shape}."
            raise InputError(msg)

    def _index(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Integers count columns; words are looked up among the names of the columns."""
        n, k = self.logits.shape
        words = labels.dtype.kind in "OU"
        if words and self.classes is None:
            given = [str(label) for label in labels.flat]
            row = next((i for i, label in enumerate(given) if not label.isdecimal()), 0)
            raise InputError(
                f"labels must be integers 0..{k - 1}, or names with the classes named too (in the "
                f"file, or with --classes). Got {given[row][:40]!r} without them, in row {row}."
            )
        return check_labels(labels, n, k, self.classes if words else None)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.logits.shape[0])

    def mapped(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield ``function`` of the logits, some rows at a time."""
        size = max(1, WRITTEN_ELEMENTS // self.logits.shape[1])
        for start in range(0, self.n, size):
            yield function(self.logits[start : start + size])

    def written(self, blocks: Iterable[NDArray[Any]], name: str) -> Iterator[dict[str, Any]]:
        """Yield the columns of each block of logits or probabilities that replaces the logits.

        New columns stand where the logits stood, and replace others of the same name. With
        probabilities there are two more: the predicted class, by name where it has one, and its
        probability.
        """
        k = self.logits.shape[1]
        new = [f"{'logit' if name == 'logits' else 'prob'}_{i}" for i in range(k)]
        answers = [] if name == "logits" else ["prediction", "confidence"]
        known = {"label": self.labels, "group": self.groups}
        absent = {n: v for n, v in known.items() if v is not None and n not in self.columns}
        replaced = {*new, *answers}
        held = list((self.columns | absent).items())
        parts = held[: self.in_front], held[self.in_front :]
        front, back = ([(n, v) for n, v in part if n not in replaced] for part in parts)
        start = 0
        for block in blocks:
            rows = slice(start, start := start + len(block))
            made: dict[str, Any] = dict(zip(new, block.T, strict=True))
            if answers:
                best = block.argmax(axis=1)
                names = best if self.classes is None else np.array(self.classes, object)[best]
                made |= dict(zip(answers, (names, block[np.arange(len(best)), best]), strict=True))
            yield {n: v[rows] for n, v in front} | made | {n: v[rows] for n, v in back}


def check_expansion(expanded: int, stored: int, what: str) -> None:
    """Refuse a file that would fill the memory: one that grows as no file of logits does."""
    if expanded > PATIENT and expanded > EXPANSION * max(stored, 1):
        raise InputError(
            f"{what} must be a file of logits, but its {stored:,} bytes grow to {expanded:,}: it "
            f"is damaged or made to fill the memory. Save it again, uncompressed."
        )
