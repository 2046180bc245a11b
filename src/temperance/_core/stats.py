"""A number with its interval, and the normal quantile of every interval."""

from __future__ import annotations

from typing import NamedTuple

Z90 = 1.645  # two-sided normal quantile of 90 %


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
