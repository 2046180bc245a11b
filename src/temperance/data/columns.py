"""Tables with named columns: which of them are logits."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from temperance._core.checks import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL = "label"


def columns_of(header: Sequence[str], name: str) -> list[str]:
    """Return ``logit_0 … logit_{K-1}`` of a table, in the order of the classes."""
    repeated = [column for column, times in Counter(header).items() if times > 1]
    if repeated:
        raise InputError(f"{name} must name each column once. It names {repeated[0]!r} twice.")
    numbers = [int(column[6:]) for column in header if re.fullmatch(r"logit_\d{1,9}", column)]
    k = max(numbers, default=-1) + 1
    if k < 2:
        shown = ", ".join(repr(column[:40]) for column in header[:6]) or "no columns at all"
        advice = ""
        if any(column.startswith("prob_") for column in header):
            advice = "; these are probabilities: save the scores before the softmax"
        msg = f"{name} must have the columns logit_0, logit_1, … Got {shown}{advice}."
        raise InputError(msg)
    missing = sorted(set(range(k)) - set(numbers))
    if missing:
        msg = f"{name} must have the columns logit_0 to logit_{k - 1}. Missing: logit_{missing[0]}"
        more = f" and {len(missing) - 1} more." if len(missing) > 1 else "."
        raise InputError(msg + more)
    return [f"logit_{i}" for i in range(k)]
