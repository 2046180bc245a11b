"""Checks of single arguments of the lab: a choice, a number, an integer, a seed."""

from __future__ import annotations

import difflib
import math
import numbers
from typing import TYPE_CHECKING

import numpy as np

from temperance import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_choice(value: object, choices: Iterable[str], name: str) -> str:
    """Return ``value`` when it is one of ``choices``; otherwise name the closest choice."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    msg = f"{name} must be one of {', '.join(map(repr, options))}. Got {value!r} instead.{hint}"
    raise InputError(msg)


def check_number(
    value: object,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
) -> float:
    """Return a finite number in [low, high], or in (low, high], as a float."""
    real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    number = float(value) if real else math.nan  # pyright: ignore[reportArgumentType]
    if not (math.isfinite(number) and low <= number <= high) or (open_low and number == low):
        demand = f"a finite number in {'(' if open_low else '['}{low:g}, {high:g}]"
        msg = f"{name} must be {demand}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_integer(value: object, name: str, low: int = 0, high: int | None = None) -> int:
    """Return an integer of at least ``low``, and of at most ``high`` where given."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    number = int(value) if whole else low - 1  # pyright: ignore[reportArgumentType]
    if number < low or (high is not None and number > high):
        demand = f"of at least {low}" if high is None else f"from {low} to {high}"
        msg = f"{name} must be an integer {demand}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_seed(seed: object) -> np.random.Generator:
    """Return a NumPy generator from an integer seed; a generator is returned as it is."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_integer(seed, "seed"))
