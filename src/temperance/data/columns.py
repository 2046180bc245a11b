"""Tables with named columns: which of them are logits, or probabilities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from temperance._core.checks import InputError

LABEL = "label"
Prefix = Literal["logit", "prob"]


def columns_of(header: Sequence[str], name: str, prefix: Prefix = "logit") -> list[str]:
    """Return ``logit_0 … logit_{K-1}`` of a table, in the order of the classes."""
    repeated = [column for column, times in Counter(header).items() if times > 1]
    if repeated:
        raise InputError(f"{name} must name each column once. It names {repeated[0]!a} twice.")
    numbers = sorted(_number(column, prefix, name) for column in header if _is_one(column, prefix))
    k = len(numbers)
    gap = next((i for i, number in enumerate(numbers) if i != number), None)
    if gap is not None:
        msg = f"{name} must have the columns {prefix}_0, {prefix}_1, … without a gap. It has"
        raise InputError(f"{msg} {prefix}_{numbers[gap]}. Missing: {prefix}_{gap}.")
    if k < 2:
        shown = ", ".join(f"{column[:40]!a}" for column in header[:6]) or "no columns at all"
        parted = len(header) == 1 and re.search(r"[;\t|]", header[0])
        way_out = "part the columns by commas" if parted else "rename the columns of the classes"
        raise InputError(
            f"{name} must have the columns {prefix}_0, {prefix}_1, … Got {shown}; {way_out}."
        )
    return [f"{prefix}_{i}" for i in range(k)]


def has_columns(header: Sequence[str], prefix: Prefix) -> bool:
    """Return whether a table names columns in the way that logits or probabilities are named."""
    return any(_is_one(column, prefix) for column in header)


def _is_one(column: str, prefix: Prefix) -> bool:
    return re.fullmatch(rf"{prefix}_\d+", column) is not None  # digits of any script


def _number(column: str, prefix: Prefix, name: str) -> int:
    """Return the class of a column, whose number is spelled in one way only."""
    digits = column.removeprefix(f"{prefix}_")
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", digits):
        msg = f"{name} must count its columns {prefix}_0, {prefix}_1, {prefix}_2, … in plain digits"
        raise InputError(f"{msg}. Got {column[:40]!a}.")
    return int(digits)
