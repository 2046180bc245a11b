"""The passes over rows in NumPy: what every kernel computes, and the answer without Numba.

`temperature_moments` runs on any Array API library, where the logits are; all other functions take
NumPy arrays. Everything is float64 whatever the input. Functions that read labels raise IndexError
for a label without a column.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Array, Floats, beside, namespace
from temperance._core.checks import LARGEST, are_sound
from temperance._core.optimise import Moments
from temperance._core.sums import EvaluationSums, bin_sums

Integers = NDArray[np.int64]

__all__ = [
    "BLOCKS_PER_CALL",
    "UNCOUNTED",
    "evaluation_sums",
    "non_predicted_log_odds",
    "outcomes",
    "residuals",
    "temperature_moments",
    "weight_derivatives",
    "weight_doublings",
    "weight_mass",
]

BLOCKS_PER_CALL = 2  # blocks of rows read together: NumPy's copies of them must stay in the cache
DERIVATIVES = 6
LEAST_EXPONENT = -700.0  # exp of less is 0 in float32 and counts for nothing in float64
WRONG_LABEL = "a label must be the number of a column, between 0 and K - 1"
UNCOUNTED = -1e30  # log-odds of a predicted class, whose weight exp(v o) is 0 for every v


NO_MOMENTS = Moments(math.nan, (math.nan,) * DERIVATIVES, *(math.nan,) * 4)


def temperature_moments(
    logits: Array, labels: NDArray[Any] | None, weight: Floats | None, beta: float
) -> Moments:
    """Return the NLL and its derivatives at 1/T = β; ``labels=None`` leaves ``Σ W·u`` out."""
    check_columns(labels, int(logits.shape[1]))
    xp = namespace(logits)
    with np.errstate(over="ignore", invalid="ignore"):  # validity is checked below
        z = xp.astype(logits, xp.float64)
        top = xp.astype(xp.max(logits, axis=1, keepdims=True), z.dtype)
        z -= top
        one = xp.ones_like(z[0, :])
        own, mass = _at_labels(z, labels, weight)
        shifts = z @ one
        mean, reach = shifts / z.shape[1], float(xp.max(xp.abs(top[:, 0]) + xp.abs(shifts)))
        if not (reach <= LARGEST or are_sound(logits)):
            return NO_MOMENTS
        gap = -float(xp.sum(own))
        z *= beta
        if reach * beta > -LEAST_EXPONENT:  # u² of a mask may overflow, and 0 times infinity is NaN
            z = xp.maximum(z, xp.asarray(LEAST_EXPONENT, dtype=z.dtype))
        s0, *others = _power_sums(z, one)
        moments = xp.stack(others) / s0
        cumulants = _cumulants(*_centred(moments))
        sums = xp.stack([xp.log(s0), moments[0, :], *cumulants, mean, xp.ones_like(mass)]) @ mass
        value, *derivatives, means, total = (float(sums[j]) for j in range(DERIVATIVES + 3))
    derivatives[0] += beta * gap
    return Moments(value + beta * gap, tuple(derivatives), gap + means, gap, -means, total)


def _at_labels(z: Array, labels: NDArray[Any] | None, weight: Floats | None) -> tuple[Array, Array]:
    """Return ``Σ_k W_k (z_k - max z)`` and ``A = Σ_k W_k`` of each row."""
    xp = namespace(z)
    mass = xp.ones_like(z[:, 0]) if weight is None else xp.astype(beside(weight, z), z.dtype)
    if labels is None:
        return xp.zeros_like(mass), mass
    if labels.ndim == 1:
        places = beside(np.arange(labels.size) * z.shape[1] + labels, z)
        return mass * xp.take(xp.reshape(z, (-1,)), places), mass
    soft = xp.astype(beside(labels, z), z.dtype)
    return mass * xp.vecdot(z, soft), mass * xp.sum(soft, axis=1)


def _power_sums(u: Array, one: Array) -> tuple[Array, ...]:
    """Return ``Σ_k u_k^r exp(u_k)`` of rows, r = 0 … 6; the fastest sum is a product with ones."""
    xp = namespace(u)
    e, square = xp.exp(u), u * u
    sums = [e @ one, xp.vecdot(e, u)]
    for _ in range(2):
        e *= square
        sums += [e @ one, xp.vecdot(e, u)]
    return (*sums, xp.vecdot(e, square))


def _centred(moments: Array) -> list[Array]:
    """Return the central moments 2 … 6 from moments about zero, in rows.

    With m the mean, round p makes ``E[u^(r - p) (u - m)^p]`` of that with p - 1, for r ≥ p at once.
    """
    m, last = moments[0, :], moments.shape[0] - 1
    c = moments[1:, :] - m * moments[:-1, :]  # its first row is ready: the mean of u - m is 0
    for done in (1, *range(1, last)):
        c[done:, :] -= m * c[done - 1 : -1, :]
    return [c[j, :] for j in range(last)]


def _cumulants(c2: Array, c3: Array, c4: Array, c5: Array, c6: Array) -> tuple[Array, ...]:
    """Return κ_2 … κ_6 from central moments."""
    return (
        c2,
        c3,
        c4 - 3 * c2 * c2,
        c5 - 10 * c3 * c2,
        c6 - 15 * c4 * c2 - 10 * c3 * c3 + 30 * c2 * c2 * c2,
    )


def check_columns(labels: NDArray[Any] | None, n_classes: int) -> None:
    """Raise IndexError unless labels are numbers of columns, soft, or absent."""
    if labels is None or labels.ndim == 2 or labels.size == 0:
        return
    if labels.min() < 0 or labels.max() >= n_classes:
        raise IndexError(WRONG_LABEL)


def outcomes(logits: NDArray[Any], labels: NDArray[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return confidence, correctness, NLL and Brier score of each row.

    With ``u = z - max z``, ``e = exp u`` and ``s = Σ_k e_k``, for a row with label y:

        confidence = 1 / s                    correct = 1{argmax z = y}
        nll        = log s - u_y              brier   = Σ_k (e_k / s)² - 2 e_y / s + 1

    A soft label W replaces ``1{argmax z = y}`` by ``W_argmax``, ``u_y`` by ``Σ W u``, ``e_y`` by
    ``Σ W e`` and the 1 by ``Σ W²``. The work is done class by class, on the transposed block: NumPy
    adds long columns ten times faster than it adds many short rows. The numbers of a row depend on
    that row alone, to the last bit.
    """
    n, k = logits.shape
    check_columns(labels, k)
    if n == 1:  # NumPy adds a single column in another order, so the row is computed twice
        both = outcomes(np.repeat(logits, 2, axis=0), np.repeat(labels, 2, axis=0))
        return both[0][:1], both[1][:1], both[2][:1], both[3][:1]
    u = logits.T.astype(np.float64, order="C")
    with np.errstate(over="ignore", invalid="ignore"):
        u -= u.max(axis=0)
        is_top = u == 0
        e = np.exp(u)
        s = np.add.reduce(e, axis=0)
        own_u, own_e, correct, square = _label_terms(u, e, is_top, labels)
        e *= e
        confidence = 1 / s
        brier = np.add.reduce(e, axis=0) * confidence
        brier = (brier - 2 * own_e) * confidence + square
        return confidence, correct, np.log(s) - own_u, np.maximum(brier, 0)


