"""Intervals of an accuracy for the sampling error of the rows alone."""

from __future__ import annotations

import math

from temperance._core.stats import Interval

Z90 = 1.645  # two-sided 90 % quantile of the normal distribution
LEAST = 1e-3  # distance of a share from 0 and 1 in its own standard error


def normal_interval(value: float, standard_error: float) -> Interval:
    """Return the 90 % interval of a normal error, cut to [0, 1]."""
    value = min(max(value, 0.0), 1.0)
    low, high = value - Z90 * standard_error, value + Z90 * standard_error
    return Interval(value, max(0.0, low), min(1.0, high))


def share_interval(value: float, *sizes: int) -> Interval:
    """Return the 90 % interval of a share that rests on several samples of the given sizes."""
    a = min(max(value, LEAST), 1 - LEAST)
    return normal_interval(value, math.sqrt(a * (1 - a) * sum(1 / n for n in sizes)))
