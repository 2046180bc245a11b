"""Checks of what comes with logits: class names, labels, weights, the class prior.

A prior in a dict or a pandas Series, and labels in words, go by the names of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core.arrays import as_array, is_numpy, to_numpy
from temperance._core.checks.errors import InputError
from temperance._core.checks.logits import LARGEST, SIMPLEX_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PRIOR_TOLERANCE = 1e-6
NOTHING = 1e-15  # a class share below the rounding of their sum is none
NO_ARRAY = "an array-like of numbers or names. Got {}."
NO_PRIOR = (
    "class probabilities, in the order of the columns or by class name. Got {}; labelled rows "
    "belong in source=."
)
MULTI_LABEL = ": multi-label targets are not supported; calibrate each label as two classes"
LIKE_LABELS = ": labels belong in labelled= or source=, and a prior is the share of each class"


def check_classes(classes: object, n_classes: int, name: str = "classes") -> list[Any]:
    """Return class names as a list of ``n_classes`` distinct, hashable values."""
    try:
        names = list(np.asarray(classes, dtype=object).ravel().tolist())
        distinct = len(set(names))
    except (TypeError, ValueError) as error:
        msg = f"{name} must be a sequence of {n_classes} distinct names. Got {classes!r} instead."
        raise InputError(msg) from error
    if len(names) != n_classes or distinct != n_classes:
        msg = (
            f"{name} must hold {n_classes} distinct names, one per column. Got {len(names)} "
            f"names, {distinct} of them distinct."
        )
        raise InputError(msg)
    return names


def check_labels(
    labels: object,
    n_rows: int,
    n_classes: int,
    classes: Sequence[object] | None = None,
    name: str = "labels",
    start: int = 0,
) -> NDArray[Any]:
    """Return hard labels as int64 ``(n,)``, or soft labels as float64 ``(n, K)``.

    With ``classes``, hard labels are looked up in it; without, they index the columns. The first
    row has the number ``start``.
    """
    y = read_labels(labels, n_rows, n_classes, classes, name, start)
    check_indices(y, n_classes, name, start)
    return y


def read_labels(
    labels: object,
    n_rows: int,
    n_classes: int,
    classes: Sequence[object] | None = None,
    name: str = "labels",
    start: int = 0,
) -> NDArray[Any]:
    """Return labels as `check_labels` does, without checking that class indices have a column."""
    needed = f"The fit requires {name} to be passed, but the target {name} is None."
    way_out = "Rows without labels go to temperance.calibrate."
    y = _plain(labels, name, f"hold one class index per row. {needed} {way_out}")
    if y.ndim == 2 and y.dtype.kind == "f":
        return _check_soft_labels(y, n_rows, n_classes, name, start)
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.shape != (n_rows,):
        msg = f"{name} must have shape ({n_rows},), one per row of logits. Got shape {y.shape}"
        raise InputError(f"{msg}{MULTI_LABEL if y.shape == (n_rows, n_classes) else ''}.")
    if classes is not None:
        return _lookup(_as_given(labels, y), classes, name, start)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu":
        demand = f"{name} must be integers 0..{n_classes - 1} that index the columns."
        raise InputError(f"{demand} {_no_indices(y, name, start)}")
    if y.dtype == np.uint64:
        check_indices(y, n_classes, name, start)  # before they might become negative
    return y.astype(np.int64, copy=False)


def _no_indices(y: NDArray[Any], name: str, start: int) -> str:
    """Say what came where class indices were due, and the way out."""
    if y.dtype.kind != "f":
        return (
            f"Got {y.dtype} with first value {y[:1].tolist()[0]!r}; name the columns with classes= "
            f"where that can be given, or pass [names.index(one) for one in {name}]."
        )
    missing = np.flatnonzero(np.isnan(y))
    if len(missing):
        return f"Row {start + int(missing[0])} is missing; drop rows without a label."
    return f"Got continuous {y.dtype} with first value {float(y[0])!r}; cast classes to integers."


def check_indices(y: NDArray[Any], n_classes: int, name: str = "labels", start: int = 0) -> None:
    """Raise unless hard labels index the columns; soft ones do not."""
    if y.ndim == 1 and (y.min() < 0 or y.max() >= n_classes):
        row = int(np.argmax((y < 0) | (y >= n_classes)))
        msg = (
            f"{name} must lie in 0..{n_classes - 1} (logits have {n_classes} columns). Row "
            f"{start + row} holds {int(y[row])}; {_way_out(y, n_classes)}."
        )
        raise InputError(msg)


def _way_out(y: NDArray[Any], n_classes: int) -> str:
    if y.min() == 1 and y.max() == n_classes:
        return "these labels count from 1: subtract 1"
    return "drop rows to be ignored before fitting"


def _check_soft_labels(
    y: NDArray[Any], n: int, k: int, name: str, start: int
) -> NDArray[np.float64]:
    if y.shape != (n, k):
        msg = f"soft {name} must have shape ({n}, {k}), as the logits. Got shape {y.shape}."
        raise InputError(msg)
    soft = y.astype(np.float64)
    with np.errstate(all="ignore"):
        bad = ~(np.abs(soft.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE) | ~(soft >= 0).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        msg = (
            f"soft {name} must be non-negative and sum to 1 in each row. Row {start + row} does "
            f"not (sum {soft[row].sum():g}); put weights in sample_weight."
        )
        raise InputError(msg)
    return soft / soft.sum(axis=1, keepdims=True)


def _as_given(labels: Any, y: NDArray[Any]) -> list[Any]:
    """Return labels of mixed types as they came: NumPy turns numbers among words into words."""
    listed = isinstance(labels, (list, tuple))
    raw = np.asarray(labels, dtype=object) if listed else as_array(labels)
    return raw.ravel().tolist() if is_numpy(raw) and raw.dtype.hasobject else y.tolist()


def _lookup(y: list[Any], classes: Sequence[object], name: str, start: int) -> NDArray[np.int64]:
    index = {value: i for i, value in enumerate(classes)}
    out = np.empty(len(y), dtype=np.int64)
    for row, value in enumerate(y):
        try:
            out[row] = index[value]
        except (KeyError, TypeError):
            listed = ", ".join(repr(c) for c in list(classes)[:8])
            place = f"Row {start + row}"
            msg = f"{name} must be among classes ({listed}, …). {place} holds {value!r} instead."
            raise InputError(msg) from None
    return out


def check_sample_weight(weight: object, n_rows: int) -> NDArray[np.float64] | None:
    """Return weights as float64 ``(n,)``, or None when there are none."""
    if weight is None:
        return None
    w = check_weights(weight, n_rows)
    with np.errstate(over="ignore"):
        check_weight_sum(float(w.sum()))
    return w


def check_weights(weight: object, n_rows: int, start: int = 0) -> NDArray[np.float64]:
    """Return the weights of a block, whose first row has the number ``start``."""
    w = _plain(weight, "sample_weight")
    if w.ndim == 2 and 1 in w.shape:
        w = w.ravel()
    if w.shape != (n_rows,) or w.dtype.kind not in "fiub":
        got = f"shape {w.shape} of {w.dtype}"
        msg = f"sample_weight must be {n_rows} numbers, one per row. Got {got}."
        raise InputError(msg)
    w = w.astype(np.float64)
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        row = int(np.argmax(bad))
        place = f"Row {start + row}"
        msg = f"sample_weight must be finite and not negative. {place} holds {w[row]:g}."
        raise InputError(msg)
    return w


def check_weight_sum(total: float) -> None:
    """Raise unless the weights of all rows have a sum to divide by."""
    if not 1 / LARGEST <= total <= LARGEST:
        msg = (
            f"sample_weight must not be all zero, with a sum between {1 / LARGEST:g} and "
            f"{LARGEST:g}. Got the sum {total:g}."
        )
        raise InputError(msg)


def check_prior(
    prior: object, n_classes: int, name: str = "prior", classes: Sequence[object] | None = None
) -> NDArray[np.float64]:
    """Return the class prior as float64 ``(K,)``: finite, non-negative, summing to one."""
    way_out = (
        "pass the class mix you expect in the target, or call temperance.calibrate with a "
        "labelled source."
    )
    prior = by_column(prior, n_classes, classes, name)
    q = _plain(prior, name, f"be {n_classes} class probabilities. Got None; {way_out}", NO_PRIOR)
    if q.shape != (n_classes,) or q.dtype.kind not in "fiu":
        msg = f"{name} must be {n_classes} numbers, one per class. Got shape {q.shape} of {q.dtype}"
        labels = q.ndim == 1 and q.dtype.kind in "iu"
        raise InputError(f"{msg}{LIKE_LABELS if labels else ''}.")
    q = q.astype(np.float64)
    bad = ~np.isfinite(q) | (q < 0)
    if bad.any():
        k = int(np.argmax(bad))
        msg = f"{name} must be finite and not negative. Class {k} holds {q[k]:g}."
        raise InputError(msg)
    with np.errstate(over="ignore"):
        total = float(q.sum())
    if abs(total - 1) > PRIOR_TOLERANCE:
        way_out = "divide by the sum if these are counts or percentages."
        msg = f"{name} must sum to 1. Got {total:.6g}; {way_out}"
        raise InputError(msg)
    return np.where(q < NOTHING, 0.0, q) / total


def _plain(values: object, name: str, demand: str = "", what: str = NO_ARRAY) -> NDArray[Any]:
    """Any array-like of numbers or strings as a native NumPy array; None breaks the demand."""
    if values is None and demand:
        msg = f"{name} must {demand}"
        raise InputError(msg)
    array = as_array(values)
    if array is None:
        msg = f"{name} must be {what.format(type(values).__name__)}"
        raise InputError(msg)
    y = to_numpy(array)
    if y.dtype.kind == "O":
        try:
            y = np.asarray(y.tolist())
        except (ValueError, OverflowError):
            return y
    return y if y.dtype.isnative else y.astype(y.dtype.newbyteorder("="))


# ------------------------------------------------------------------------------ by class name


def class_keys(values: Any) -> tuple[str, ...] | None:
    """Return the classes by which numbers are given, or None where their order alone counts.

    The index of a pandas object counts, for ``value_counts`` puts the most frequent class first;
    the index 0, 1, 2, … that pandas makes up says nothing.
    """
    if isinstance(values, Mapping):
        return tuple(str(key) for key in cast("Mapping[object, object]", values))
    index = None if callable(getattr(values, "index", None)) else getattr(values, "index", None)
    if not hasattr(index, "tolist"):
        return None
    keys = tuple(str(key) for key in cast("Any", index).tolist())
    return None if keys == _columns(len(keys)) else keys


def plain_numbers(values: Any) -> Any:
    """Return numbers that are given by class as they stand, without their classes."""
    if isinstance(values, Mapping):
        return list(cast("Mapping[object, object]", values).values())
    return values


def class_order(
    keys: tuple[str, ...], n_classes: int, classes: Sequence[object] | None, name: str
) -> list[int]:
    """Return where each column of the logits stands among ``keys``: by its name or its number."""
    columns = _columns(n_classes)
    names = columns if classes is None else tuple(str(c) for c in classes)
    for wanted in (names, columns):
        if len(keys) == len(wanted) and set(keys) == set(wanted):
            return [keys.index(one) for one in wanted]
    missing = [one for one in names if one not in keys]
    strange = [key for key in keys if key not in names]
    demand = f"{name} must name each of the {n_classes} classes once. It "
    if strange and names == columns:
        raise InputError(
            f"{demand}names {strange[0]!r}, but the columns have no names here; give the numbers "
            f"in the order of the columns, or call temperance.calibrate with classes=."
        )
    if strange:
        raise InputError(f"{demand}names {strange[0]!r}, which is none of them.")
    if missing:
        raise InputError(f"{demand}lacks {missing[0]!r}; give 0 to a class that never occurs.")
    raise InputError(f"{demand}names one twice.")


def by_column(
    values: object, n_classes: int, classes: Sequence[object] | None = None, name: str = "prior"
) -> object:
    """Return numbers in the order of the columns, whatever they were given by."""
    keys = class_keys(values)
    if keys is None:
        return values
    order = class_order(keys, n_classes, classes, name)
    array = as_array(plain_numbers(values))
    return array if array is None else array[np.asarray(order, dtype=np.intp)]


def names_for(labels: object, classes: Sequence[object] | None) -> list[Any] | None:
    """Return the class names to look labels up in; only words are names, numbers are columns."""
    array = None if classes is None else as_array(labels)
    words = is_numpy(array) and array.dtype.kind in "UOT" and any(map(_is_word, array.flat))
    return list(classes) if words and classes is not None else None


def _is_word(label: object) -> bool:
    return isinstance(label, str)


def _columns(n_classes: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(n_classes))
