"""The labelled source: read it, check it, and draw a sample of bounded size.

Every method that compares a target with a source begins with `read_source`, and draws the rows of
the target with `draw_rows`. Both stop at `sample_size` rows, so that a method costs the same for
20,000 rows and for a billion.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from temperance._core.checks import InputError, check_same_classes
from temperance.data.base import Rows
from temperance.data.foreign import is_arrow_dataset
from temperance.data.given import as_labelled_rows, is_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ROWS, MIN_ROWS, MAX_ELEMENTS = 20_000, 4_000, 1 << 21  # budget of one sample


class LabelledSample(NamedTuple):
    """Logits of shape (n, K) and their labels, class indices of shape (n,), in NumPy arrays."""

    logits: NDArray[Any]
    labels: NDArray[np.int64]


class DrawnRows(NamedTuple):
    """Rows drawn from a larger set: their row numbers, in rising order, and their logits."""

    numbers: NDArray[np.int64]
    logits: NDArray[Any]


def sample_size(rows: Rows) -> int:
    """Return the largest sample of these rows that a label-free method reads.

    Beyond 20,000 rows the error of every label-free method is larger than the sampling error.
    """
    return min(MAX_ROWS, max(MIN_ROWS, MAX_ELEMENTS // rows.n_classes))


def draw_rows(rows: Rows, seed: np.random.Generator) -> DrawnRows:
    """Return at most `sample_size` of the rows, drawn without repetition."""
    numbers = rows.draw(sample_size(rows), seed)
    return DrawnRows(numbers, rows.take(numbers).logits)


def read_source(
    source: object,
    n_classes: int,
    classes: Sequence[object] | None = None,
    seed: int | np.random.Generator = 0,
) -> LabelledSample:
    """Return a sample of a labelled source, at most `sample_size` rows.

    Parameters
    ----------
    source : pair (logits, labels), or labelled rows
        Whatever `as_source_rows` reads.
    n_classes : int
        Number of classes of the target, which the source must share.
    classes : list, optional
        Class names in which labels in words are looked up.
    seed : int or Generator
        Of the draw, used where there are more rows than `sample_size`.
    """
    rows = as_source_rows(source, n_classes, classes)
    return draw_labelled(rows, np.random.default_rng(seed))


def draw_labelled(rows: Rows, seed: np.random.Generator) -> LabelledSample:
    """Return a sample of labelled rows, at most `sample_size` of them."""
    return take_labelled(rows, rows.draw(sample_size(rows), seed))


def take_labelled(rows: Rows, numbers: NDArray[np.int64]) -> LabelledSample:
    """Return the labelled rows of the given row numbers."""
    block = rows.take(numbers)
    if block.labels is None:
        msg = "source must have labels. Got rows without labels instead."
        raise InputError(msg)
    return LabelledSample(block.logits, block.labels)


def as_source_rows(source: object, n_classes: int, classes: Sequence[object] | None = None) -> Rows:
    """Return the labelled rows of a source with hard labels and the given number of classes.

    A source is a pair (logits, labels), or anything that `as_rows` reads together with its labels.
    Labels in words are looked up in ``classes``.
    """
    pair = _split(source)
    if pair is None:
        kind = type(source).__name__
        msg = f"source must be a pair (logits, labels), or rows with labels. Got {kind} instead."
        raise InputError(msg)
    rows = as_labelled_rows(*pair, classes=classes, name="source logits")
    check_same_classes(rows.n_classes, n_classes, "source logits")
    if rows.soft:
        msg = "source labels must be class indices, one per row, not soft labels."
        raise InputError(msg)
    return rows


def _split(source: object) -> tuple[object, object] | None:
    """Return logits and labels, or rows and None where the rows bring their labels.

    None is returned for an object that cannot be a source.
    """
    if isinstance(source, (tuple, list)):
        parts: list[object] = list(cast("Iterable[object]", source))
        first = parts[0] if parts else None
        if isinstance(first, (tuple, list)) and is_blocks(parts):
            return parts, None
        return (parts[0], parts[1]) if len(parts) == 2 else None
    bare_array = hasattr(source, "ndim") and not hasattr(source, "columns")  # holds no labels
    readable = callable(source) or is_arrow_dataset(source)
    labelled = not bare_array and (readable or isinstance(source, (Rows, os.PathLike, Iterable)))
    return (cast("object", source), None) if labelled else None
