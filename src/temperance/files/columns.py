"""What the columns beside the logits of a table say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def beside(found: dict[str, list[Any]]) -> dict[str, NDArray[Any]]:
    """Return labels and groups: as integers where every cell is one, else as they are."""
    columns = {"label": "labels", "group": "groups"}
    return {columns[key]: _array(cells) for key, cells in found.items()}


def _array(cells: list[Any]) -> NDArray[Any]:
    if any(isinstance(cell, float) for cell in cells):  # 3.7 is no class
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(cells)
