"""From whatever a user holds to rows, and to a sample of bounded size.

A fit or metric begins with `as_rows`. A method that compares a target with a labelled source begins
with `read_both`, which stops at `sample_size` rows of each, so that a method costs the same for
20,000 rows and for a billion.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats, as_array, as_floating, is_numpy, is_torch, to_numpy
from temperance._core.checks import InputError
from temperance.data.rows import ArrayRows, Rows, release, rows_per_block
from temperance.data.stream import StreamRows
from temperance.data.types import is_arrow_dataset, is_dask

MAX_ROWS, MIN_ROWS, MAX_ELEMENTS = 20_000, 4_000, 1 << 21  # budget of one sample
HASHED = 1 << 24  # bytes hashed at a time


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
        checks.check_order(logits, classes, name)
    names = checks.names_for(labels, classes)
    y = None if labels is None else checks.check_labels(labels, n, k, names)
    w = None if sample_weight is None else checks.check_weights(sample_weight, n)
    if w is not None:
        with np.errstate(over="ignore"):
            checks.check_weight_sum(float(w.sum()))
    if file is not None:
        return StreamRows(lambda: _pieces(file, y, w), name=name, n=n)
    return ArrayRows(z, y, w, name=name)


def _file_to_convert(logits: object) -> NDArray[Any] | None:
    """Return logits that are mapped from a file in numbers that nothing computes with, or None."""
    if not isinstance(logits, np.memmap):
        return None
    z = cast("NDArray[Any]", logits)
    right = z.ndim == 2 and z.shape[0] > 0 and z.shape[1] > 1  # check_logits refuses others
    some = as_floating(np.asarray(z[:1])) if right else None
    return None if some is None or some.dtype == z.dtype else z


def _pieces(z: NDArray[Any], *beside: NDArray[Any] | None) -> Iterator[tuple[Any, ...]]:
    """Yield some rows of a file at a time, of which no other copy is made."""
    size = rows_per_block(z.shape[1])
    for start in range(0, len(z), size):
        part = slice(start, start + size)
        yield np.asarray(z[part]), *(None if one is None else one[part] for one in beside)
        release(z)


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


# ------------------------------------------------------------ labelled source, bounded sample


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
    name: str = "source",
) -> LabelledSample:
    """Return a sample of whatever `as_source_rows` reads, at most `sample_size` rows."""
    rows = as_source_rows(source, n_classes, classes, name)
    return take_labelled(rows, rows.draw(sample_size(rows), np.random.default_rng(seed)))


def read_both(
    target_logits: object, source: object, seed: object
) -> tuple[NDArray[Any], LabelledSample]:
    """Return samples of a target and of its labelled source, with which most methods begin."""
    generator = checks.check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    z = draw_rows(rows, generator).logits
    return z, read_source(source, rows.n_classes, seed=generator)


def take_labelled(rows: Rows, numbers: NDArray[np.int64]) -> LabelledSample:
    """Return the labelled rows of the given row numbers."""
    block = rows.take(numbers)
    if block.labels is None:
        raise InputError("source must have labels. Got rows without labels instead.")
    return LabelledSample(block.logits, block.labels)


def as_source_rows(
    source: object, n_classes: int, classes: Sequence[object] | None = None, name: str = "source"
) -> Rows:
    """Return the labelled rows of a source with hard labels and the given number of classes.

    A source is a pair (logits, labels), or anything that `as_rows` reads together with its labels.
    Labels in words are looked up in ``classes``.
    """
    pair = _split(source)
    if pair is None:
        kind = type(source).__name__
        msg = f"{name} must be a pair (logits, labels), or rows with labels. Got {kind} instead."
        raise InputError(msg)
    shape = getattr(pair[0], "shape", ())
    if len(shape) == 2:  # before labels in words are looked up in the wrong number of names
        checks.check_same_classes(int(shape[1]), n_classes, f"{name} logits")
    rows = as_labelled_rows(*pair, classes=classes, name=f"{name} logits")
    checks.check_same_classes(rows.n_classes, n_classes, f"{name} logits")
    if rows.soft:
        raise InputError(f"{name} labels must be class indices, one per row, not soft labels.")
    return rows


def _split(source: object) -> tuple[object, object] | None:
    """Return logits and labels, rows and None where they bring labels, or None: no source."""
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


def read_features(
    features: object, sizes: tuple[int, int], numbers: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[Floats, Floats]:
    """Return the drawn rows of target features and source features, checked, as two tables."""
    pair = list(cast("Sequence[object]", features)) if isinstance(features, (tuple, list)) else []
    arrays = [as_array(part) for part in pair]
    tables = [None if a is None else as_floating(a) for a in arrays]
    if len(tables) != 2 or any(a is None or len(a.shape) < 2 for a in tables):
        kinds = [type(p).__name__ if a is None else f"shape {tuple(a.shape)} of {a.dtype}"
                 for p, a in zip(pair, arrays, strict=True)]  # fmt: skip
        got = " and ".join(kinds) if len(kinds) == 2 else type(cast("object", features)).__name__
        raise InputError(
            "features must be a pair (target features, source features) of arrays of real numbers "
            "with one row for each row of logits, as "
            f"temperance.torch.collect_logits(features=True) returns them. Got {got} instead."
        )
    found: list[Floats] = []
    for name, array, n, rows in zip(("target", "source"), tables, sizes, numbers, strict=True):
        if array is None or int(array.shape[0]) != n:
            size = 0 if array is None else int(array.shape[0])
            msg = f"{name} features must have a row for each of {n} rows of logits. Got {size}."
            raise InputError(msg)
        some = to_numpy(array)[rows].astype(np.float64).reshape(len(rows), -1)
        if not np.isfinite(some).all():
            raise InputError(f"{name} features must be finite. Got NaN or infinity.")
        found.append(some)
    target, source = found
    if target.shape[1] != source.shape[1]:
        raise InputError(
            f"features of target and source must have the same number of columns. Got "
            f"{target.shape[1]} and {source.shape[1]}."
        )
    return target, source


# ------------------------------------------------------------------------------- fingerprints


def fingerprint(*arrays: object) -> str:
    """Return the sha256 of the values, shapes and dtypes of arrays; None counts as absent.

    >>> import numpy as np
    >>> z = np.zeros((2, 2))
    >>> fingerprint(z) == fingerprint(z.copy(order="F")), fingerprint(z) == fingerprint(z + 1)
    (True, False)
    """
    total = hashlib.sha256()
    for position, values in enumerate(arrays):
        array = None if values is None else as_array(values)
        if array is None and values is not None:
            msg = f"array {position} must be an array. Got {type(values).__name__} instead."
            raise InputError(msg)
        total.update(b"absent" if array is None else array_digest(to_numpy(array)))
    return total.hexdigest()


def array_digest(array: NDArray[Any]) -> bytes:
    """Return the sha256 of the values, the shape and the dtype of an array."""
    if array.dtype.hasobject:
        array = np.asarray(array.tolist())
    if array.dtype.hasobject:
        raise InputError("arrays must hold numbers or names. Got objects instead.")
    little = array.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{little.str}{array.shape}".encode())
    rows = np.atleast_1d(array)
    step = max(1, HASHED // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        digest.update(np.ascontiguousarray(part, dtype=little).tobytes())
    return digest.digest()
