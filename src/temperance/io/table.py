"""The content of a file of logits, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    def arranged(self, new: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns to write before and after new ones, which replace their like."""
        known = {"label": self.labels, "group": self.groups}
        absent = {n: v for n, v in known.items() if v is not None and n not in self.columns}
        held, dropped = list((self.columns | absent).items()), set(new)
        parts = held[: self.in_front], held[self.in_front :]
        front, back = ({n: v for n, v in part if n not in dropped} for part in parts)
        return front, back

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.logits.shape[0])

    def mapped(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield ``function`` of the logits, some rows at a time."""
        size = max(1, WRITTEN_ELEMENTS // self.logits.shape[1])
        for start in range(0, self.n, size):
            yield function(self.logits[start : start + size])


def new_columns(table: Table, name: str) -> tuple[list[str], list[str]]:
    """Return the columns that a table gets: one per class, and with probabilities two more."""
    k = table.logits.shape[1]
    if name == "logits":
        return [f"logit_{i}" for i in range(k)], []
    return [f"prob_{i}" for i in range(k)], ["prediction", "confidence"]


def answers_of(probabilities: NDArray[Any], classes: list[str] | None) -> dict[str, NDArray[Any]]:
    """Return the predicted class of each row, by name where there is one, and its probability."""
    predicted = probabilities.argmax(axis=1)
    confidence = np.take_along_axis(probabilities, predicted[:, None], axis=1)[:, 0]
    names = predicted if classes is None else np.array(classes, dtype=object)[predicted]
    return {"prediction": names, "confidence": confidence}


def check_expansion(expanded: int, stored: int, what: str) -> None:
    """Refuse a file that would fill the memory: one that grows as no file of logits does."""
    if expanded > PATIENT and expanded > EXPANSION * max(stored, 1):
        raise InputError(
            f"{what} must be a file of logits, but its {stored:,} bytes grow to {expanded:,}: it "
            f"is damaged or made to fill the memory. Save it again, uncompressed."
        )
