"""Transport labels: each row gets a class, each class its share of the rows, at the most total p.

Lu, Wang, Zhai, Kolouri, Campbell and Sycara, "Characterizing out-of-distribution error via optimal
transport", NeurIPS 2023 (COT). Between a row's probabilities p and a one-hot label e_y both costs

    ‖p - e_y‖_∞ = ½ ‖p - e_y‖_1 = 1 - p_y

agree, so the Wasserstein distance of the predictions to labels with mix q is one minus

    V = max_π Σ_ik π_ik p_ik      with Σ_k π_ik = 1/n, Σ_i π_ik = q_k              (primal)
      = min_v F(v),               F(v) = (1/n) Σ_i max_k (p_ik + v_k) - Σ_k q_k v_k  (dual)

and the dual has K variables, however many rows: a row goes to ``argmax_k p_ik + v_k``. First the
maximum is smoothed to ε log Σ exp(·/ε) and minimised by Newton's method while ε falls, on as many
rows as that ε can tell apart; then `assignment.Assignment` makes v exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import to_numpy, widened
from temperance._core.checks import check_number, check_prior
from temperance.data import BLOCK, Block, Rows, as_rows
from temperance.methods.assignment import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Probabilities = NDArray[np.float32]

SMALL, MEDIUM, LARGE = 1 << 18, 1 << 22, 1 << 26
"""Probabilities up to which rows are divided between classes where the quotas are, up to which the
assignment is the best there is, and that are held in memory (256 MB)."""
SMOOTH, COOLING, FINEST = 0.3, 0.4, 1e-4  # ε from first to last, in units of the spread of p
ROWS_SEEN = 3.0  # rows per class and ε of the sample on which a smoothed dual is solved
DISCRETE = 0.03  # rows per class and ε below which single rows show, and smoothing ends
STEPS = 4  # of Newton's method for one ε
MISPLACED = 0.1  # share of rows, times ε, that may be misplaced when the next ε begins
UNREACHED = 1e-9  # of its quota: a class that no row comes near
NEGLIGIBLE = 0.03  # shares of a row that are left out of the curvature
TIE = 1e-4  # rows that lose so little, in units of the spread of p, are moved together
WORTH = 1e-5  # fall of the dual, in the same units, for which a large problem goes on


@dataclass(frozen=True)
class Transport:
    """The solution of a transport problem by its dual.

    Attributes
    ----------
    potentials : array of shape (K,)
        v: a row goes to ``argmax_k p_k + v_k``. Large for a class that is predicted too rarely.
    value : float
        V, the largest mean probability of labels whose class mix is the prior; one minus the
        Wasserstein distance between predictions and labels.
    error : float
        Standard error of V over rows. By the envelope theorem V varies like the mean of
        ``max_k (p_ik + v_k)`` at fixed v.
    """

    potentials: Vector
    value: float
    error: float


def fit_transport(target_logits: object, prior: object, *, temperature: float = 1.0) -> Transport:
    r"""Solve the transport of predictions to labels with a given class mix.

    .. math:: V = \min_v \frac1n \sum_i \max_k (p_{ik} + v_k) - \sum_k q_k v_k

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
        Class probabilities q of the target.
    temperature : float
        Divides the logits: that of the source, where there is one.

    Returns
    -------
    Transport
        V is evaluated on all rows for the v that is optimal for quotas rounded to whole rows (from
        2**18 probabilities) and, beyond 2**26, for a sample: an upper bound, its excess of second
        order in the error of v.

    Notes
    -----
    One minus V equals ``ot.emd2(ones(n) / n, q, 1 - p)`` of POT, which holds n K arcs.
    Guarantee: V is at most the mean confidence, with equality if and only if the prior can be met
    at no cost.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = tp.from_probabilities(np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]))
    >>> round(fit_transport(z, [0.5, 0.5]).value, 6)  # 0.9 + 0.8 + 0.4 + 0.7, over 4
    0.7
    """
    rows = as_rows(target_logits, name="target_logits")
    q = check_prior(prior, rows.n_classes)
    beta = 1 / check_number(temperature, "temperature", low=0, open_low=True)
    held = rows.thin(LARGE // rows.n_classes) if rows.n * rows.n_classes > LARGE else rows
    small = held.n * held.n_classes <= SMALL
    quota = q * held.n if small else _whole(q, held.n)
    v = _solve(probabilities(held, beta), q, quota).v
    potentials = np.full(len(q), v.max() - 2.0)  # p ≤ 1: a class of no mass never wins
    potentials[q > 0] = v - v.mean()
    total, square = rows.reduce(lambda block: _winning(block, beta, potentials))
    mean = total / rows.n
    spread = max(0.0, square / rows.n - mean * mean)
    value = mean - float(q[q > 0] @ potentials[q > 0])
    return Transport(potentials, value, float(np.sqrt(spread / rows.n)))


def transport_labels(
    target_logits: object, prior: object, *, temperature: float = 1.0
) -> NDArray[np.int64]:
    r"""Return the labels with the given class mix that the predictions support best.

    .. math:: \max_y \sum_i p_{i y_i} \quad \text{with } n q_k \text{ rows of class } k

    Pseudo-labels that respect the prior: fit a temperature on them, or read them as a second
    opinion. The quotas n q_k are rounded so that they sum to n.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
    temperature : float
        Divides the logits.

    Returns
    -------
    array of shape (n,)
        Class indices. One float32 copy of the probabilities is held in memory.

    Notes
    -----
    Equals ``scipy.optimize.linear_sum_assignment`` on n × n columns, each class repeated as often
    as its quota. Guarantee: the class mix is the prior; none that a label is right.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = tp.from_probabilities(np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]))
    >>> transport_labels(z, [0.5, 0.5])
    array([0, 0, 1, 1])
    """
    rows = as_rows(target_logits, name="target_logits")
    q = check_prior(prior, rows.n_classes)
    beta = 1 / check_number(temperature, "temperature", low=0, open_low=True)
    quota = _whole(q, rows.n)
    solved = _solve(probabilities(rows, beta), q, quota)
    solved.settle(quota[q > 0])
    return np.flatnonzero(q > 0)[solved.labels()]


def _whole(q: Vector, n: int) -> Vector:
    """Round n q to whole rows that sum to n, each less than one row away."""
    return np.diff(np.rint(n * np.minimum(np.cumsum(q), 1.0)), prepend=0.0)


def probabilities(rows: Rows, beta: float) -> Probabilities:
    """Return softmax(β z) of all rows as one float32 array."""
    parts = rows.reduce(lambda block: ([_softmax(block, beta)],))[0]
    return np.concatenate(parts)


def _softmax(block: Block, beta: float) -> Probabilities:
    z = widened(to_numpy(block.logits))
    p = ((z - z.max(axis=1, keepdims=True)) * beta).astype(np.float32)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def _winning(block: Block, beta: float, v: Vector) -> tuple[float, float]:
    """Sum and sum of squares of ``max_k (p_ik + v_k)``."""
    best = (_softmax(block, beta) + v).max(axis=1)
    return float(best.sum()), float(best @ best)


def _solve(p: Probabilities, q: Vector, quota: Vector) -> Assignment:
    """Assign rows to the classes of positive prior."""
    if not q.all():
        p, quota, q = p[:, q > 0], quota[q > 0], q[q > 0]
    n, k = p.shape
    spread = float((p.max(axis=1) - p.mean(axis=1)).mean(dtype=np.float64))
    v = np.zeros(k)
    if spread > 1e-6:
        for smooth in _schedule(max(FINEST, DISCRETE * k / n)):
            every = max(1, int(n * smooth / (ROWS_SEEN * k)))
            v = _newton(p[::every], q, v, smooth * spread, MISPLACED * smooth)
    solved = Assignment(p, v, TIE * spread)
    solved.meet(quota, worth=0.0 if n * k <= MEDIUM else WORTH * spread)
    return solved


def _schedule(finest: float) -> Iterator[float]:
    smooth = SMOOTH
    while smooth >= finest:
        yield smooth
        smooth *= COOLING


def _newton(p: Probabilities, q: Vector, v: Vector, eps: float, misplaced: float) -> Vector:
    """Return the minimum of the smoothed dual from a start that is right to a few ε."""
    from scipy.linalg import solve

    share, overlap = _shares(p, v, eps)
    for _ in range(STEPS):
        slope = share - q
        if np.abs(slope).sum() / 2 < misplaced:
            break
        # A class out of reach has no curvature: its quota stands in, and the slope of log share.
        curvature = np.diag(np.maximum(share, q) + 1e-3 * q) - overlap
        push = np.where(share < q, q * np.log(np.maximum(share / q, UNREACHED)), slope)
        step = -eps * solve(curvature, push, assume_a="pos")
        before, t = float(slope @ step), 1.0
        for _ in range(3):
            share, overlap = _shares(p, v + t * step, eps)
            after = float((share - q) @ step)
            if after <= -before / 2:  # past the minimum by less than half of the way to it
                break
            t *= max(0.1, before / (before - after))
        v = v + t * step
    return v - v.mean()


def _shares(p: Probabilities, v: Vector, eps: float) -> tuple[Vector, Vector]:
    """Mean over rows of s = softmax((p + v) / ε), and of s sᵀ without its negligible entries."""
    from scipy.sparse import csr_array

    n, k = p.shape
    size = max(1, BLOCK // k)
    share = np.zeros(k)
    entries: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    offset, scale = (v / eps).astype(np.float32), np.float32(1 / eps)
    for start in range(0, n, size):
        s = p[start : start + size] * scale
        s += offset
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        share += s.sum(axis=0, dtype=np.float64)
        i, j = np.nonzero(s > NEGLIGIBLE)
        entries.append((i + start, j, s[i, j]))
    i, j, x = (np.concatenate(column) for column in zip(*entries, strict=True))
    sparse = csr_array((x.astype(np.float64), (i, j)), shape=(n, k))
    return share / n, (sparse.T @ sparse).toarray() / n
