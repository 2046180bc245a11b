"""What is given by name: a prior in a dict or a pandas Series, labels in words, named columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from temperance._core.arrays import as_array, is_numpy
from temperance._core.checks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def check_header(table: object, name: str) -> None:
    """Raise when a data frame names its columns as files do, and they are not those, in order.

    A file is read by these names; a frame is read as it stands.
    """
    header = getattr(table, "column_names", getattr(table, "columns", None))
    if header is None or callable(header):
        return
    names = [str(column) for column in header]
    k = sum(re.fullmatch(r"logit_\d{1,9}", column) is not None for column in names)
    wanted = [f"logit_{i}" for i in range(k)]
    if k and names != wanted:
        others = [column for column in names if column not in wanted]
        shown = ", ".join(repr(column) for column in (others or names)[:6])
        msg = (
            f"{name} must have the columns logit_0 to logit_{k - 1} in this order and no others. "
            f"Got {shown}{', …' if len(others or names) > 6 else ''}"
            f"{' too' if others else ''}; select the columns by name first."
        )
        raise InputError(msg)


def _is_word(label: object) -> bool:
    return isinstance(label, str)


def _columns(n_classes: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(n_classes))
