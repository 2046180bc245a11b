"""Checks of single arguments: a choice, a number, a function, a seed."""

from __future__ import annotations

import difflib
import math
import numbers
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_choice(value: object, choices: Iterable[str], name: str) -> str:
    """Return ``value`` when it is one of ``choices``; otherwise say what it is closest to."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(repr(option) for option in options)
    msg = f"{name} must be one of {listed}. Got {value!r} instead.{hint}"
    raise InputError(msg)


def check_number(
    value: object,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
) -> float:
    """Return a finite number inside ``[low, high]`` (or ``(low, high]``) as a float."""
    boolean = isinstance(value, (bool, np.bool_))
    try:
        number = float(value) if isinstance(value, numbers.Real) and not boolean else np.nan
    except OverflowError:  # an integer of more than 308 digits
        number = np.inf
    inside = (number > low if open_low else number >= low) and number <= high
    if not (math.isfinite(number) and inside):
        demand = f"a finite number in {'(' if open_low else '['}{low:g}, {high:g}]"
        msg = f"{name} must be {demand}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_integer(value: object, name: str, *, low: int = 0, high: float = sys.maxsize) -> int:
    """Return ``value`` as an int that is at least ``low``; ``high`` keeps it inside 64 bits."""
    integral = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    number = int(value) if integral else low - 1  # pyright: ignore[reportArgumentType]
    if not low <= number <= high:
        msg = f"{name} must be an integer of at least {low}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_callable(value: object, name: str) -> Callable[..., Any]:
    """Return ``value`` when it can be called."""
    if not callable(value):
        msg = f"{name} must be a function. Got {type(value).__name__} instead."
        raise InputError(msg)
    return value


def check_seed(seed: object) -> np.random.Generator:
    """Return a NumPy generator from an integer seed or a generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_integer(seed, "seed", high=np.inf))
