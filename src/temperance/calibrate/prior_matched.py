"""Prior-matched scaling: a temperature and a class bias from unlabelled logits and a class mix.

The map is ``z / T + b``. T and b solve

    mean_i p_ik = q_k,      mean_i p_{i, ŷ_i} = a,

for the class mix q, which is taken as right, and every accuracy a of the predictions ŷ that the
estimates allow (`accuracy`); the map is the one nearest to the mixture of the solutions
(`uncertainty`). `temperance.calibrate` does the same, doubts the class mix too, and judges the map.
"""

from __future__ import annotations

import numpy as np

from temperance._core.checks import check_prior
from temperance.calibrate.accuracy import Source
from temperance.calibrate.problem import read_problem
from temperance.calibrate.uncertainty import plausible_maps
from temperance.data.types import LogitsLike, PriorLike, SourceLike
from temperance.maps import BiasedTemperature, Temperature

EXCLUDED_BIAS = -100.0  # of a class that cannot occur


def fit_prior_matched(
    target_logits: LogitsLike,
    prior: PriorLike,
    source: SourceLike | None = None,
    *,
    bias: bool = True,
    seed: int | np.random.Generator = 0,
) -> BiasedTemperature | Temperature:
    r"""Fit a temperature and a class bias from unlabelled target logits and their class mix.

    .. math:: \frac1n \sum_i p_{ik} = q_k, \quad \frac1n \sum_i p_{i \hat y_i} = \hat a,
              \quad p_i = \mathrm{softmax}(z_i / T + b)

    where :math:`\hat a` is the estimated accuracy of the predictions :math:`\hat y` of the model.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
        From the shifted data; no labels.
    prior : array of shape (K,) or (K, 2), or `about`
        Class probabilities of the *target*. Numbers are taken as known, and a wrong prior makes the
        bias harmful; ``temperance.about(q, rows=100)`` or a range (low, high) for each class
        corrects only what exceeds the doubt.
    source : pair (logits, labels), optional
        Labelled rows from before the shift that the model was not trained on.
    bias : bool
        Whether the map has a bias, which moves predictions, usually for the better. Without it the
        ranking of the classes and the accuracy stay as they are.
    seed : int or Generator
        Seed for drawing rows, used where there are more than are read.

    Returns
    -------
    BiasedTemperature, or Temperature with ``bias=False``

    Notes
    -----
    Guarantee: none without its assumptions: the class mix is right, the classes are those of the
    source, and one of the accuracy estimates is near the truth. `temperance.calibrate` says when
    they are in doubt.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y, y_old = rng.integers(5, size=4000), rng.integers(5, size=2000)
    >>> z_old = 3 * (2 * np.eye(5)[y_old] + rng.normal(size=(2000, 5)))
    >>> z = 3 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # shifted to class 0
    >>> fitted = tp.fit_prior_matched(z, np.full(5, 0.2), source=(z_old, y_old))
    >>> bool(fitted.bias.argmin() == 0)
    True
    """
    problem = read_problem(target_logits, prior, source, None, None, bias=bias, seed=seed)
    if problem.prior is None:
        check_prior(None, problem.n_classes)
    known = None if problem.source is None else Source.of(problem.source)
    plausible = plausible_maps(problem, known, trusted=True)
    assert plausible is not None  # noqa: S101 - a prior was given
    t, b = plausible.centre
    return BiasedTemperature(t, problem.widen(b, EXCLUDED_BIAS)) if bias else Temperature(t)
