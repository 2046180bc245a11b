"""Temperature scaling.

Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.

    T* = argmin_T  - Σ_i w_i log softmax(z_i / T)_{y_i}

Convex in β = 1/T. A minimum at 0 < β < ∞ exists if and only if some row is not predicted right,
and the logits of the labels are on average above the mean of their rows.
"""

from __future__ import annotations

from temperance._checks import NotIdentified, check_scale
from temperance._kernels import edges, temperature_moments
from temperance._solve import Solution, minimise_in_scale
from temperance.maps import Temperature
from temperance.rows import Rows, Totals, as_labelled_rows

SMALL = 1 << 18  # elements below which float64 throughout costs nothing
START = 2_000  # rows of the first guess


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
    totals = rows.reduce(edges)
    check_scale(totals[2] / totals[3])
    why = _not_identified(totals)
    if why:
        msg = f"the temperature is not identified by these {rows.n} rows: {why}"
        raise NotIdentified(msg)
    if rows.n * rows.n_classes <= SMALL:
        return _minimise(rows, _crude(totals), exact=True)
    return _minimise(rows, _guess(rows.head(max(START, rows.n // 20))), exact=False)


def _not_identified(totals: Totals) -> str | None:
    below, above, spread, _ = totals
    if spread <= 0:
        return "the logits are constant in every row, so no temperature changes anything."
    if below <= 0:
        return (
            "every row is predicted right, so the likelihood rises for ever as T falls to 0. Use "
            "rows that the model was not trained on, or more of them."
        )
    if above <= 0:
        return (
            "the logits of the labels are on average no higher than those of the other classes, so "
            "the likelihood rises for ever as T grows. Check the order of the classes."
        )
    return None


def _crude(totals: Totals) -> float:
    """Return a β that makes typical margins of order one, whatever the scale of the logits."""
    _, _, spread, mass = totals
    return 4 * mass / spread


def _guess(sample: Rows) -> float:
    """Return the optimum of a sample, or the crude scale where the sample does not identify one."""
    totals = sample.reduce(edges)
    if _not_identified(totals):
        return _crude(totals) if totals[2] > 0 else 1.0
    return _minimise(sample, _crude(totals), exact=False).x


def _minimise(rows: Rows, start: float, *, exact: bool) -> Solution:
    def moments(beta: float, exact: bool) -> tuple[float, float, float, float]:
        return rows.reduce(lambda block: temperature_moments(block, beta, exact=exact))

    return minimise_in_scale(moments, start, exact=exact)
