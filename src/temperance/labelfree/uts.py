"""Unsupervised temperature scaling (UTS).

Mozafari, Gomes and Gagné, "A novel unsupervised post-processing calibration method for DNNs with
robustness to domain shift", 2020. From logits z of the target and its class prior q alone:

    1.  w* = argmin_w J(w)              how far weights of missing rows must reach
    2.  T* = argmin_T WNLL(T; w*)       a weighted NLL, convex in 1/T

``form="reference"`` is what the authors' published code computes; p = softmax(z), ŷ = argmax z:

    W_ik(w) = (p_ik / (1 - p_ik))^(1/w)      for k ≠ ŷ_i
    m_k     = max(0, 1 - 0.99 n_k / (n q_k)) the shortfall of predictions of class k
    J(w)    = Σ_k ( (1/n) Σ_{i: ŷ_i ≠ k} W_ik(w) - m_k )²
    WNLL(T) = - Σ_i log p_{i,ŷ_i}(T) - 1/(K-1) Σ_i Σ_{k ≠ ŷ_i} W_ik(w*) log p_ik(T)

``form="paper"`` keeps the printed equations 4, 7 and 8: weight 1 for k = ŷ_i, the probabilities
inside the weight at temperature 1/w (main text) or 1 (appendix), J(w) = Σ_k (mean Ŵ_k - q_k)².
Their optimum usually runs to w = 0, which is raised as `NotIdentified`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance._arrays import to_numpy
from temperance._checks import NotIdentified, check_choice, check_integer, check_prior, check_seed
from temperance._kernels import temperature_moments
from temperance._solve import minimise_in_scale, search_in_scale
from temperance.maps import Temperature
from temperance.rows import ArrayRows, Block, Rows, as_rows, shuffled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

BAG = 2_000  # the paper's own sample size, at which its deficits mean what they should
MAX_BAGS = 10  # more bags would not narrow the answer by what the method is worth
COVER = 0.99  # the authors' factor in the deficit
SPAN = (1e-3, 1e3)  # of 1/w
LEAST_DOUBT = 1e-6  # mean 1 - max p below which T has run to zero
FORMS = ("reference", "paper", "appendix")


def fit_uts(
    target_logits: object,
    prior: object = None,
    *,
    form: str = "reference",
    bag_size: int | None = BAG,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature from unlabelled target logits and the target's class prior.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
        Class probabilities of the target; they sum to one.
    form : {"reference", "paper", "appendix"}
        What the authors ran, or the printed equations with the main text's or the appendix's
        weights, for study.
    bag_size : int or None
        The method reads sampling noise of the predicted class counts as a deficit, so its T
        falls as rows are added. With bags of a fixed size, the geometric mean of the bags' T does
        not; with fewer rows than one bag the deficits are shrunk to what a full bag would show.
        None uses all rows at once, as the authors do.
    seed : int or Generator
        Decides which rows fall into which bag.

    Returns
    -------
    Temperature

    Raises
    ------
    NotIdentified
        When the optimum in w or T escapes, e.g. one class is predicted for every row.

    Notes
    -----
    Guarantee: none without its assumption, that the logits are wrong by one factor and the prior is
    right. `fit_prior_matched` makes better use of the same information.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(5, size=4000)
    >>> z = 4 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # leans to class 0
    >>> tp.fit_uts(z, np.full(5, 0.2)).temperature > 1
    True
    """
    check_choice(form, FORMS, "form")
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    q = check_prior(prior, rows.n_classes)
    if bag_size is None:
        return Temperature(_fit_bag(rows, q, form, shrink_to=None))
    size = check_integer(bag_size, "bag_size", low=30)
    if rows.n <= size:
        return Temperature(_fit_bag(rows, q, form, shrink_to=size))
    n_bags = min(MAX_BAGS, rows.n // size)
    picked = shuffled(rows.n, n_bags * size, generator)
    sample = rows.take(picked).logits
    logs = [
        np.log(_fit_bag(ArrayRows(sample[start : start + size], checked=True), q, form, None))
        for start in range(0, len(picked), size)
    ]
    return Temperature(float(np.exp(np.mean(logs))))


@dataclass(frozen=True)
class Deficit:
    """Predicted counts of a target and how far they fall short of the prior."""

    counts: NDArray[np.int64]
    missing: Matrix

    @classmethod
    def of(cls, rows: Rows, q: Matrix, shrink_to: int | None) -> Deficit:
        """Count predictions; with ``shrink_to``, tame the sampling noise of a small sample."""
        counts = rows.reduce(count_predictions)[0]
        n = int(counts.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, counts / (n * q), np.inf)
        if shrink_to is not None and n < shrink_to:
            ratio = 1 + (ratio - 1) * _shrinkage(ratio, q, n, shrink_to)
        return cls(counts, np.maximum(0.0, 1 - COVER * ratio))


def _shrinkage(ratio: Matrix, q: Matrix, n: int, size: int) -> float:
    """Factor that gives relative deviations from n rows the size they would have from ``size``.

    The mean square of n_k/(n q_k) - 1 is that of the true deviations plus (1 - q_k)/(n q_k) for the
    sampling; the first is kept and the second replaced by its value at ``size`` rows.
    """
    here = q > 0
    seen = float(np.mean((ratio[here] - 1) ** 2))
    noise = float(np.mean((1 - q[here]) / q[here])) / n
    true = max(0.0, seen - noise)
    return min(1.0, np.sqrt((true + noise * n / size) / seen)) if seen > 0 else 1.0


def count_predictions(block: Block) -> tuple[NDArray[np.int64]]:
    """Return the number of rows predicted as each class."""
    z = to_numpy(block.logits)
    return (np.bincount(z.argmax(axis=1), minlength=z.shape[1]),)


def _fit_bag(rows: Rows, q: Matrix, form: str, shrink_to: int | None) -> float:
    deficit = Deficit.of(rows, q, shrink_to)
    if np.count_nonzero(deficit.counts) < 2:
        msg = "all target rows are predicted as one class: UTS needs at least two."
        raise NotIdentified(msg)
    v = find_reach(rows, q, deficit, form)
    return 1 / _weighted_temperature(rows, v, form)


def find_reach(rows: Rows, q: Matrix, deficit: Deficit, form: str) -> float:
    """Return 1/w*, the global minimum of J."""
    try:
        solution = search_in_scale(reach_objective(rows, q, deficit, form), *SPAN)
    except NotIdentified as error:
        msg = f"UTS in its {form} form has no optimal weight: {error}"
        raise NotIdentified(msg) from None
    if form != "reference":
        n = int(deficit.counts.sum())
        gain = float(((deficit.counts / n - q) ** 2).sum()) - solution.value
        noise = float((q * (1 - q)).sum()) / n
        if gain < noise:  # what chance does to the predicted counts; w = 0 is as good
            msg = (
                f"UTS in its {form} form has no optimal weight: against w = 0, where T is 0 too, "
                f"the best w lowers the objective by {gain:.2g}, less than its noise {noise:.2g}."
            )
            raise NotIdentified(msg)
    return solution.x


def reach_objective(
    rows: Rows, q: Matrix, deficit: Deficit, form: str
) -> Callable[[Matrix], Matrix]:
    """Return J as a function of many v = 1/w at once: one pass over the rows."""
    wanted = deficit.missing if form == "reference" else q
    share = deficit.counts / deficit.counts.sum()

    def objective(v: Matrix) -> Matrix:
        total = rows.reduce(lambda block: (_weights_by_class(block, v, form),))[0] / rows.n
        if form != "reference":
            total = total + share  # weight 1 where k is predicted
        return ((total - wanted) ** 2).sum(axis=1)

    return objective


def _log_odds(z: Matrix) -> Matrix:
    """``log p_k - log(1 - p_k)`` where k is not predicted, -inf where it is."""
    top = z.argmax(axis=1)
    rows = np.arange(len(top))
    u = z - z[rows, top][:, None]
    p = np.exp(u)
    p /= p.sum(axis=1, keepdims=True)
    odds = u + (np.log(p[rows, top])[:, None] - np.log1p(-np.minimum(p, 0.75)))
    odds[rows, top] = -np.inf
    return odds


def _weights_by_class(block: Block, v: Matrix, form: str) -> Matrix:
    """``Σ_{i: ŷ_i ≠ k} W_ik`` for each v = 1/w (rows) and class k (columns)."""
    z = to_numpy(block.logits).astype(np.float64)
    if form == "paper":
        return np.stack([np.exp(x * _log_odds(z * x)).sum(axis=0) for x in v])
    odds = _log_odds(z)
    return np.stack([np.exp(x * odds).sum(axis=0) for x in v])


def _weighted_temperature(rows: Rows, v: float, form: str) -> float:
    """Return β* = 1/T* of the weighted NLL, convex in β."""

    def moments(beta: float) -> tuple[float, ...]:
        def statistic(block: Block) -> tuple[float, ...]:
            z = to_numpy(block.logits)
            odds = _log_odds(z.astype(np.float64) * (v if form == "paper" else 1.0))
            weights = np.exp(v * odds)
            if form == "reference":
                weights /= z.shape[1] - 1
            weights[np.arange(z.shape[0]), z.argmax(axis=1)] = 1.0
            return temperature_moments(Block(z, weights, None), beta)

        return rows.reduce(statistic)[:-4]

    solution = minimise_in_scale(moments, 1.0)
    if not solution.converged or _doubt(rows, solution.x) < LEAST_DOUBT:
        msg = (
            f"UTS in its {form} form does not identify the temperature: it runs to "
            f"{1 / solution.x:.3g}, because almost no weight falls on classes not predicted."
        )
        raise NotIdentified(msg)
    return solution.x


def _doubt(rows: Rows, beta: float) -> float:
    """Mean probability, at 1/T = β, of the classes that are not predicted."""

    def statistic(block: Block) -> tuple[float]:
        z = to_numpy(block.logits).astype(np.float64)
        u = np.exp(beta * (z - z.max(axis=1, keepdims=True)))
        return (float((1 - 1 / u.sum(axis=1)).sum()),)

    return rows.reduce(statistic)[0] / rows.n
