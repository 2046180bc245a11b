"""From whatever a user holds to rows."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core import checks
from temperance._core.arrays import as_array, as_floating, is_numpy, is_torch
from temperance._core.checks import InputError
from temperance.data.array import ArrayRows, file_of
from temperance.data.base import Rows, rows_per_block
from temperance.data.foreign import is_arrow_dataset, is_dask
from temperance.data.stream import StreamRows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def as_rows(
    logits: object,
    labels: object = None,
    sample_weight: object = None,
    *,
    classes: Sequence[object] | None = None,
    name: str = "logits",
) -> Rows:
    """Return checked rows from whatever a user holds. Every fit and metric begins with this.

    Call it yourself to read a large set several times: its length, and that its values are in
    order, are then found once.

    Parameters
    ----------
    logits : what holds n rows of K scores before the softmax
        - an array of shape (n, K): NumPy, a memory map, torch, any Array API library, a data frame;
        - blocks of rows that can be read again: a list of arrays, a torch ``DataLoader``, an object
          whose ``__iter__`` starts anew, or a function without arguments that yields them. A block
          is ``logits``, ``(logits, labels)`` or ``(logits, labels, weight)``;
        - Parquet: the path of a file or of a directory of files, or a ``pyarrow.dataset``, with
          columns ``logit_0 … logit_{K-1}`` and, where there are labels, ``label``;
        - a Dask array or data frame, the latter with columns as in Parquet;
        - rows, which are returned as they are.
    labels : array of shape (n,) or (n, K), optional
        For arrays. Blocks, Parquet and Dask data frames bring their own.
    sample_weight : array of shape (n,), optional
        For arrays.
    classes : sequence of K names, optional
        Names of the columns, in which labels in words are looked up; numbers are columns.
    name : str
        What errors call the logits.

    Examples
    --------
    >>> import numpy as np
    >>> days = [(np.array([[2.0, 0.5]]), [0]), (np.array([[0.1, 1.0], [0.3, 0.2]]), [1, 0])]
    >>> rows = as_rows(days)
    >>> rows.n, rows.n_classes, rows.labelled
    (3, 2, True)
    """
    if isinstance(logits, Rows):
        _refuse_beside(labels, sample_weight, name)
        return logits
    if is_numpy(logits):  # most often, and at once
        return _array_rows(logits, labels, sample_weight, classes, name)
    if is_dask(logits):
        from temperance.data.dask import dask_rows

        return dask_rows(logits, labels, sample_weight, classes=classes, name=name)
    stream = _stream(logits, classes, name)
    if stream is not None:
        _refuse_beside(labels, sample_weight, name)
        return stream
    return _array_rows(logits, labels, sample_weight, classes, name)


def _refuse_beside(labels: object, sample_weight: object, name: str) -> None:
    if labels is not None or sample_weight is not None:
        given = "labels" if labels is not None else "sample_weight"
        raise InputError(
            f"{given} must come with the blocks or the rows that {name} is read in. Yield (logits, "
            f"labels) or (logits, labels, weight), or write a column 'label' into Parquet."
        )


def _array_rows(
    logits: object,
    labels: object,
    sample_weight: object,
    classes: Sequence[object] | None,
    name: str,
) -> ArrayRows | StreamRows:
    file = _file_to_convert(logits)
    z = checks.check_logits(logits, name) if file is None else file
    n, k = (int(s) for s in z.shape)
    if classes is not None:
        classes = checks.check_classes(classes, k)
    names = checks.names_for(labels, classes)
    y = None if labels is None else checks.read_labels(labels, n, k, names)
    w = checks.check_sample_weight(sample_weight, n)
    if file is not None:
        return StreamRows(lambda: _pieces(file, y, w), name=name, n=n)
    return ArrayRows(z, y, w, name=name)


def _file_to_convert(logits: object) -> NDArray[Any] | None:
    """Return logits that are mapped from a file in numbers that nothing computes with, or None."""
    if not isinstance(logits, np.memmap):
        return None
    z = cast("NDArray[Any]", logits)
    right = z.ndim == 2 and z.shape[0] > 0 and z.shape[1] > 1  # what is wrong is told elsewhere
    some = as_floating(np.asarray(z[:1])) if right else None
    return None if some is None or some.dtype == z.dtype else z


def _pieces(z: NDArray[Any], *beside: NDArray[Any] | None) -> Iterator[tuple[Any, ...]]:
    """Yield some rows of a file at a time, of which no other copy is made."""
    size, file = rows_per_block(z.shape[1]), file_of(z)
    for start in range(0, len(z), size):
        part = slice(start, start + size)
        yield np.asarray(z[part]), *(None if one is None else one[part] for one in beside)
        if file is not None:
            file.madvise(mmap.MADV_DONTNEED)


def as_labelled_rows(
    logits: object,
    labels: object,
    sample_weight: object = None,
    *,
    classes: Sequence[object] | None = None,
    name: str = "logits",
) -> Rows:
    """Return checked rows that carry labels."""
    rows = as_rows(logits, labels, sample_weight, classes=classes, name=name)
    if not rows.labelled:
        checks.check_labels(None, 0, rows.n_classes)
    return rows


def _stream(logits: object, classes: Sequence[object] | None, name: str) -> StreamRows | None:
    """Return the rows of something that is read in blocks, or None for an array."""
    if isinstance(logits, (str, os.PathLike)) or is_arrow_dataset(logits):
        from temperance.data.parquet import ParquetBlocks

        parquet = ParquetBlocks(cast("Any", logits))
        return StreamRows(lambda: parquet, classes=classes, name=name, n=parquet.n)
    if isinstance(logits, list):
        if not is_blocks(cast("list[Any]", logits)):
            return None
    elif (
        isinstance(logits, (tuple, type, Mapping))
        or is_torch(logits)
        or as_array(logits) is not None
    ):
        return None
    if isinstance(logits, Iterator):
        raise InputError(
            f"{name} must be blocks that can be read again, for a fit makes several passes. Got a "
            f"{type(cast('object', logits)).__name__}, which is used up after one; pass the "
            f"function that yields the blocks, uncalled, or a list of them."
        )
    if isinstance(logits, Iterable):
        blocks = cast("Iterable[Any]", logits)
        return StreamRows(lambda: blocks, classes=classes, name=name)
    if callable(logits):
        return StreamRows(lambda: _called(logits, name), classes=classes, name=name)
    return None


def _called(function: Callable[[], Any], name: str) -> Iterable[Any]:
    try:
        return iter(function())
    except TypeError as error:
        raise InputError(
            f"{name} must be an array, or a function without arguments that yields blocks. Got "
            f"{type(function).__name__}, and {error}."
        ) from error


def is_blocks(values: list[Any]) -> bool:
    """Return whether a list holds blocks of rows, not the numbers of one array."""
    first: Any = values[0] if values else None
    if isinstance(first, (tuple, list)):
        parts = cast("list[Any]", first)
        first = parts[0] if parts else None
    return len(getattr(first, "shape", ())) == 2
