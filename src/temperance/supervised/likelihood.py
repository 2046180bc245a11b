"""The penalised likelihood of an affine map, and its minimum.

    f(W, b) = (1/Σw) Σ_i w_i (lse(v_i) - v_{i,y_i})  +  penalty · Ω,        v = W z + b

in units in which the best temperature is 1. L-BFGS gets the analytic gradient
``Σ_i w_i (softmax(v_i) - 1{y_i}) ⊗ (z_i, 1)``, in coordinates in which the curvature at the start
is nearly the identity: there it needs a third of the passes. That curvature is

    Σ_i w_i (diag p_i - p_i p_iᵀ) ⊗ x_i x_iᵀ,        x = (z, 1),  p = softmax(z + b)

exactly, for maps with a gain for each class and for a matrix of few (`Cholesky`). For a matrix of
many classes it is approximated by a product, ``diag(π) ⊗ mean x xᵀ`` (`Kronecker`), where π are
the frequencies of the classes, which the mean of p is at the optimum. So that it is nearly so at
the start, ``b = log(π / mean p)``. For gains of thousands of classes, whose curvature no memory
holds, its diagonal is taken (`Diagonal`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from temperance._core import kernels
from temperance._core.arrays import Floats, softmax, to_numpy
from temperance._core.checks import NotIdentified
from temperance.data import Block, Rows, Totals
from temperance.supervised.separation import MAX_AMBIGUOUS_PAIRS, are_separated
from temperance.supervised.temperature import solve_temperature

FLOAT32_TOLERANCES = {"ftol": 1e-7, "gtol": 1e-4}  # as far as float32 goes, at half the price
FLOAT64_TOLERANCES = {"ftol": 1e-15, "gtol": 1e-8}
STEPS_SPENT = 1  # status of L-BFGS that is still going when its steps are spent
FEW_CLASSES = 20  # up to which the curvature of a matrix, K⁴ numbers, is computed
MANY_CLASSES = 2_000  # beyond which the curvature of gains, 4 K² numbers, is not computed
LEAST_CLASS_WEIGHT = 1e-100  # in place of 0, the weight of a class without probability
CURVATURE_RIDGE = 1e-6  # of a typical curvature: adding a constant to all biases has none


class Cholesky:
    """Coordinates in which the curvature is nearly the identity.

    ``x = D L⁻ᵀ x'`` with ``D H D = L Lᵀ`` and D such that ``D H D`` has a diagonal of ones.
    """

    def __init__(self, curvature: Floats) -> None:
        diagonal = np.maximum(np.diagonal(curvature), 0)
        self._scale: Any = 1 / np.sqrt(
            diagonal + CURVATURE_RIDGE * np.median(diagonal) + LEAST_CLASS_WEIGHT
        )
        scaled = curvature * self._scale * self._scale[:, None]
        one = np.eye(len(scaled))
        try:
            self._root: Floats = np.linalg.cholesky(scaled + CURVATURE_RIDGE * one)
        except np.linalg.LinAlgError:  # logits so large that rounding leaves no curvature
            self._root = one

    def plain(self, x: Floats) -> Floats:
        """Return ``D L⁻ᵀ x'``."""
        return self._scale * solve_triangular(self._root, x, trans="T", lower=True)

    def white(self, gradient: Floats) -> Floats:
        """Return ``L⁻¹ D g``."""
        scaled: Floats = self._scale * gradient
        return solve_triangular(self._root, scaled, lower=True)


class Diagonal:
    """Coordinates like `Cholesky`'s, of a curvature that is taken to be its diagonal."""

    def __init__(self, diagonal: Floats) -> None:
        floor = CURVATURE_RIDGE * np.median(diagonal) + LEAST_CLASS_WEIGHT
        self._scale: Any = 1 / np.sqrt(np.maximum(diagonal, 0) + floor)

    def plain(self, x: Floats) -> Floats:
        """Return ``D x'``."""
        return self._scale * x

    white = plain  # of a gradient


class Kronecker:
    """Coordinates like `Cholesky`'s for ``H = diag(h) ⊗ S + c I``, by the eigenvectors of S."""

    def __init__(self, h: Floats, s: Floats, c: float) -> None:
        values, self._vectors = np.linalg.eigh(s)
        floor = CURVATURE_RIDGE * np.median(values)
        self._root = np.sqrt(
            np.multiply.outer(h + CURVATURE_RIDGE * h.mean(), np.maximum(values, floor)) + c
        )

    def plain(self, x: Floats) -> Floats:
        """Return the rows of x', scaled and turned back."""
        return ((x.reshape(self._root.shape) / self._root) @ self._vectors.T).ravel()

    def white(self, gradient: Floats) -> Floats:
        """Return the rows of the gradient, turned and scaled."""
        return ((gradient.reshape(self._root.shape) @ self._vectors) / self._root).ravel()


