"""Columns of a table: those beside the logits, and the names of all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError
from temperance.data.columns import Prefix, has_columns
from temperance.io.strict_json import parse
from temperance.io.table import Content, Keep

PROBABILITIES = (
    "It holds probabilities: add --probabilities, or save the scores before the softmax."
)
INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)


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


def count_in_front(header: Sequence[str], logits: Sequence[str]) -> int:
    """Return how many other columns stand before the first column of the logits."""
    wanted = set(logits)
    return next(place for place, name in enumerate(header) if name in wanted)


def prefix_of(header: Sequence[str], content: Content, where: str) -> Prefix:
    """Return which columns of a table are read: ``logit_0 …`` or ``prob_0 …``."""
    logits, probabilities = (has_columns(header, prefix) for prefix in ("logit", "prob"))
    if content == "logits" and probabilities and not logits:
        raise InputError(f"{where} must have the columns logit_0, logit_1, … {PROBABILITIES}")
    if content == "probabilities":
        return "logit" if logits and not probabilities else "prob"
    return "logit" if logits or not probabilities else "prob"


def held_in(prefix: Prefix, content: Content) -> Content:
    """Return what the columns of a table hold."""
    return "probabilities" if prefix == "prob" or content == "probabilities" else "logits"


def array_of(names: Iterable[str], content: Content, where: str) -> str:
    """Return which array of a file is read: ``logits`` or ``probabilities``."""
    held = [name for name in names if name != "__metadata__"]
    wanted = ("probabilities", "logits") if content == "probabilities" else ("logits",)
    wanted = ("logits", "probabilities") if content == "either" else wanted
    found = next((name for name in wanted if name in held), None)
    if found is None and "probabilities" in held:
        raise InputError(f"{where} must hold an array named 'logits'. {PROBABILITIES}")
    if found is None:
        shown = ", ".join(name[:40] for name in held[:8]) or "nothing"
        raise InputError(
            f"{where} must hold an array named {wanted[0]!r}, (n, K). It holds {shown}; write it "
            f"with numpy.savez(path, {wanted[0]}=z), or as safetensors."
        )
    return found


def beside(found: dict[str, list[Any]]) -> dict[str, NDArray[Any]]:
    """Return labels and groups: as integers where every cell is one, else as they are."""
    return {key: _array(cells) for key, cells in found.items()}


def as_they_stand(cells: list[str]) -> NDArray[Any]:
    """Return a column of text that is written again: integers where that gives the same text."""
    if all(INTEGER.fullmatch(cell) for cell in cells):
        numbers = np.array([int(cell) for cell in cells], dtype=np.int64)
        if [str(number) for number in numbers.tolist()] == cells:  # 007 is a name
            return numbers
    return np.array(cells, dtype=object)


def _array(cells: list[Any]) -> NDArray[Any]:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if any(isinstance(cell, float) for cell in cells):  # 3.7 is no class
        return np.array(cells)
    if not all(INTEGER.fullmatch(text) for text in texts):
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError, TypeError):
        return np.array(cells)


def named_in(metadata: Mapping[str, str | bytes], name: str) -> dict[str, Any]:
    """Return the class names that the metadata of a file hold as JSON, if they hold any."""
    if "classes" not in metadata:
        return {}
    try:
        classes = parse(metadata["classes"])
    except InputError:
        classes = None
    if not isinstance(classes, list):
        raise InputError(f"the classes in the metadata of {name} must be a JSON list of names.")
    return {"classes": classes}


def difference(some: Sequence[str], others: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the first class whose two names differ with both, for a sentence; None where none."""
    for place, (one, other) in enumerate(zip_longest(some, others)):
        if one != other:
            a, b = ("nothing" if name is None else repr(name[:80]) for name in (one, other))
            return place, a, b
    return None
