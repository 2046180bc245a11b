"""A number with its interval, and the intervals of normal errors and of shares."""

from __future__ import annotations

import math
from typing import NamedTuple

Z90 = 1.645  # two-sided normal quantile of 90 %
LEAST = 1e-3  # least distance of a share from 0 and 1 where its standard error is computed


class Interval(NamedTuple):
    """An estimate and the interval in which the truth is expected to lie.

    >>> Interval(0.8, 0.7, 0.9)
    Interval(value=0.8, low=0.7, high=0.9)
    >>> float(Interval(0.8, 0.7, 0.9))
    0.8
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        """Return the estimate alone."""
        return float(self.value)

    def __format__(self, spec: str) -> str:
        """Format the three numbers alike: ``0.80 [0.70, 0.90]``."""
        value, low, high = (format(float(v), spec) for v in self)
        return f"{value} [{low}, {high}]"


def normal_interval(value: float, standard_error: float) -> Interval:
    """Return the 90 % interval of a normal error, cut to [0, 1]."""
    value = min(max(value, 0.0), 1.0)
    low, high = value - Z90 * standard_error, value + Z90 * standard_error
    return Interval(value, max(0.0, low), min(1.0, high))


def share_interval(value: float, *sizes: int) -> Interval:
    """Return the 90 % interval of a share that rests on several samples of the given sizes."""
    a = min(max(value, LEAST), 1 - LEAST)
    return normal_interval(value, math.sqrt(a * (1 - a) * sum(1 / n for n in sizes)))


def wilson(share: float, n: int) -> Interval:
    """Return the 90 % interval of a share of n independent rows (Wilson, 1927)."""
    middle = (share + Z90**2 / (2 * n)) / (1 + Z90**2 / n)
    half = Z90 / (1 + Z90**2 / n) * math.sqrt(share * (1 - share) / n + (Z90 / (2 * n)) ** 2)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def overlap(one: Interval, other: Interval) -> bool:
    """Return whether two intervals have a point in common."""
    return one.low <= other.high and other.low <= one.high