class Likelihood:
    """The penalised likelihood of an affine map, in units where T = 1 is the best temperature."""

    def __init__(self, rows: Rows, penalty: float = 0.0) -> None:
        self.rows = rows
        self.penalty = penalty
        self.unit = unit = solve_temperature(rows).x
        counts, predicted = rows.reduce(lambda block: _class_masses(block, unit))
        if not penalty and not counts.all():
            k = int(np.argmin(counts > 0))
            raise NotIdentified(
                f"class {k} has no labelled row, so its bias is not identified. Add a row of that "
                "class, or a penalty (penalty=0.1) where the fit has one."
            )
        self.mass = float(counts.sum())
        self.frequencies = counts / self.mass
        self.bias = np.zeros(rows.n_classes)
        if not penalty:
            self.bias = np.log(counts / (predicted + LEAST_CLASS_WEIGHT))

    def gain_space(self, *, one: bool = False) -> Cholesky | Diagonal:
        """Return coordinates for a gain and a bias of each class, or one gain for all: one pass."""
        unit, bias, k = self.unit, self.bias, self.rows.n_classes
        if k <= MANY_CLASSES:
            h = self._gain_curvature()
            shared = np.vstack([np.repeat([1.0, 0.0], k), np.eye(k, 2 * k, k)])
            return Cholesky(shared @ h @ shared.T if one else h)
        totals = self.rows.reduce(lambda block: _diagonal_sums(block, unit, bias))
        gain, biases, one_gain = (total / self.mass for total in totals)
        first = [one_gain] if one else gain + 2 * self.penalty
        return Diagonal(np.concatenate([first, biases + 2 * self.penalty]))

    def _gain_curvature(self) -> Floats:
        """Return the curvature at the start in (gain, bias) of each class: one pass."""
        unit, bias, k = self.unit, self.bias, self.rows.n_classes
        totals = self.rows.reduce(lambda block: _diagonal_products(block, unit, bias))
        products, squares, firsts, means = (total / self.mass for total in totals)
        h = -products
        place = np.arange(k)
        h[place, place] += squares
        h[k + place, k + place] += means + 2 * self.penalty
        h[place, k + place] += firsts
        h[k + place, place] += firsts
        h[:k, :k] += 2 * self.penalty * (np.eye(k) - 1 / k)
        return h

    def matrix_space(self) -> Cholesky | Kronecker:
        """Return coordinates for a matrix and its bias, row by row: one pass."""
        unit, bias, k = self.unit, self.bias, self.rows.n_classes
        if k > FEW_CLASSES:
            (products,) = self.rows.reduce(lambda block: _factor(block, unit))
            return Kronecker(self.frequencies, products / self.mass, 2 * self.penalty)
        totals = self.rows.reduce(lambda block: _matrix_products(block, unit, bias))
        products, own = (total / self.mass for total in totals)
        h = -products
        for j in range(k):
            place = slice(j * (k + 1), (j + 1) * (k + 1))
            h[place, place] += own[place]
        h += 2 * self.penalty * np.eye(len(h))
        diagonal = np.arange(k) * (k + 2)
        h[np.ix_(diagonal, diagonal)] -= 2 * self.penalty / k
        return Cholesky(h)

    def minimise(
        self,
        unpack: Callable[[Floats], tuple[Floats, Floats]],
        pack: Callable[[Floats, Floats], Floats],
        start: Floats,
        space: Cholesky | Diagonal | Kronecker,
    ) -> Floats:
        """Return the x whose ``unpack(x)``, gains and biases, has the least penalised NLL."""
        optimise: Any = minimize
        unit = self.unit  # the statistic may travel to other machines; the problem stays here
        missed = np.zeros(self.rows.n_classes)  # rows of each class with p_y ≤ 1/2

        def objective(white: Floats, dtype: type[np.floating[Any]]) -> tuple[float, Floats]:
            gain, bias = unpack(start + space.plain(white))
            totals = self.rows.reduce(lambda block: _affine_loss(block, gain, bias, unit, dtype))
            loss, d_gain, d_bias = (t / self.mass for t in totals[:3])
            missed[:] = totals[3]
            if self.penalty:
                excess, d_excess = _away_from_temperature(gain)
                loss = loss + self.penalty * (excess + float(bias @ bias))
                d_gain = d_gain + self.penalty * d_excess
                d_bias = d_bias + 2 * self.penalty * bias
            elif not missed.any():  # every larger multiple of this map has a lower loss
                raise self._no_maximum
            return float(loss), space.white(pack(d_gain, d_bias))

        x, found = np.zeros_like(start), start
        for dtype, enough, doubt in (
            (np.float32, FLOAT32_TOLERANCES, 1e-1),
            (np.float64, FLOAT64_TOLERANCES, 1e-3),
        ):
            options = {"maxiter": 2_000, "maxfun": 4_000, "maxcor": 20, **enough}
            result: Any = optimise(
                objective, x, args=(dtype,), jac=True, method="L-BFGS-B", options=options
            )
            if result.status == STEPS_SPENT:
                raise self._no_maximum
            x, found = result.x, start + space.plain(result.x)
            likely = not self.penalty and (missed.sum() <= MAX_AMBIGUOUS_PAIRS or not missed.all())
            if likely and are_separated(self.rows, unit, found, unpack, pack, doubt):
                raise self._no_maximum
        return found

    @property
    def _no_maximum(self) -> NotIdentified:
        return NotIdentified(
            f"the {self.rows.n} rows can be separated, if only for one class, so the likelihood "
            f"has no maximum: set a penalty (0.1 to 3 is usual), or fit fewer parameters."
        )


