"""Unsupervised temperature scaling (UTS).

Mozafari, Gomes and Gagné, "A novel unsupervised post-processing calibration method for DNNs with
robustness to domain shift", 2020. From logits z of the target and its class prior q alone:

    1.  w* = argmin_w J(w)              weights of the classes that are not predicted
    2.  T* = argmin_T WNLL(T; w*)       a weighted NLL, convex in 1/T

``form="reference"`` is what the authors' published code computes; p = softmax(z), ŷ = argmax z:

    W_ik(w) = (p_ik / (1 - p_ik))^(1/w)      for k ≠ ŷ_i
    m_k     = max(0, 1 - 0.99 n_k / (n q_k)) the shortfall of predictions of class k
    J(w)    = Σ_k ( (1/n) Σ_{i: ŷ_i ≠ k} W_ik(w) - m_k )²
    WNLL(T) = - Σ_i log p_{i,ŷ_i}(T) - 1/(K-1) Σ_i Σ_{k ≠ ŷ_i} W_ik(w*) log p_ik(T)

``form="main-text"`` and ``form="appendix"`` are equations 4, 7 and 8 with weight 1 for k = ŷ_i, the
probabilities inside the weight at temperature 1/w or 1, and J(w) = Σ_k (mean Ŵ_k - q_k)². (The one
square that equation 8 prints around both sums is least at w = 0 for every model.) Their optimum
usually runs to w = 0, which is raised as `NotIdentified`.

Below, v = 1/w and o = log p/(1 - p), so that ``W = exp(v o)``, and a doubling of v is the square
of a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks, kernels, optimise
from temperance._core.arrays import Floats, to_numpy
from temperance._core.checks import NotIdentified
from temperance._core.optimise import Moments, minimise_in_scale, search_in_scale
from temperance.data import ArrayRows, Block, Rows, as_rows
from temperance.data.rows import stride_of
from temperance.data.types import LogitsLike, PriorLike
from temperance.maps import Temperature

SumsAtScale = Callable[[float], tuple[float, Moments]]

BAG_ROWS = 2_000  # the paper's own sample size, at which its shortfalls mean what they should
MAX_BAGS = 10  # more bags reduce the variance by less than the method's own error
SHORTFALL_FACTOR = 0.99  # the authors' factor in the shortfall
EXPONENTS = (2.0**-10, 2.0**10)  # range of 1/w
GRID = 41  # points of the first search for 1/w, two to a doubling
ORDERS = 6  # derivatives of J: one pass over all rows mostly ends what some rows have begun
LEIBNIZ = [  # from the products of the derivatives of d to the derivatives of J = d·d
    [(math.comb(m, r), r, m - r) for r in range(m + 1)] for m in range(ORDERS + 1)
]
SEARCH_ROWS = 250  # fewest rows on which a search starts
HELD_LOGITS = 1 << 22  # logits up to which log-odds and weights are kept between passes
SEARCH_TOLERANCE = 1e-3  # relative error of T on SEARCH_ROWS, small against their sampling error
LEAST_DOUBT = 1e-6  # mean -log max p below which T has run to zero
FORMS = ("reference", "main-text", "appendix")


def fit_uts(
    target_logits: LogitsLike,
    prior: PriorLike | None = None,
    *,
    form: str = "reference",
    bag_size: int | None = BAG_ROWS,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    r"""Fit a temperature from unlabelled target logits and the target's class prior.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
        Class probabilities of the target; they sum to one.
    form : {"reference", "main-text", "appendix"}
        What the authors' code computes, or the weights of the main text or of appendix A with a
        square for each class in equation 8, for study.
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
    right. Under shift `fit_prior_matched`, which reads a labelled source too, is better.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(5, size=4000)
    >>> z = 4 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # leans to class 0
    >>> tp.fit_uts(z, np.full(5, 0.2)).temperature > 1
    True
    """
    checks.check_choice(form, FORMS, "form")
    generator = checks.check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    q = checks.check_prior(prior, rows.n_classes)
    if bag_size is None:
        return Temperature(_fit_bag(rows, q, form, shrink_to=None))
    size = checks.check_integer(bag_size, "bag_size", low=30)
    if rows.n <= size:
        return Temperature(_fit_bag(rows, q, form, shrink_to=size))
    n_bags = min(MAX_BAGS, rows.n // size)
    picked = generator.choice(rows.n, n_bags * size, replace=False)
    sample = ArrayRows(rows.take(picked).logits, checked=True)
    means = mean_weights(sample.thin(SEARCH_ROWS).mapped(other_log_odds))
    logs = list[float]()
    for first in range(0, len(picked), size):  # a bag starts from the bags before: they are alike
        bag = ArrayRows(sample.logits[first : first + size], checked=True)
        start = float(np.exp(np.mean(logs))) if logs else 1.0
        logs.append(float(np.log(_fit_bag(bag, q, form, None, start, means))))
    return Temperature(float(np.exp(np.mean(logs))))


def _fit_bag(
    rows: Rows,
    q: Floats,
    form: str,
    shrink_to: int | None,
    start: float = 1.0,
    grid_means: Floats | None = None,
) -> float:
    """Return the temperature of rows; ``start`` and ``grid_means`` come from rows like these."""
    shortfall = Shortfall.of(rows, q, shrink_to)
    if np.count_nonzero(shortfall.counts) < 2:
        raise NotIdentified("all target rows are predicted as one class: UTS needs at least two.")
    odds = log_odds(rows)
    v = fit_weight_exponent(rows, odds, shortfall, form, grid_means)
    return 1 / _fit_weighted(rows, odds, v, form, 1 / start)


# ------------------------------------------------------------------------- the two ingredients


@dataclass(frozen=True)
class Shortfall:
    """Predicted class counts of a target, and how far they fall short of the prior."""

    counts: NDArray[np.int64]
    prior: Floats
    missing: Floats
    """``m_k``, between 0 and 1."""

    @classmethod
    def of(cls, rows: Rows, q: Floats, shrink_to: int | None) -> Shortfall:
        """Return the shortfall; ``shrink_to`` tames the sampling noise of fewer rows than that."""

        def predictions(block: Block) -> tuple[NDArray[np.int64]]:
            return (np.bincount(to_numpy(block.logits).argmax(axis=1), minlength=len(q)),)

        (counts,) = rows.reduce(predictions)
        n = int(counts.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, counts / (n * q), np.inf)
        if shrink_to is not None and n < shrink_to:
            ratio = 1 + (ratio - 1) * _shrinkage(ratio, q, n, shrink_to)
        return cls(counts, q, np.maximum(0.0, 1 - SHORTFALL_FACTOR * ratio))

    def wanted(self, form: str) -> Floats:
        """Return the mean weight that the rows not predicted as a class should have."""
        if form == "reference":
            return self.missing
        return self.prior - self.counts / self.counts.sum()


def _shrinkage(ratio: Floats, q: Floats, n: int, size: int) -> float:
    """Return the factor that gives deviations of n rows the size of deviations of ``size`` rows.

    The mean square of n_k/(n q_k) - 1 is that of the true deviations plus (1 - q_k)/(n q_k) for the
    sampling; the first is kept and the second replaced by its value at ``size`` rows.
    """
    here = q > 0
    seen = float(np.mean((ratio[here] - 1) ** 2))
    noise = float(np.mean((1 - q[here]) / q[here])) / n
    true = max(0.0, seen - noise)
    return min(1.0, np.sqrt((true + noise * n / size) / seen)) if seen > 0 else 1.0


def log_odds(rows: Rows) -> Rows:
    """Return rows of `other_log_odds`, which few rows in memory keep between passes."""
    if isinstance(rows, ArrayRows) and rows.n * rows.n_classes <= HELD_LOGITS:
        return ArrayRows(other_log_odds(rows.logits), checked=True)
    return rows.mapped(other_log_odds)


def other_log_odds(logits: NDArray[Any]) -> Floats:
    """Return ``log p_k - log(1 - p_k)`` where k is not predicted, next to -∞ where it is."""
    return kernels.non_predicted_log_odds(to_numpy(logits))[0]


# ------------------------------------------------------------------ step 1: the exponent 1/w


def fit_weight_exponent(
    rows: Rows,
    odds: Rows,
    shortfall: Shortfall,
    form: str,
    grid_means: Floats | None = None,
) -> float:
    """Return v = 1/w*, the global minimum of J.

    J is not convex. A grid over twenty doublings of v, on some rows, finds the valley; derivatives
    ``Σ_i o^r exp(v o)``, on all rows, find its lowest point. ``grid_means`` are the `mean_weights`
    of rows like these.
    """
    try:
        if form == "main-text":  # odds that depend on w: for study, so on a grid and slowly
            solution = search_in_scale(weight_objective(rows, shortfall, form), *EXPONENTS)
        else:
            solution = _search(odds, shortfall.wanted(form), grid_means)
    except NotIdentified as error:
        raise NotIdentified(f"UTS in its {form} form has no optimal weight: {error}") from None
    if form != "reference":
        _check_gain(shortfall, solution.value, form)
    return solution.x


def _check_gain(shortfall: Shortfall, value: float, form: str) -> None:
    """Raise unless the best w lowers a printed J below J at w = 0 by more than sampling noise."""
    q, n = shortfall.prior, int(shortfall.counts.sum())
    gain = float(((shortfall.counts / n - q) ** 2).sum()) - value
    noise = float((q * (1 - q)).sum()) / n
    if gain < noise:
        raise NotIdentified(
            f"UTS in its {form} form has no optimal weight: against w = 0, where T is 0 too, "
            f"the best w lowers the objective by {gain:.2g}, less than its noise {noise:.2g}."
        )


def weight_objective(rows: Rows, shortfall: Shortfall, form: str) -> Callable[[Floats], Floats]:
    """Return J as a function of many v = 1/w at once: one pass over the rows."""
    wanted = shortfall.wanted(form)

    def sums(block: Block, v: Floats) -> Floats:
        z = to_numpy(block.logits).astype(np.float64)
        if form == "main-text":
            return np.stack([np.exp(x * other_log_odds(z / x)).sum(axis=0) for x in v])
        odds = other_log_odds(z)
        return np.stack([np.exp(x * odds).sum(axis=0) for x in v])

    def objective(v: Floats) -> Floats:
        total = rows.reduce(lambda block: (sums(block, v),))[0] / rows.n
        return ((total - wanted) ** 2).sum(axis=1)

    return objective


def _search(odds: Rows, wanted: Floats, grid_means: Floats | None) -> optimise.Solution:
    """Minimise J where the odds do not depend on w: a grid on some rows, then Newton on all."""
    some = odds.thin(SEARCH_ROWS)
    if isinstance(some, ArrayRows):  # rows at equal distances, read several times
        some = ArrayRows(np.ascontiguousarray(some.logits), checked=True)
    means = mean_weights(some) if grid_means is None else grid_means

    def moments(v: float, rows: Rows) -> tuple[float, ...]:
        d = rows.reduce(lambda block: (kernels.weight_derivatives(block.logits, v),))[0] / rows.n
        d[0] -= wanted
        products: list[list[float]] = (d @ d.T).tolist()
        return tuple(sum([c * products[r][s] for c, r, s in terms]) for terms in LEIBNIZ)

    def objective(_: Floats) -> Floats:
        return ((means - wanted) ** 2).sum(axis=1)

    start = search_in_scale(objective, *EXPONENTS, points=GRID, rounds=0).x
    within = start / 4, start * 4
    near = minimise_in_scale(partial(moments, rows=some), start, tolerance=1e-3, within=within)
    return minimise_in_scale(partial(moments, rows=odds), near.x, tolerance=1e-10, within=within)


def mean_weights(odds: Rows) -> Floats:
    """Return the mean weight of each class for every v = 1/w of the grid, two to a doubling."""
    v = np.geomspace(*EXPONENTS, GRID)

    def sums(block: Block) -> tuple[Floats]:
        out = np.empty((GRID, odds.n_classes))
        for first in (0, 1):
            points = len(v[first::2])
            out[first::2] = kernels.weight_doublings(block.logits, float(v[first]), points)
        return (out,)

    return odds.reduce(sums)[0] / odds.n


# -------------------------------------------------------------------- step 2: the temperature


def _fit_weighted(rows: Rows, odds: Rows, v: float, form: str, start: float) -> float:
    """Return β* = 1/T* of the weighted NLL, convex in β: of some rows, and from there of all."""
    stride = stride_of(rows.n, SEARCH_ROWS)
    steps = [(rows, odds, optimise.TOLERANCE)]
    if stride > 1:
        steps.insert(0, (rows.thin_by(stride), odds.thin_by(stride), SEARCH_TOLERANCE))
    beta, doubt = start, 0.0
    for some, its_odds, tolerance in steps:
        sums = _weighted_sums(some, its_odds, v, form)

        def moments(at: float, sums: SumsAtScale = sums) -> tuple[float, ...]:
            nonlocal doubt
            gap, of_weights = sums(at)
            value, first, *higher = of_weights.relative
            doubt = value / of_weights.weight  # mean of -log max p
            return (value + at * gap, first + at * gap, *higher)

        solution = minimise_in_scale(moments, beta, tolerance=tolerance)
        beta, doubt = solution.x, doubt if solution.converged else 0.0
    if doubt < LEAST_DOUBT:
        raise NotIdentified(
            f"UTS in its {form} form does not identify the temperature: it runs to "
            f"{1 / beta:.3g}, because almost no weight falls on classes not predicted."
        )
    return beta


def _weighted_sums(rows: Rows, odds: Rows, v: float, form: str) -> SumsAtScale:
    """Return ``Σ W (max z - z)`` and the moments of rows as functions of β.

    The weights do not depend on β: a row counts with ``A = Σ_k W_k``, and the first sum is a
    constant.
    """
    share = 1 / (rows.n_classes - 1) if form == "reference" else 1.0

    def weigh(z: NDArray[Any], odds: Floats) -> tuple[float, Block]:
        mass, gap = kernels.weight_mass(z, odds, v)
        return float(gap.sum()) * share, Block(z, None, 1 + share * mass)

    if isinstance(rows, ArrayRows) and isinstance(odds, ArrayRows) and form != "main-text":
        gap, weighted = weigh(to_numpy(rows.logits), odds.logits)
        held = ArrayRows(*weighted, checked=True)
        return lambda beta: (gap, held.reduce(lambda b: kernels.temperature_moments(*b, beta)))

    def statistic(block: Block, beta: float) -> tuple[float, Moments]:
        z = to_numpy(block.logits)
        gap, weighted = weigh(z, other_log_odds(z / v if form == "main-text" else z))
        return gap, kernels.temperature_moments(*weighted, beta)

    return lambda beta: rows.reduce(lambda block: statistic(block, beta))
