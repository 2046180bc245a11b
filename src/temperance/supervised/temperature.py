"""Temperature scaling.

Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.

    T* = argmin_T  - Σ_i w_i log softmax(z_i / T)_{y_i}

Convex in β = 1/T. A minimum at 0 < β < ∞ exists if and only if some row is not predicted right,
and the logits of the labels are on average above the mean of their rows.
"""

from __future__ import annotations

import math

from temperance._core import kernels, optimise
from temperance._core.checks import InputError, NotIdentified, check_scale
from temperance._core.optimise import Moments, Solution, minimise_in_scale
from temperance.data import Rows, as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.maps import Temperature

TYPICAL_MARGIN = 4.0  # mean of max z - mean z under a typical optimum
MAX_MARGIN_RATIO = 10.0  # of the margin at T = 1 to TYPICAL_MARGIN, else the fit starts elsewhere
MASKED_BETA = 1e-6  # a typical β below this is that of masks where the NLL is curved at T = 1
CURVED_VARIANCE = 1e-3  # mean variance of u at T = 1 above which the NLL is curved there
ROWS_WITHOUT_SAMPLE = 300  # rows up to which the fit needs no sample, and goes on to rounding
SAMPLE_ROWS = 4_096  # rows that give 1/T to 1 %, from where six derivatives end the fit in one pass
ROWS_PER_SAMPLED = 8  # a sample holds at most one row in eight
SAMPLE_TOLERANCE = 1e-2  # relative error of the optimum of SAMPLE_ROWS rows


def fit_temperature(
    logits: LogitsLike, labels: LabelsLike | None = None, sample_weight: WeightsLike | None = None
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
    few = rows.n <= ROWS_WITHOUT_SAMPLE
    tolerance = optimise.RELATIVE_ROUNDING if few else optimise.TOLERANCE
    solution = _minimise(rows, _start(rows), tolerance)
    if not solution.converged:
        raise NotIdentified(
            f"the temperature is not identified by these {rows.n} rows: near T = "
            f"{1 / solution.x:.3g} the likelihood is flat beyond what float64 can tell."
        )
    return solution


def _minimise(rows: Rows, start: float | None, tolerance: float) -> Solution:
    """Return the optimum, from a start or else T = 1, unless that is far from typical margins."""
    known: dict[float, Moments] = {}

    def moments(beta: float) -> Moments:
        if beta not in known:
            known[beta] = rows.reduce_with_validity(
                lambda block: kernels.temperature_moments(*block, beta)
            )
            _check_identified(rows.n, known[beta])
        return known[beta]

    if start is None:
        at_one = moments(1.0)
        typical = TYPICAL_MARGIN * at_one.weight / at_one.logit_range
        masked = typical < MASKED_BETA and at_one.derivatives[1] > CURVED_VARIANCE * at_one.weight
        start = 1.0 if masked or 1 / MAX_MARGIN_RATIO < typical < MAX_MARGIN_RATIO else typical
    return minimise_in_scale(lambda beta: moments(beta).relative, start, tolerance=tolerance)


def _check_identified(n: int, moments: Moments) -> None:
    """Raise unless the NLL falls from both ends of the scale towards the middle."""
    check_scale(moments.logit_range / moments.weight)
    if moments.logit_range <= 0:
        why = "the logits are constant in every row, so no temperature changes anything."
    elif moments.slope_at_infinity <= 0:
        why = (
            "every row is predicted right, so the likelihood rises for ever as T falls to 0. Use "
            "rows that the model was not trained on, or more of them."
        )
    elif moments.slope_at_zero >= 0:
        why = (
            "the logits of the labels are on average no higher than those of the other classes, so "
            "the likelihood rises for ever as T grows. Check the order of the classes."
        )
    else:
        return
    raise NotIdentified(f"the temperature is not identified by these {n} rows: {why}")


def _start(rows: Rows) -> float | None:
    """Return the optimal β of a sample of the rows, started from that of a smaller sample.

    Return None where there are few rows, or where the sample does not identify its optimum. Values
    of the sample are not checked here: the first pass over all rows does so.
    """
    sample = rows.thin(min(SAMPLE_ROWS, max(ROWS_WITHOUT_SAMPLE, rows.n // ROWS_PER_SAMPLED)))
    if sample is rows:
        return None
    sample.skip_value_checks()
    try:
        return _minimise(
            sample, _start(sample), tolerance=SAMPLE_TOLERANCE * math.sqrt(SAMPLE_ROWS / sample.n)
        ).x
    except (InputError, NotIdentified):
        return None
    finally:
        rows.passes += sample.passes * sample.n / rows.n
