"""What the columns of a table say: those beside the logits, and their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from temperance.io.table import Keep, Table


def spelled(names: Iterable[str], where: str) -> dict[str, str]:
    """Return how a file names its labels and its groups, each in the singular or the plural."""
    held = set(names)
    found: dict[str, str] = {}
    for key in ("labels", "groups"):
        both = [name for name in (key, key[:-1]) if name in held]
        if len(both) > 1:
            msg = f"{where} must name its {key} once. It has both {both[0]!r} and {both[1]!r}"
            raise InputError(f"{msg}: rename the one that is something else.")
        if both:
            found[key] = both[0]
    return found


def kept(keep: Keep, header: Sequence[str], logits: Sequence[str], where: str) -> dict[str, str]:
    """Return the columns of a table that are read beside the logits, by what they are kept as."""
    if keep == "columns":
        return {name: name for name in header if name not in set(logits)}
    return spelled(header, where) if keep == "labels" else {}


def beside(found: dict[str, list[Any]]) -> dict[str, NDArray[Any]]:
    """Return labels and groups: as integers where every cell is one, else as they are."""
    return {key: _array(cells) for key, cells in found.items()}


def as_they_stand(cells: list[str]) -> NDArray[Any]:
    """Return a column of text that is written again: integers where that gives the same text."""
    try:
        numbers = np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(cells, dtype=object)
    same = [str(number) for number in numbers.tolist()] == cells  # 007 is a name
    return numbers if same else np.array(cells, dtype=object)


def beside_new(table: Table, new: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a table that are written beside new ones, which replace their like."""
    known = {"label": table.labels, "group": table.groups}
    held = {key: value for key, value in known.items() if value is not None} | table.columns
    return {key: value for key, value in held.items() if key not in set(new)}


def _array(cells: list[Any]) -> NDArray[Any]:
    if any(isinstance(cell, float) for cell in cells):  # 3.7 is no class
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(cells)


def named_in(metadata: Mapping[str, str | bytes], name: str) -> dict[str, Any]:
    """Return the class names that the metadata of a file hold as JSON, if they hold any."""
    if "classes" not in metadata:
        return {}
    try:
        classes = json.loads(metadata["classes"])
    except (ValueError, RecursionError):
        classes = None
    if not isinstance(classes, list):
        raise InputError(f"the classes in the metadata of {name} must be a JSON list of names.")
    return {"classes": classes}


def first_difference(some: Sequence[str], others: Sequence[str]) -> int | None:
    """Return the first place where two lists of class names differ, or None."""
    if list(some) == list(others):
        return None
    pairs = zip(some, others, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(some), len(others)))


def shown_name(names: Sequence[str], place: int) -> str:
    """Return a class name for a sentence."""
    return "nothing" if place >= len(names) else repr(names[place])
