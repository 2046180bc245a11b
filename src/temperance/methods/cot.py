"""COT and COTT: accuracy by optimal transport of predictions to labels.

Lu, Wang, Zhai, Kolouri, Campbell and Sycara, "Characterizing out-of-distribution error via optimal
transport", NeurIPS 2023. Rows of probabilities are transported to one-hot labels whose class mix is
the prior q, at the cost 1 - p_y of giving label y to a row (`transport`).

    COT    accuracy = 1 - mean cost of the target rows
    COTT   t = quantile of the costs of the source rows, transported to their own labels, at the
           accuracy of the source; accuracy = share of target rows with cost ≤ t

Both need many rows per class. A few rows of each class do not have the mix q themselves, and the
transport pays for the difference: with 4 rows per class and an accuracy of .88, COT says .49.

Departure from the paper, which supposes the same class mix in both domains: COTT weighs source rows
by q_y / π_y, with π the class mix of the source. Unweighted, COTT fails under label shift.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats, softmax_at
from temperance._core.checks import InputError
from temperance._core.stats import Interval, normal_interval, share_interval
from temperance.data.given import LabelledSample
from temperance.methods.transport import solve_transport

NO_MASS = 1e-4  # share of a row, below which smoothing alone puts it into a class


def estimate_cot(target: NDArray[Any], prior: Floats, temperature: float) -> Interval:
    """Return one minus the mean cost of the target rows.

    The standard error is that of the mean of max_k (p_ik + v_k) at fixed potentials v: by the
    envelope theorem, a small change of v does not change the optimum.
    """
    p = softmax_at(target, temperature)
    solved = solve_transport(p, prior)
    best = (p + solved.potentials).max(axis=1)
    return normal_interval(solved.value, float(best.std()) / math.sqrt(len(best)))


def estimate_cott(
    target: NDArray[Any], prior: Floats, source: LabelledSample, temperature: float
) -> Interval:
    """Return the share of target rows whose cost is at most the source's threshold."""
    count = np.bincount(source.labels, minlength=len(prior))
    weight = (prior / np.maximum(count, 1))[source.labels]
    if not weight.sum() > 0:
        msg = "source must have rows of a class with a positive prior. It has none; give more rows."
        raise InputError(msg)
    weight /= weight.sum()  # q_y / π_y, with π the class shares of the labels
    correct = source.logits.argmax(axis=1) == source.labels
    mix = np.bincount(source.labels, weight, len(prior)).astype(np.float64)
    cost, mass = _transport_costs(softmax_at(source.logits, temperature), mix, weight)
    order = np.argsort(cost, kind="stable")
    place = int(np.searchsorted(np.cumsum(mass[order]), float(weight @ correct)))
    threshold = cost[order][min(place, len(cost) - 1)]
    equal = np.full(len(target), 1 / len(target))
    cost, mass = _transport_costs(softmax_at(target, temperature), prior, equal)
    accuracy = float(mass[cost <= threshold].sum() / mass.sum())
    return share_interval(accuracy, len(target), int(1 / float(weight @ weight)))


def _transport_costs(p: Floats, mix: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the costs 1 - p_y that occur in the best plan, and the mass that pays each cost."""
    mass = solve_transport(p, mix, weight).shares * weight[:, None]
    some = mass > NO_MASS * weight[:, None]
    return 1 - p[some], mass[some]