def _label_terms(
    u: Floats, e: Floats, is_top: NDArray[np.bool_], y: NDArray[Any]
) -> tuple[Floats, Floats, Floats, Floats | float]:
    """Return ``u_y``, ``e_y``, ``1{argmax z = y}`` and 1, or what a soft label makes of them."""
    n = u.shape[1]
    row = np.arange(n, dtype=np.intp)
    if y.ndim == 2:
        soft = y.T
        winner = soft[is_top.argmax(axis=0), row]
        return (soft * u).sum(axis=0), (soft * e).sum(axis=0), winner, (soft * soft).sum(axis=0)
    place = y * n + row
    own, own_e = u.ravel()[place], e.ravel()[place]
    correct = own == 0
    if np.count_nonzero(is_top, axis=0).max() > 1:  # of equal logits the first is predicted
        correct &= is_top.argmax(axis=0) == y
    return own, own_e, correct.astype(np.float64), 1.0


def evaluation_sums(
    logits: NDArray[Any], labels: NDArray[Any], weight: Floats | None, edges: Floats
) -> EvaluationSums:
    """Return sums of `outcomes` over rows, and over bins of confidence between ``edges``."""
    confidence, correct, nll, brier = outcomes(logits, labels)
    total = confidence.size if weight is None else weight.sum()
    with np.errstate(over="ignore", invalid="ignore"):  # validity is checked below
        parts = [x.sum() if weight is None else weight @ x for x in (correct, nll, brier)]
    scores = np.array([total, *parts], np.float64)
    if not are_sound(logits):
        scores[:] = math.nan
    bins = bin_sums(confidence, correct, weight, edges)
    return EvaluationSums(scores, bins, int(weight is not None))


