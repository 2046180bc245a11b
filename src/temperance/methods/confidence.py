"""Mean confidence: an estimate of the accuracy, and a condition that fixes the temperature.

    conf(T) = mean_i max_k softmax(z_i / T)_k

A calibrated model has conf(1) equal to its accuracy. Where the accuracy is known or estimated, T
with conf(T) = accuracy is the temperature that is right on average (`match_confidence`); conf falls
from 1 to 1/K as T grows, so T is unique.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats, softmax_at
from temperance._core.checks import NotIdentified, check_number, check_scale, check_seed
from temperance._core.optimise import root_in_scale, search_in_scale
from temperance.data import as_rows
from temperance.data.given import draw_rows
from temperance.data.types import LogitsLike
from temperance.maps import Temperature

MAX_RATIO = 1e8  # of T and the typical margin of the logits, in either direction
SEARCHED_RATIO = 100.0  # the same where the objective has several valleys
GAP_QUANTILE = 0.1  # quantile of the gaps
MAX_ACCURACY = 1 - 1e-6  # conf(T) = 1 only in the limit T → 0
MIN_OVER_CHANCE = 1.2  # accuracy over 1/K, so that T stays finite


def mean_confidence(logits: NDArray[Any], temperature: float) -> float:
    """Return the mean top probability of softmax(z / T)."""
    return float(softmax_at(logits, temperature).max(axis=1).mean())


def typical_margin(logits: NDArray[Any], name: str = "target_logits") -> float:
    """Return a low quantile of the gaps between a row's maximum and its other logits.

    The margin is the scale of a temperature. A low quantile leaves out classes that are masked by a
    very small logit.
    """
    gaps = np.asarray(logits, dtype=np.float64)
    gaps = gaps.max(axis=1, keepdims=True) - gaps
    gaps = gaps[(gaps > 0) & np.isfinite(gaps)]
    if not gaps.size:
        msg = f"{name} are constant in every row, so no temperature changes anything."
        raise NotIdentified(msg)
    margin = float(np.quantile(gaps, GAP_QUANTILE))
    check_scale(margin, name)
    return margin


def solve_confidence(logits: NDArray[Any], accuracy: float) -> float:
    """Return T at which the mean confidence is ``accuracy``, by Brent's method in log T."""
    margin = typical_margin(logits)

    def excess(temperature: float) -> float:
        return mean_confidence(logits, temperature) - accuracy

    return root_in_scale(excess, margin / MAX_RATIO, margin * MAX_RATIO, tolerance=1e-9).x


def search_temperature(
    objective: Callable[[Floats], Floats],
    logits: NDArray[Any],
    name: str = "target_logits",
    **options: int,
) -> Temperature:
    """Return T with the least objective, which is a function of many temperatures at once."""
    margin = typical_margin(logits, name)
    low, high = margin / SEARCHED_RATIO, margin * SEARCHED_RATIO
    return Temperature(search_in_scale(objective, low, high, **options).x)


def temperature_of_accuracy(logits: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Return T of labelled rows that do not identify it.

    Where the labels tell nothing of the logits, the mean confidence is the accuracy, a little above
    chance, so that T has the unit of the logits. Rows that are all right, such as rows of the
    training, have T = 1: the likelihood alone would make the model surer on the shifted rows too.
    """
    right = logits.argmax(axis=1) == labels
    if right.all():
        return 1.0
    try:
        least = MIN_OVER_CHANCE / logits.shape[1]
        return solve_confidence(logits, max(float(right.mean()), least))
    except NotIdentified:  # constant logits
        return 1.0


def match_confidence(
    target_logits: LogitsLike, accuracy: float, *, seed: int | np.random.Generator = 0
) -> Temperature:
    """Return the temperature at which the mean confidence on the target is a given accuracy.

    With `estimate_accuracy` this makes a calibration of every accuracy estimate.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    accuracy : float
        Above 1/K, at most 1.
    seed : int or Generator
        Of the draw of rows, used where there are more rows than a label-free method reads.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[3.0, 0.0], [0.0, 3.0]] * 10)
    >>> round(tp.match_confidence(z, 0.75).temperature, 2)  # 3 / log 3
    2.73
    """
    rows = as_rows(target_logits, name="target_logits")
    a = check_number(accuracy, "accuracy", low=1 / rows.n_classes, high=1, open_low=True)
    z = draw_rows(rows, check_seed(seed)).logits
    return Temperature(solve_confidence(z, min(a, MAX_ACCURACY)))
