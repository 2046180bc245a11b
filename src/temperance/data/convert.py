"""Conversions into logits: from probabilities, and from one-dimensional scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core import arrays, checks
from temperance._core.arrays import Array, as_numbers, namespace
from temperance.data.types import HasShape


def from_probabilities(p: HasShape | Sequence[Any]) -> Array:
    """Return logits whose softmax is ``p``: its logarithm.

    The row offset of the original logits is lost, which no calibration map but vector and matrix
    scaling would use. A probability of exactly 0 becomes the smallest normal number of its dtype:
    the margin was lost when the probabilities were saved, so prefer to save logits. In a table that
    is rounded to five decimals or fewer, a 0 becomes a tenth of its last decimal.

    Parameters
    ----------
    p : array of shape (n, K)
        Rows that are non-negative and sum to one, but for rounding.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> tp.from_probabilities(np.array([[0.5, 0.5], [0.9, 0.1]])).round(3)
    array([[-0.693, -0.693],
           [-0.105, -2.303]])
    """
    return logits_of(p, "p")


def logits_of(p: object, name: str) -> Array:
    """Return what `from_probabilities` returns; errors call the probabilities ``name``."""
    given = arrays.as_array(p)
    if given is not None and (len(given.shape) == 1 or tuple(given.shape)[1:] == (1,)):
        one = "p" if len(given.shape) == 1 else "p[:, 0]"
        raise checks.InputError(
            f"{name} must have shape (n, K), one column per class. Got probabilities of shape "
            f"{tuple(given.shape)}; of class 1 alone, pass numpy.stack([1 - {one}, {one}], axis=1)."
        )
    array = arrays.detached(checks.check_logits(p, name))
    xp = namespace(array)
    wide = arrays.widened(array)
    zero = least_probability(arrays.to_numpy(array), name)
    least = max(float(xp.finfo(array.dtype).smallest_normal), zero)
    return xp.astype(xp.log(xp.maximum(wide, xp.asarray(least, dtype=wide.dtype))), array.dtype)


def least_probability(p: NDArray[Any], name: str = "p") -> float:
    """Check that rows sum to 1, and return the number that stands for a probability of exactly 0.

    A probability that is rounded to 0 is mostly far below half a unit of the last decimal: a fifth
    of that keeps temperatures best.
    """
    half_unit = checks.check_simplex(p, name)
    return max(float(np.finfo(p.dtype).smallest_normal), half_unit / 5)


def binary_logits(scores: HasShape | Sequence[Any]) -> Array:
    """Return two-column logits ``(0, s)`` from the scores ``s`` of a one-logit binary head.

    The probability of class 1 is ``sigmoid(s)``; a temperature fitted on these columns divides s.

    Parameters
    ----------
    scores : array of shape (n,) or (n, 1)
        Before the sigmoid, such as a ``decision_function``. Twenty and more that all lie between 0
        and 1 are taken for probabilities and refused.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> tp.binary_logits(np.array([1.5, -2.0]))
    array([[ 0. ,  1.5],
           [ 0. , -2. ]])
    """
    s = as_numbers(scores)
    if s is None or s.ndim not in (1, 2) or (s.ndim == 2 and s.shape[1] != 1) or not s.shape[0]:
        got = type(scores).__name__ if s is None else f"shape {tuple(s.shape)}"
        msg = f"scores must be numbers of shape (n,) or (n, 1). Got {got} instead."
        raise checks.InputError(msg)
    logits = two_columns(arrays.detached(s))
    checks.check_finite(logits, "scores")
    checks.check_scores(logits[:, 1])
    return logits


def two_columns(scores: Array) -> Array:
    """Return ``(0, s)`` of scores that are a part of what is to be checked as a whole."""
    xp = namespace(scores)
    column = xp.reshape(scores, (-1, 1))
    return xp.concat([xp.zeros_like(column), column], axis=1)