def residuals(
    v: NDArray[Any], labels: NDArray[Any], weight: Floats | None
) -> tuple[float, Integers]:
    """Replace v by ``w (softmax(v) - 1{y})``; return the NLL, and rows with p_y ≤ 1/2 by class."""
    check_columns(labels, v.shape[1])
    rows, w = np.arange(len(v)), np.ones(len(v)) if weight is None else weight
    v -= v.max(axis=1, keepdims=True)
    own = v[rows, labels] if labels.ndim == 1 else np.vecdot(v, labels)
    np.exp(v, out=v)
    total = v.sum(axis=1, keepdims=True)
    v /= total
    loss = float(w @ (np.log(total)[:, 0] - own))
    if labels.ndim == 1:
        best, p_label = labels, v[rows, labels]
        v[rows, labels] -= 1
    else:
        best, p_label = labels.argmax(axis=1), np.where(labels == 1, v, 0).max(axis=1)
        v -= labels
    v *= w[:, None]
    return loss, np.bincount(best[(p_label <= 0.5) & (w > 0)], minlength=v.shape[1])


def non_predicted_log_odds(z: NDArray[Any]) -> tuple[Floats, Integers]:
    """Return ``o = log p/(1 - p)``, UNCOUNTED for predicted classes, and their counts."""
    u = z.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        u -= u.max(axis=1, keepdims=True)
        e = np.exp(u)
        rest = e.sum(axis=1, keepdims=True) - e
        predicted = z.argmax(axis=1)
        at = np.arange(len(u)), predicted
        rest[at] = 1.0
        u -= np.log(rest, out=rest)
    u[at] = UNCOUNTED
    return np.maximum(u, UNCOUNTED, out=u), np.bincount(predicted, minlength=z.shape[1])


def weight_derivatives(odds: Floats, v: float) -> Floats:
    """Return ``Σ_i (v o_ik)^r exp(v o_ik)`` for r = 0 … 6 (rows) and each class (columns)."""
    u = v * odds
    e = np.exp(u)
    out = np.empty((DERIVATIVES + 1, odds.shape[1]))
    for r in range(DERIVATIVES + 1):
        out[r] = e.sum(axis=0)
        e *= u
    return out


def weight_doublings(odds: Floats, v: float, points: int) -> Floats:
    """Return ``Σ_i exp(v o_ik)`` for v, 2 v, 4 v … (rows) and each class (columns)."""
    e = np.exp(v * odds)
    out = np.empty((points, odds.shape[1]))
    for j in range(points):
        out[j] = e.sum(axis=0)
        e *= e
    return out


def weight_mass(z: NDArray[Any], odds: Floats, v: float) -> tuple[Floats, Floats]:
    """Return ``Σ_k W_k`` and ``Σ_k W_k (max z - z_k)`` of each row, with W = exp(v o)."""
    weights, u = np.exp(v * odds), z.astype(np.float64)
    u -= u.max(axis=1, keepdims=True)
    np.maximum(u, -LARGEST, out=u)  # 0 times infinity is NaN
    return weights.sum(axis=1), -np.sum(weights * u, axis=1)
