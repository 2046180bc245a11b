"""Temperature scaling.

Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.

    T* = argmin_T  - Σ_i w_i log softmax(z_i / T)_{y_i}

Convex in β = 1/T. A minimum at 0 < β < ∞ exists if and only if some row is not predicted right,
and the logits of the labels are on average above the mean of their rows.
"""

from __future__ import annotations

import math

from temperance._core.checks import InputError, NotIdentified, check_scale
from temperance._core.kernels import fused, temperature_moments
from temperance._core.optimise import ROUNDING, TOLERANCE, Solution, minimise_in_scale
from temperance.data import Rows, Totals, as_labelled_rows
from temperance.maps import Temperature

MARGIN = 4.0  # of the logits under a typical optimum, max - mean
FAR = 10.0  # factor by which those at T = 1 miss it where T = 1 is no place to begin
FEW = 300  # rows below which a sample is not worth its while, and one pass more is
SAMPLE = 4_096  # rows that give 1/T to 1 %, from where six derivatives find it in one pass
SHARE = 8  # of the rows at most one in so many is in the sample; eight need half as many
ROUGH = 1e-2  # error of the optimum of such a sample; that of a smaller one is larger


def fit_temperature(
    logits: object, labels: object = None, sample_weight: object = None
) -> Temperature:
    r"""Fit one temperature by maximum likelihood.

    .. math:: T^* = \arg\min_T -\sum_i w_i \log \mathrm{softmax}(z_i / T)_{y_i}

    Parameters
    ----------
    logits : array of shape (n, K) or rows
        Scores before the softmax.
    labels : array of shape (n,) or (n, K)
        Class indices, or soft labels that sum to one in each row.
    sample_weight : array of shape (n,), optional
        Non-negative weights; an integer weight equals repetition.

    Returns
    -------
    Temperature
        The map ``z / T``. Its optimum is exact to rounding at any scale of the logits.

    Raises
    ------
    NotIdentified
        When every row is right (T would be 0), the logits are constant, or they say nothing about
        the labels (T would be infinite).

    See Also
    --------
    fit_uts : without labels.

    Notes
    -----
    Equals ``1 / beta_`` of scikit-learn's temperature method, which stops at ``T = e^±10``.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    >>> round(tp.fit_temperature(z, [0, 0, 0, 1]).temperature, 6)  # 2 / log 3
    1.820478
    """
    return Temperature(1 / solve_temperature(as_labelled_rows(logits, labels, sample_weight)).x)


def solve_temperature(rows: Rows) -> Solution:
    """Return the optimal β = 1/T for rows with labels."""
    start = _start(rows)
    solution = _minimise(rows, start, ROUNDING if rows.n <= FEW else TOLERANCE)
    if not solution.converged:
        msg = (
            f"the temperature is not identified by these {rows.n} rows: near T = "
            f"{1 / solution.x:.3g} the likelihood is flat beyond what float64 can tell."
        )
        raise NotIdentified(msg)
    return solution


def _minimise(rows: Rows, start: float | None, tolerance: float) -> Solution:
    """Return the optimum, from a start or else T = 1, unless that is far from typical margins."""
    rough = tolerance > TOLERANCE
    known: dict[float, Totals] = {}

    def totals(beta: float) -> Totals:
        if beta not in known:
            known[beta] = sums = _totals(rows, beta, rough=rough)
            _check_identified(rows.n, *sums[-4:])
        return known[beta]

    if start is None:
        *_, spread, mass = totals(1.0)
        typical: float = MARGIN * mass / spread
        start = 1.0 if 1 / FAR < typical < FAR else typical
    return minimise_in_scale(lambda beta: totals(beta)[:-4], start, tolerance=tolerance)


def _totals(rows: Rows, beta: float, *, rough: bool) -> Totals:
    """Return the moments of all rows, whose spread is NaN where a logit is not finite."""
    return rows.reduce_vouched(
        lambda block: temperature_moments(block, beta, rough=rough),
        lambda totals: not math.isnan(totals[-2]),
        together=2 if fused() is None else 8,
    )


def _check_identified(n: int, below: float, above: float, spread: float, mass: float) -> None:
    """Raise unless the NLL falls from both ends of the scale towards the middle."""
    check_scale(spread / mass)
    if spread <= 0:
        why = "the logits are constant in every row, so no temperature changes anything."
    elif below <= 0:
        why = (
            "every row is predicted right, so the likelihood rises for ever as T falls to 0. Use "
            "rows that the model was not trained on, or more of them."
        )
    elif above <= 0:
        why = (
            "the logits of the labels are on average no higher than those of the other classes, so "
            "the likelihood rises for ever as T grows. Check the order of the classes."
        )
    else:
        return
    msg = f"the temperature is not identified by these {n} rows: {why}"
    raise NotIdentified(msg)


def _start(rows: Rows) -> float | None:
    """Return the optimal β of a sample, which a sample of the sample has led to.

    There is none where there are few rows, or the sample does not identify its optimum. What is
    wrong with values in the sample is wrong with the whole, where the first pass says it.
    """
    less = 2 if fused() is not None else 1
    sample = rows.head(min(SAMPLE // less, max(FEW, rows.n // (less * SHARE))))
    if sample is rows:
        return None
    sample.trust()
    try:
        return _minimise(sample, _start(sample), tolerance=ROUGH * math.sqrt(SAMPLE / sample.n)).x
    except (InputError, NotIdentified):
        return None
    finally:
        rows.passes += sample.passes * sample.n / rows.n