def _affine_loss(block: Block, gain: Any, bias: Floats, unit: float, dtype: Any) -> Totals:
    """Return the NLL, its gradients, and the rows of each class with p_y ≤ 1/2."""
    z = _in_units(to_numpy(block.logits), unit, dtype)
    gain, bias = gain.astype(dtype), bias.astype(dtype)
    v = z @ gain.T if gain.ndim == 2 else z * gain
    v += bias
    y = block.labels
    assert y is not None  # noqa: S101 - the rows are labelled
    loss, missed = kernels.residuals(v, y, block.weight)
    d_gain = v.T @ z if gain.ndim == 2 else np.einsum("ij,ij->j", v, z)
    return loss, d_gain, v.sum(axis=0), missed


def _in_units(z: NDArray[Any], unit: float, dtype: Any) -> NDArray[Any]:
    """Logits times ``unit``, row after row; what may be beyond float32 is multiplied first."""
    if z.dtype.itemsize <= 4 and dtype is np.float32:
        return np.multiply(z, np.float32(unit), order="C")
    return np.multiply(z, unit, dtype=np.float64, order="C").astype(dtype, copy=False)


def _away_from_temperature(gain: Any) -> tuple[float, Any]:
    """Squared distance of a gain from the multiples of the identity, and its gradient."""
    if gain.ndim == 2:
        away = gain - np.eye(len(gain)) * np.trace(gain) / len(gain)
    else:
        away = gain - gain.mean()
    return float(np.sum(away * away)), 2 * away


def _class_masses(block: Block, unit: float) -> Totals:
    """Weight of the rows of each class, by their labels and by the temperature map."""
    _, p, w = _probabilities(block, unit, 0.0)
    y = block.labels
    assert y is not None  # noqa: S101
    counts = np.bincount(y, weights=w, minlength=p.shape[1]) if y.ndim == 1 else w @ y
    return counts, w @ p


def _probabilities(
    block: Block, unit: float, bias: Floats | float
) -> tuple[Floats, Floats, Floats]:
    """Logits, softmax(z + b), and the weights of the rows."""
    z = to_numpy(block.logits).astype(np.float64) * unit
    return z, softmax(z + bias), np.ones(len(z)) if block.weight is None else block.weight


def _diagonal_products(block: Block, unit: float, bias: Floats) -> Totals:
    """``Σ w x xᵀ`` of ``x = (p z, p)``, and the sums over rows of p z², p z and p."""
    z, p, w = _probabilities(block, unit, bias)
    pz = p * z
    x = np.concatenate([pz, p], axis=1) * np.sqrt(w)[:, None]
    return x.T @ x, w @ (pz * z), w @ pz, w @ p


def _diagonal_sums(block: Block, unit: float, bias: Floats) -> Totals:
    """Sums over rows of p (1 - p) z² and p (1 - p), and of the variance of z under p."""
    z, p, w = _probabilities(block, unit, bias)
    spread = p * (1 - p)
    variance = np.vecdot(p, z * z) - np.vecdot(p, z) ** 2
    return w @ (spread * z * z), w @ spread, w @ variance


def _matrix_products(block: Block, unit: float, bias: Floats) -> Totals:
    """``Σ w a aᵀ`` and ``Σ w a xᵀ`` of ``x = (z, 1)`` and ``a = p ⊗ x``."""
    z, p, w = _probabilities(block, unit, bias)
    x = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    a = (p[:, :, None] * x[:, None, :]).reshape(len(z), -1)
    weighted = a * w[:, None]
    return weighted.T @ a, weighted.T @ x


def _factor(block: Block, unit: float) -> Totals:
    """``Σ w x xᵀ`` of ``x = (z, 1)``."""
    z = to_numpy(block.logits).astype(np.float64) * unit
    x = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    if block.weight is not None:
        x *= np.sqrt(block.weight)[:, None]
    return (x.T @ x,)
