"""Maps with several parameters: bias-corrected temperature, vector and matrix scaling.

Guo et al. (ICML 2017) for vector and matrix; Alexandari, Kundaje and Shrikumar (ICML 2020) for
bias-corrected temperature. All minimise

    (1/Σw) Σ_i w_i (lse(v_i) - v_{i,y_i})  +  penalty · Ω,        v = W z + b

by L-BFGS with the analytic gradient ``Σ_i w_i (softmax(v_i) - 1{y_i}) ⊗ (z_i, 1)``, from the
optimal temperature, in units in which the logits have unit scale. Ω is the squared distance of
(W, b) from the nearest temperature map: off-diagonal entries, the spread of the diagonal, and the
bias. So penalty = 0 is the plain method, and a growing penalty leads to temperature scaling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._arrays import to_numpy
from temperance._checks import NotIdentified, check_number
from temperance.maps import BiasedTemperature, MatrixMap, VectorMap
from temperance.rows import Block, Rows, Totals, as_labelled_rows
from temperance.supervised.temperature import solve_temperature

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

STEPS_SPENT = 1  # status of L-BFGS that is still going when its steps are spent


def fit_biased_temperature(
    logits: object, labels: object = None, sample_weight: object = None
) -> BiasedTemperature:
    r"""Fit a temperature and one bias per class by maximum likelihood (BCTS).

    .. math:: \arg\min_{T, b} -\sum_i w_i \log \mathrm{softmax}(z_i / T + b)_{y_i}

    Prefer it to `fit_temperature` before estimating a label shift: EM needs probabilities whose
    class means are right (Alexandari et al., 2020). The biases sum to zero.

    Raises
    ------
    NotIdentified
        When no finite optimum exists, e.g. a class without a single labelled row.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0]] * 4)
    >>> bct = tp.fit_biased_temperature(z, [0, 1, 0, 1, 0, 1, 1, 0])
    >>> round(bct.temperature, 6), bct.bias.round(6) + 0.0
    (1.820478, array([0., 0.]))
    """
    rows = as_labelled_rows(logits, labels, sample_weight)
    k, problem = rows.n_classes, _Problem(rows)

    def unpack(x: Vector) -> tuple[Vector, Vector]:
        return np.broadcast_to(x[:1], (k,)), x[1:] - x[1:].mean()

    def pack(gain: Vector, bias: Vector) -> Vector:
        return np.concatenate([[gain.sum()], bias - bias.mean()])

    x = problem.minimise(unpack, pack, np.concatenate([[1.0], np.zeros(k)]))
    gain, bias = unpack(x)
    if gain[0] <= 0:
        msg = "the best temperature is not positive: the logits rank the classes upside down."
        raise NotIdentified(msg)
    return BiasedTemperature(float(1 / (gain[0] * problem.unit)), bias)


def fit_vector(
    logits: object, labels: object = None, sample_weight: object = None, *, penalty: float = 0.0
) -> VectorMap:
    r"""Fit vector scaling: a gain and a bias for each class.

    .. math:: \arg\min_{w, b} -\sum_i \log \mathrm{softmax}(w \circ z_i + b)_{y_i}

    Plain vector scaling overfits when rows per class are few; ``penalty`` pulls it towards
    temperature scaling. The NLL is a mean over rows and the logits are in units in which the best
    temperature is 1, so the same penalties serve everywhere: try 0.1 to 3 by cross-validation.

    Raises
    ------
    NotIdentified
        Without a penalty, when the rows can be separated or a class has no row.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0]] * 4)
    >>> tp.fit_vector(z, [0, 1, 0, 1, 0, 1, 1, 0], penalty=1e3).scale.round(3)
    array([0.549, 0.549])
    """
    rows = as_labelled_rows(logits, labels, sample_weight)
    k, problem = rows.n_classes, _Problem(rows, penalty)

    def unpack(x: Vector) -> tuple[Vector, Vector]:
        return x[:k], x[k:]

    def pack(gain: Vector, bias: Vector) -> Vector:
        return np.concatenate([gain, bias])

    x = problem.minimise(unpack, pack, np.concatenate([np.ones(k), np.zeros(k)]))
    return VectorMap(x[:k] * problem.unit, x[k:] - x[k:].mean())


def fit_matrix(
    logits: object, labels: object = None, sample_weight: object = None, *, penalty: float = 0.0
) -> MatrixMap:
    r"""Fit matrix scaling: multinomial logistic regression on the logits.

    .. math:: \arg\min_{W, b} -\sum_i \log \mathrm{softmax}(W z_i + b)_{y_i}

    Plain matrix scaling has K(K + 1) parameters and loses to one temperature at K of 100 and more,
    in the paper and everywhere since; a ``penalty`` makes it win where there is something to win.
    Its units are those of `fit_vector`: try 0.1 to 3 by cross-validation.

    Raises
    ------
    NotIdentified
        Without a penalty, when the rows can be separated or a class has no row, so that the
        likelihood has no maximum.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0]] * 4)
    >>> tp.fit_matrix(z, [0, 1, 0, 1, 0, 1, 1, 0], penalty=1e3).weight.round(3)
    array([[0.549, 0.   ],
           [0.   , 0.549]])
    """
    rows = as_labelled_rows(logits, labels, sample_weight)
    k, problem = rows.n_classes, _Problem(rows, penalty)

    def unpack(x: Vector) -> tuple[Vector, Vector]:
        return x[: k * k].reshape(k, k), x[k * k :]

    def pack(gain: Vector, bias: Vector) -> Vector:
        return np.concatenate([gain.ravel(), bias])

    x = problem.minimise(unpack, pack, np.concatenate([np.eye(k).ravel(), np.zeros(k)]))
    weight, bias = unpack(x)
    return MatrixMap(weight * problem.unit, bias - bias.mean())


class _Problem:
    """The penalised likelihood of an affine map, in units where T = 1 is the best temperature."""

    def __init__(self, rows: Rows, penalty: float = 0.0) -> None:
        self.rows = rows
        self.penalty = check_number(penalty, "penalty", low=0)
        self.unit = solve_temperature(rows).x
        counts = rows.reduce(_class_mass)[0]
        self.mass = float(counts.sum())
        if not self.penalty and not counts.all():
            k = int(np.argmin(counts > 0))
            msg = f"class {k} has no labelled row, so its bias is not identified."
            raise NotIdentified(msg)

    def minimise(
        self,
        unpack: Callable[[Vector], tuple[Vector, Vector]],
        pack: Callable[[Vector, Vector], Vector],
        start: Vector,
    ) -> Vector:
        from scipy.optimize import minimize

        unit = self.unit  # the statistic may travel to other machines; the problem stays here

        def objective(x: Vector) -> tuple[float, Vector]:
            gain, bias = unpack(x)
            totals = self.rows.reduce(lambda block: _affine_loss(block, gain, bias, unit))
            loss, d_gain, d_bias, short = (t / self.mass for t in totals)
            if self.penalty:
                excess, d_excess = _away_from_temperature(gain)
                loss = loss + self.penalty * (excess + float(bias @ bias))
                d_gain = d_gain + self.penalty * d_excess
                d_bias = d_bias + 2 * self.penalty * bias
            elif not short:  # all rows right: a multiple of this map would be better, for ever
                raise self._runs_away
            return float(loss), pack(d_gain, d_bias)

        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2_000, "maxfun": 4_000, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-8},
        )
        if result.status == STEPS_SPENT:
            raise self._runs_away
        return result.x

    @property
    def _runs_away(self) -> NotIdentified:
        return NotIdentified(
            f"the {self.rows.n} rows can be separated, if only for one class, so the likelihood "
            f"has no maximum: set a penalty (0.1 to 3 is usual), or fit fewer parameters."
        )


def _affine_loss(block: Block, gain: Any, bias: Vector, unit: float) -> Totals:
    """Return the NLL, its gradients, and the weight of rows not surely right: p_y at most 1/2."""
    z = to_numpy(block.logits).astype(np.float64) * unit
    v = (z @ gain.T if gain.ndim == 2 else z * gain) + bias
    top = v.max(axis=1, keepdims=True)
    p = np.exp(v - top)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    rows = np.arange(len(z))
    y = block.labels
    assert y is not None  # noqa: S101 - as_labelled_rows has seen to it
    w = np.ones(z.shape[0]) if block.weight is None else block.weight
    lse = (np.log(total) + top)[:, 0]
    if y.ndim == 1:
        loss = w @ (lse - v[rows, y])
        short = w @ (p[rows, y] <= 0.5)
        p[rows, y] -= 1
    else:
        loss = w @ (lse - np.einsum("ij,ij->i", v, y))
        short = w @ (np.where(y == 1, p, 0).max(axis=1) <= 0.5)
        p -= y
    p *= w[:, None]
    d_gain = p.T @ z if gain.ndim == 2 else np.einsum("ij,ij->j", p, z)
    return float(loss), d_gain, p.sum(axis=0), float(short)


def _away_from_temperature(gain: Any) -> tuple[float, Any]:
    """Squared distance of a gain from the multiples of the identity, and its gradient."""
    if gain.ndim == 2:
        away = gain - np.eye(len(gain)) * np.trace(gain) / len(gain)
    else:
        away = gain - gain.mean()
    return float(np.sum(away * away)), 2 * away


def _class_mass(block: Block) -> Totals:
    y, k = block.labels, int(block.logits.shape[1])
    assert y is not None  # noqa: S101
    w = np.ones(y.shape[0]) if block.weight is None else block.weight
    return (np.bincount(y, weights=w, minlength=k) if y.ndim == 1 else w @ y,)
