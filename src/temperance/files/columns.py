"""What the columns of a table say: those beside the logits, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._checks import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


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


def beside(found: dict[str, list[Any]]) -> dict[str, NDArray[Any]]:
    """Return labels and groups: as integers where every cell is one, else as they are."""
    return {key: _array(cells) for key, cells in found.items()}


def _array(cells: list[Any]) -> NDArray[Any]:
    if any(isinstance(cell, float) for cell in cells):  # 3.7 is no class
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(cells)


def first_difference(some: Sequence[str], others: Sequence[str]) -> int | None:
    """Return the first place where two lists of class names differ, or None."""
    if list(some) == list(others):
        return None
    pairs = zip(some, others, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(some), len(others)))


def shown_name(names: Sequence[str], place: int) -> str:
    """Return a class name for a sentence."""
    return "nothing" if place >= len(names) else repr(names[place])
