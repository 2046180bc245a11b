"""Maps with several parameters: bias-corrected temperature, vector and matrix scaling.

Guo et al. (ICML 2017) for vector and matrix; Alexandari, Kundaje and Shrikumar (ICML 2020) for
bias-corrected temperature. All minimise

    (1/Σw) Σ_i w_i (lse(v_i) - v_{i,y_i})  +  penalty · Ω,        v = W z + b

from the optimal temperature (`likelihood`). Ω is the squared distance of (W, b) from the nearest
temperature map: off-diagonal entries, the spread of the diagonal, and the bias. So penalty = 0 is
the plain method, and a growing penalty leads to temperature scaling.
"""

from __future__ import annotations

import numpy as np

from temperance._core.arrays import Floats, to_numpy
from temperance._core.checks import LARGEST, InputError, NotIdentified, check_number
from temperance.data import Rows, as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.maps import BiasedTemperature, MatrixMap, Temperature, VectorMap
from temperance.supervised.around import fit_around
from temperance.supervised.likelihood import Likelihood

MOST_CLASSES = 2_000  # of a matrix: L-BFGS remembers 40 times its K² numbers, a gigabyte


def fit_biased_temperature(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    around: Temperature | BiasedTemperature | None = None,
    temperature_error: float = 0.5,
    bias_error: float = 0.3,
) -> BiasedTemperature:
    r"""Fit a temperature and one bias per class by maximum likelihood (BCTS), or near a map.

    .. math:: \arg\min_{T, b} -\sum_i w_i \log \mathrm{softmax}(z_i / T + b)_{y_i}

    Prefer it to `fit_temperature` before estimating a label shift: EM needs probabilities whose
    class means are right (Alexandari et al., 2020). The biases sum to zero.

    With ``around``, a map known before any label, the penalty

    .. math:: \frac{(\log T - \log T_0)^2}{2 s_T^2} + \frac{\lVert b - b_0 \rVert^2}{2 s_b^2}

    comes on top: a handful of labels moves that map as far as they say, and no class needs a label.
    `temperance.calibrate` does the same with errors that it estimates.

    Parameters
    ----------
    logits, labels, sample_weight
        Labelled rows; see `fit_temperature`.
    around : Temperature or BiasedTemperature, optional
        The map (T₀, b₀), e.g. the ``map`` of a `Calibration`.
    temperature_error, bias_error : float
        Standard errors of its log T and of each bias.

    Raises
    ------
    NotIdentified
        Without ``around``, when no finite optimum exists, e.g. a class without a labelled row.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0]] * 4)
    >>> bct = tp.fit_biased_temperature(z, [0, 1, 0, 1, 0, 1, 1, 0])
    >>> round(bct.temperature, 6), bct.bias.round(6) + 0.0
    (1.820478, array([0., 0.]))
    >>> near = tp.fit_biased_temperature(z[:2], [0, 1], around=bct)
    >>> 1 < near.temperature < bct.temperature
    True
    """
    rows = as_labelled_rows(logits, labels, sample_weight)
    if around is not None:
        errors = (
            check_number(temperature_error, "temperature_error", low=1e-9),
            check_number(bias_error, "bias_error", low=1e-9),
        )
        return _near(rows, around, *errors)
    k, likelihood = rows.n_classes, Likelihood(rows)

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        return np.broadcast_to(x[:1], (k,)), x[1:]

    def pack(gain: Floats, bias: Floats) -> Floats:
        return np.concatenate([[gain.sum()], bias])

    space = likelihood.gain_space(one=True)
    x = likelihood.minimise(unpack, pack, np.concatenate([[1.0], likelihood.bias]), space)
    if x[0] <= 0:
        msg = "the best temperature is not positive: the logits rank the classes upside down."
        raise NotIdentified(msg)
    return BiasedTemperature(float(1 / (x[0] * likelihood.unit)), x[1:] - x[1:].mean())


def _near(
    rows: Rows, around: object, temperature_error: float, bias_error: float
) -> BiasedTemperature:
    """Return the map of greatest posterior density around a known one."""
    k = rows.n_classes
    if not isinstance(around, (Temperature, BiasedTemperature)):
        kind = type(around).__name__
        msg = f"around must be a Temperature or a BiasedTemperature. Got {kind} instead."
        raise InputError(msg)
    _check_classes(k, "a fit around a map")
    bias = np.zeros(k) if isinstance(around, Temperature) else around.bias
    if len(bias) != k:
        msg = f"around must be a map of {k} classes, as the logits have. Got {len(bias)} instead."
        raise InputError(msg)
    block = rows.take(np.arange(rows.n, dtype=np.int64))
    if rows.soft or block.labels is None:
        msg = "labels must be class indices, one per row, where around is given. Got soft labels."
        raise InputError(msg)
    z = to_numpy(block.logits).astype(np.float64)
    z -= z.mean(axis=1, keepdims=True)
    precision = np.r_[temperature_error, np.full(k, bias_error)] ** -2.0
    theta = np.r_[np.log(around.temperature), bias - bias.mean()]
    weight = None if block.weight is None else block.weight.astype(np.float64)
    found = fit_around(z, block.labels, theta, np.diag(precision), weight).centre
    return BiasedTemperature(float(np.exp(found[0])), found[1:] - found[1:].mean())


def fit_vector(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    penalty: float = 0.0,
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
    k = rows.n_classes
    likelihood = Likelihood(rows, check_number(penalty, "penalty", low=0, high=LARGEST))

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        return x[:k], x[k:]

    def pack(gain: Floats, bias: Floats) -> Floats:
        return np.concatenate([gain, bias])

    space = likelihood.gain_space()
    x = likelihood.minimise(unpack, pack, np.concatenate([np.ones(k), likelihood.bias]), space)
    return VectorMap(x[:k] * likelihood.unit, x[k:] - x[k:].mean())


def _check_classes(k: int, what: str) -> None:
    if k > MOST_CLASSES:
        msg = f"logits must have at most {MOST_CLASSES:,} classes for {what}. Got {k:,}, whose"
        raise InputError(f"{msg} square no memory holds: use fit_vector or fit_temperature.")


def fit_matrix(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    penalty: float = 0.0,
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
    k = rows.n_classes
    _check_classes(k, "a matrix")
    likelihood = Likelihood(rows, check_number(penalty, "penalty", low=0, high=LARGEST))

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        both = x.reshape(k, k + 1)
        return both[:, :k], both[:, k]

    def pack(gain: Floats, bias: Floats) -> Floats:
        return np.column_stack([gain, bias]).ravel()

    start = pack(np.eye(k), likelihood.bias)
    x = likelihood.minimise(unpack, pack, start, likelihood.matrix_space())
    weight, bias = unpack(x)
    if not penalty:  # the softmax ignores a constant added to a column of W: fix its mean
        weight = weight - weight.mean(axis=0) + 1 / k
    return MatrixMap(weight * likelihood.unit, bias - bias.mean())
