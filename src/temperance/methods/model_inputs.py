"""Inputs of a model, and the model itself, as any function from a batch of inputs to logits.

Serves the two methods that run the model again, `fit_pseudocal` and `fit_perturbed`. Inputs are
arrays of any library that follows the Array API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from temperance._core.arrays import Array, as_array, as_floating, detached, namespace
from temperance._core.checks import (
    InputError,
    check_finite,
    check_logits,
    check_values,
)
from temperance.data.types import HasShape

Model = Callable[[Any], Any]


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
    z = check_logits(made, "logits of the model")
    return check_values(z, "logits of the model")


def check_inputs(inputs: HasShape | Sequence[Any]) -> Array:
    """Return inputs as a floating array of at least two finite examples."""
    array = as_array(inputs)
    x = None if array is None else as_floating(detached(array))
    shape = () if x is None else tuple(int(side) for side in x.shape)
    if x is None or len(shape) < 2 or shape[0] < 2 or 0 in shape:
        got = type(inputs).__name__ if x is None else f"shape {shape}"
        msg = f"inputs must be an array of at least two inputs, (n, ...). Got {got} instead."
        raise InputError(msg)
    check_finite(namespace(x).reshape(x, (shape[0], -1)), "inputs")
    return x
