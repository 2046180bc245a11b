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

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import to_numpy
from temperance._core.checks import (
    NotIdentified,
    check_choice,
    check_integer,
    check_prior,
    check_seed,
)
from temperance._core.kernels import fused, temperature_moments
from temperance._core.optimise import TOLERANCE, minimise_in_scale
from temperance.data import ArrayRows, Block, Rows, as_rows, shuffled
from temperance.data.base import stride_of
from temperance.maps import Temperature
from temperance.methods.uts_weights import (
    SOME,
    Deficit,
    find_reach,
    held_odds,
    log_odds,
    rough_means,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Sums = Callable[[float], tuple[float, ...]]

BAG = 2_000  # the paper's own sample size, at which its deficits mean what they should
MAX_BAGS = 10  # more bags would not narrow the answer by what the method is worth
ROUGH = 1e-3  # error of the optimum of some rows, small against that of sampling
LEAST_DOUBT = 1e-6  # mean -log max p below which T has run to zero
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
    sample = ArrayRows(rows.take(picked).logits, checked=True)
    seen, logs = rough_means(sample), list[float]()
    for first in range(0, len(picked), size):  # bags are alike: those before are the start
        bag = ArrayRows(sample.logits[first : first + size], checked=True)
        start = float(np.exp(np.mean(logs))) if logs else 1.0
        logs.append(float(np.log(_fit_bag(bag, q, form, None, start, seen))))
    return Temperature(float(np.exp(np.mean(logs))))


def _fit_bag(
    rows: Rows, q: Matrix, form: str, shrink_to: int | None, start: float = 1, seen: Any = None
) -> float:
    """Return the temperature of some rows, looked for from ``start`` on; ``seen``: `find_reach`."""
    odds, counts = held_odds(rows) if form != "paper" else (None, None)  # there they depend on w
    deficit = Deficit.of(rows, q, shrink_to, counts)
    if np.count_nonzero(deficit.counts) < 2:
        msg = "all target rows are predicted as one class: UTS needs at least two."
        raise NotIdentified(msg)
    v = find_reach(rows, q, deficit, form, odds, seen)
    return 1 / _weighted_temperature(_weighted_sums(rows, v, form, odds), form, 1 / start)


def weigh(z: NDArray[Any], odds: Matrix, v: float, form: str) -> tuple[Matrix, Matrix]:
    """Return ``A = Σ_k W_k`` and ``Σ_k W_k (max z - z_k)`` of each row; W = 1 for the predicted."""
    share = 1 / (z.shape[1] - 1) if form == "reference" else 1.0
    compiled = fused()
    if compiled is not None:
        mass, gap = compiled.odds_mass(z, odds, v)
    else:
        weights, u = np.exp(v * odds), z.astype(np.float64)
        u -= u.max(axis=1, keepdims=True)
        mass, gap = weights.sum(axis=1), -np.sum(weights * u, axis=1)
    return 1 + share * mass, share * gap


def _weighted_temperature(sums: list[Sums], form: str, start: float) -> float:
    """Return β* = 1/T* of the weighted NLL, convex in β: of some rows, and from there of all."""
    beta, doubt = start, 0.0
    for function, tolerance in zip(sums, (ROUGH, TOLERANCE)[-len(sums) :], strict=True):
        beta, doubt = _minimise_weighted(function, beta, tolerance)
    if doubt < LEAST_DOUBT:
        msg = (
            f"UTS in its {form} form does not identify the temperature: it runs to "
            f"{1 / beta:.3g}, because almost no weight falls on classes not predicted."
        )
        raise NotIdentified(msg)
    return beta


def _minimise_weighted(sums: Sums, start: float, tolerance: float) -> tuple[float, float]:
    """Return β* and, at the last β on the way, the mean of -log max p: 0 when it runs away."""
    doubt = 0.0

    def moments(beta: float) -> tuple[float, ...]:
        nonlocal doubt
        gap, value, first, *higher, _, _, _, mass = sums(beta)
        doubt = value / mass
        return (value + beta * gap, first + beta * gap, *higher)

    solution = minimise_in_scale(moments, start, tolerance=tolerance)
    return solution.x, doubt if solution.converged else 0.0


def _weighted_sums(rows: Rows, v: float, form: str, odds: Matrix | None) -> list[Sums]:
    """Return ``Σ W (max z - z)`` and moments as functions of β, of some rows and then of all.

    The weights do not depend on β: a row counts with ``A = Σ_k W_k``, and the first sum is a
    constant. Where the odds are held, so are they.
    """
    stride = stride_of(rows.n, SOME)
    if odds is not None and isinstance(rows, ArrayRows):
        z = to_numpy(rows.logits)
        mass, gap = weigh(z, odds, v, form)
        columns = (z, mass, gap)
        parts = [[c[::stride] for c in columns]] if stride > 1 else []
        return [_held_sums(*part) for part in (*parts, columns)]

    def statistic(block: Block, beta: float) -> tuple[float, ...]:
        z = to_numpy(block.logits)
        mass, gap = weigh(z, log_odds(z / v if form == "paper" else z), v, form)
        return float(gap.sum()), *temperature_moments(Block(z, None, mass), beta)

    def of(rows: Rows) -> Sums:
        return lambda beta: rows.reduce(lambda block: statistic(block, beta))

    return [of(rows.every(stride)), of(rows)] if stride > 1 else [of(rows)]


def _held_sums(z: NDArray[Any], mass: Matrix, gap: Matrix) -> Sums:
    rows, below = ArrayRows(z, None, mass, checked=True), float(gap.sum())
    return lambda beta: (below, *rows.reduce(lambda block: temperature_moments(block, beta)))
