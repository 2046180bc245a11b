"""Test of rows that can be separated, so that an affine map has no greatest likelihood.

Albert and Anderson, "On the existence of maximum likelihood estimates in logistic regression
models", Biometrika 71 (1984). There is none if and only if the map can move in a direction d with

    v_{y_i}(d) ≥ v_k(d)  for all rows i and classes k,  and > for one of them,

since then every step in that direction is better than the one before. An optimiser follows such a
direction until its steps gain nothing more; there, few rows are still ambiguous. The solution of
the optimiser is projected onto the orthogonal complement of the gradients of the ambiguous pairs of
classes, and all rows are checked: where the projection separates them, it is a proof. None is found
where too many pairs are ambiguous, unless the direction is that of a single class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import Floats, softmax, to_numpy
from temperance.data import Block, Rows

MAX_AMBIGUOUS_PAIRS = 300  # pairs of classes between which rows are ambiguous
MARGIN_ROUNDING = 1e-9  # of a margin


@dataclass(frozen=True)
class Extremes:
    """Lowest and highest numbers; those of two sets of rows add up to those of both."""

    low: Any
    high: Any

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class Pairs:
    """Rows, the class of each and another that it may be of; None where they are too many."""

    found: tuple[Floats, NDArray[np.int64], NDArray[np.int64]] | None

    def __add__(self, other: Pairs) -> Pairs:
        if self.found is None or other.found is None:
            return Pairs(None)
        (z, y, k), (w, x, j) = self.found, other.found
        if len(z) + len(w) > MAX_AMBIGUOUS_PAIRS:
            return Pairs(None)
        return Pairs((np.concatenate([z, w]), np.concatenate([y, x]), np.concatenate([k, j])))


def are_separated(
    rows: Rows,
    unit: float,
    x: Floats,
    unpack: Callable[[Floats], tuple[Floats, Floats]],
    pack: Callable[[Floats, Floats], Floats],
    doubt: float,
) -> bool:
    """Return whether the map at which an optimiser has stopped leads to a direction as above.

    ``unpack(x)`` are its gains and biases, for logits times ``unit``, and ``pack`` of gradients
    with respect to these is the gradient with respect to x. A row is
    ambiguous between classes that are more likely than ``doubt``.
    """
    gain, bias = unpack(x)
    scores, pairs = rows.reduce(lambda block: _look(block, gain, bias, unit, doubt))
    of_its_own = len(x) >= 2 * len(bias)  # each class has a gain that others do not share
    if of_its_own and bool(np.any(scores.low > scores.high)):
        return True
    nothing = MARGIN_ROUNDING * float(np.max(np.abs([scores.low, scores.high])))
    if pairs.found is None:
        return False
    d = unpack(_without(x, _differences(*pairs.found, gain, pack)))
    (margins,) = rows.reduce(lambda block: (_margins(block, *d, unit),))
    return bool(margins.high > nothing and margins.low >= -MARGIN_ROUNDING * margins.high)


def _look(
    block: Block, gain: Floats, bias: Floats, unit: float, doubt: float
) -> tuple[Extremes, Pairs]:
    """Lowest score of each class in its rows, highest in others; and where rows are ambiguous."""
    z, y, also = _counted(block, unit)
    v, rows = _mapped(z, gain, bias), np.arange(len(z))
    ambiguous = (softmax(v) > doubt) | also
    ambiguous[rows, y] = False
    row, k = np.nonzero(ambiguous)
    pairs = Pairs((z[row], y[row], k) if len(row) <= MAX_AMBIGUOUS_PAIRS else None)
    if gain.ndim == 2:
        v -= v.mean(axis=1, keepdims=True)
    low = np.full(len(bias), np.inf)
    np.minimum.at(low, y, v[rows, y])
    pure = ~np.any(also, axis=1)
    if not pure.all():
        low = np.minimum(low, np.min(v, axis=0, where=also, initial=np.inf))
    v[rows[pure], y[pure]] = -np.inf
    return Extremes(low, v.max(axis=0, initial=-np.inf)), pairs


def _counted(block: Block, unit: float) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
    """Logits of the rows that have a weight, their classes, and which others they also are of."""
    z, y = np.multiply(to_numpy(block.logits), unit, dtype=np.float64), block.labels
    assert y is not None  # noqa: S101 - the rows are labelled
    also = np.zeros((len(z), 1), np.bool_)
    if y.ndim == 2:
        y, also = y.argmax(axis=1), y > 0
        also[np.arange(len(z)), y] = False
    kept = slice(None) if block.weight is None else block.weight > 0
    return z[kept], y[kept], also[kept]


def _mapped(z: Floats, gain: Floats, bias: Floats) -> Floats:
    return (z @ gain.T if gain.ndim == 2 else z * gain) + bias


def _differences(
    z: Floats,
    y: NDArray[np.int64],
    k: NDArray[np.int64],
    gain: Floats,
    pack: Callable[[Floats, Floats], Floats],
) -> Floats:
    """Gradients of ``v_y - v_k`` of each pair, of length one."""
    gradients: list[Floats] = []
    for logits, here, there in zip(z, y, k, strict=True):
        sign = np.zeros(len(gain))
        sign[here], sign[there] = 1, -1
        one = pack(np.multiply.outer(sign, logits) if gain.ndim == 2 else sign * logits, sign)
        gradients.append(one / np.linalg.norm(one))
    return np.array(gradients).reshape(len(z), -1)


def _without(x: Floats, directions: Floats) -> Floats:
    """Return x less its part in the span of some directions of length one."""
    values, vectors = np.linalg.eigh(directions @ directions.T)
    kept = values > MARGIN_ROUNDING * values.max(initial=0)
    basis = (vectors[:, kept] / np.sqrt(values[kept])).T @ directions
    for _ in range(2):  # the second takes away the rounding of the first
        x = x - (basis @ x) @ basis
    return x


def _margins(block: Block, gain: Floats, bias: Floats, unit: float) -> Extremes:
    """Lowest and highest of ``v_y - v_k`` in the direction of a map."""
    z, y, _ = _counted(block, unit)
    v = _mapped(z, gain, bias)
    margins = v[np.arange(len(z)), y][:, None] - v
    return Extremes(margins.min(initial=np.inf), margins.max(initial=-np.inf))
