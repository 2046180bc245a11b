"""Temperatures from the model itself: made-up inputs whose labels are known well enough.

    PseudoCal   Hu, Liang, Wang and Foo (2024): mix pairs of target inputs, λ x + (1 - λ) x', label
                the mixture by the prediction of its heavier part, and fit a temperature
    perturbed   Tomani, Gruber, Erdem, Cremers and Buettner (2021): add noise of growing strength to
                labelled source inputs, and fit one temperature to all of them

The model is any function from a batch of inputs to logits; inputs are arrays of any library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import as_array, as_floating, like, namespace, to_numpy
from temperance._core.checks import (
    InputError,
    NotIdentified,
    check_callable,
    check_finite,
    check_labels,
    check_logits,
    check_number,
    check_seed,
    check_values,
)
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:
    from temperance._core.arrays import Array
    from temperance.maps import Temperature

MIX = 0.65  # λ of the paper
LEVELS = 10  # strengths of noise, the last one as strong as the inputs vary
Model = Callable[[Any], Any]


def fit_pseudocal(
    model: Model,
    inputs: object,
    *,
    mix: float = MIX,
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
    Guarantee: none without its assumption, that mixtures are to the model what hard inputs are.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> bool(tp.fit_pseudocal(lambda x: 9 * x, x).temperature > 1)
    True
    """
    check_number(mix, "mix", low=0.5, high=1, open_low=True)
    x = _inputs(inputs)
    predicted = to_numpy(_logits(model, x)).argmax(axis=1)
    other = check_seed(seed).permutation(len(predicted))
    apart = np.flatnonzero(predicted != predicted[other])
    if not len(apart):
        msg = "all inputs are predicted as one class, so no mixture is between two classes."
        raise NotIdentified(msg)
    mixed = x[apart] * mix + x[other[apart]] * (1 - mix)
    return fit_temperature(_logits(model, mixed), predicted[apart])


def fit_perturbed(
    model: Model,
    inputs: object,
    labels: object,
    *,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    """Fit a temperature to labelled source inputs under noise of growing strength.

    Parameters
    ----------
    model : callable
        Takes a batch of inputs to logits of shape (n, K).
    inputs : array of shape (n, ...)
    labels : array of shape (n,)
    seed : int or Generator

    Notes
    -----
    Guarantee: none; one temperature for all strengths is too high without a shift.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> x = np.eye(3)[y] + 0.3 * rng.normal(size=(600, 3))
    >>> bool(tp.fit_perturbed(lambda x: 9 * x, x, y).temperature > 1)
    True
    """
    x = _inputs(inputs)
    generator = check_seed(seed)
    n = int(x.shape[0])
    scale = float(np.std(to_numpy(x)))
    noisy = [_logits(model, x)]
    for level in range(1, LEVELS):
        strength = scale * level / (LEVELS - 1)
        noise = generator.normal(scale=strength, size=tuple(x.shape))
        noisy.append(_logits(model, x + like(noise, x)))
    logits = np.concatenate([to_numpy(z) for z in noisy])
    y = check_labels(labels, n, int(logits.shape[1]))
    return fit_temperature(logits, np.concatenate([y] * LEVELS))


def _logits(model: Model, x: Array) -> Array:
    function = check_callable(model, "model")
    try:
        made = function(x)
    except Exception as error:
        shape = tuple(x.shape)
        msg = (
            f"model must turn a batch of inputs into logits. On shape {shape} it raised {error!r}."
        )
        raise InputError(msg) from error
    z = check_logits(made, "logits of the model")
    check_values(z, "logits of the model")
    return z


def _inputs(inputs: object) -> Array:
    array = as_array(inputs)
    x = None if array is None else as_floating(array)
    shape = () if x is None else tuple(int(side) for side in x.shape)
    if x is None or len(shape) < 2 or shape[0] < 2 or 0 in shape:
        got = type(inputs).__name__ if x is None else f"shape {shape}"
        msg = f"inputs must be an array of at least two inputs, (n, ...). Got {got} instead."
        raise InputError(msg)
    check_finite(namespace(x).reshape(x, (shape[0], -1)), "inputs")
    return x
