"""PseudoCal: a temperature from mixtures of target inputs.

Hu, Liang, Wang and Foo, "Pseudo-calibration: improving predictive uncertainty estimation in
unsupervised domain adaptation", ICML 2024. Pairs of target inputs are mixed,

    x̃ = λ x + (1 - λ) x',      λ = 0.65,

each mixture is labelled by the prediction for its heavier part x, and a temperature is fitted to
the mixtures of two inputs that are predicted differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from temperance._core import checks
from temperance._core.arrays import Array, as_numbers, detached, namespace, to_numpy
from temperance._core.checks import InputError, NotIdentified
from temperance.data.types import HasShape
from temperance.maps import Temperature
from temperance.supervised.temperature import fit_temperature

Model = Callable[[Any], Any]
HEAVIER_SHARE = 0.65  # λ of the paper


def fit_pseudocal(
    model: Model,
    inputs: HasShape | Sequence[Any],
    *,
    mix: float = HEAVIER_SHARE,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    """Fit a temperature to mixtures of unlabelled target inputs (PseudoCal).

    Parameters
    ----------
    model : callable
        Takes a batch of inputs to logits of shape (n, K).
    inputs : array of shape (n, ...)
    mix : float
        Share of the heavier part, between 0.5 and 1.
    seed : int or Generator

    Notes
    -----
    Guarantee: none without its assumption, that the model errs on mixtures as on hard inputs.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> bool(tp.fit_pseudocal(lambda x: 9 * x, x).temperature > 1)
    True
    """
    checks.check_number(mix, "mix", low=0.5, high=1, open_low=True)
    x = check_inputs(inputs)
    predicted = to_numpy(run_model(model, x)).argmax(axis=1)
    other = checks.check_seed(seed).permutation(len(predicted))
    apart = np.flatnonzero(predicted != predicted[other])
    if not len(apart):
        msg = "all inputs are predicted as one class, so no mixture is between two classes."
        raise NotIdentified(msg)
    mixed = x[apart] * mix + x[other[apart]] * (1 - mix)
    return fit_temperature(run_model(model, mixed), predicted[apart])


def run_model(model: Model, x: Array) -> Array:
    """Return the logits of a batch of inputs, checked."""
    if not callable(model):
        raise InputError(f"model must be a function. Got {type(model).__name__} instead.")
    try:
        made = model(x)
    except Exception as error:
        shape = tuple(x.shape)
        raise InputError(
            f"model must turn a batch of inputs into logits. On shape {shape} it raised {error!r}."
        ) from error
    z = checks.check_logits(made, "logits of the model")
    return checks.check_values(z, "logits of the model")


def check_inputs(inputs: HasShape | Sequence[Any]) -> Array:
    """Return inputs as a floating array of at least two finite examples."""
    x = as_numbers(inputs)
    shape = () if x is None else tuple(int(side) for side in x.shape)
    if x is None or len(shape) < 2 or shape[0] < 2 or 0 in shape:
        got = type(inputs).__name__ if x is None else f"shape {shape}"
        msg = f"inputs must be an array of at least two inputs, (n, ...). Got {got} instead."
        raise InputError(msg)
    x = detached(x)
    checks.check_finite(namespace(x).reshape(x, (shape[0], -1)), "inputs")
    return x
