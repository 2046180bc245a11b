"""The class mix of a target as a user knows it: a number, a range, a rough idea, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from temperance._core.arrays import as_array, as_floating, to_numpy
from temperance._core.checks import (
    InputError,
    by_column,
    check_number,
    check_prior,
    class_keys,
    class_order,
    plain_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """Class probabilities, how they are known, and how well.

    Attributes
    ----------
    value : array of shape (K,)
    kind : {"given", "about", "range"}
    low, high : arrays of shape (K,)
        Equal to ``value`` when it is given exactly.
    rows : float
        As reliable as a count of that many rows; infinite when exact.
    keys : tuple of str, optional
        The classes by whose names it was given, until it meets the columns they stand for.
    """

    value: Vector
    kind: str
    low: Vector
    high: Vector
    rows: float = np.inf
    keys: tuple[str, ...] | None = None

    @property
    def exact(self) -> bool:
        """Return whether there is only one plausible prior."""
        return bool(np.array_equal(self.low, self.high))

    @property
    def equivalent_sample_size(self) -> float:
        """Return how many counted rows tell the mix as well; infinite when it is exact."""
        if self.exact or np.isfinite(self.rows):
            return self.rows
        variance = (self.high - self.low) ** 2 / 12  # of a uniform draw between the ends
        return float(np.sum(self.value * (1 - self.value)) / variance.sum())

    def restricted(self, classes: NDArray[np.intp]) -> Prior:
        """Return the mix of some classes only; what a count has not seen is not excluded.

        A count of so many rows that misses a class is no proof that the class never occurs: half a
        row is added to each class.
        """
        value, low, high = (part[classes] for part in (self.value, self.low, self.high))
        if np.isfinite(self.rows):
            value = value * self.rows + 0.5
        return replace(self, value=value / value.sum(), low=low, high=high)


def about(prior: object, rows: float = 100) -> Prior:
    """Say that a class mix is known about as well as from counting that many rows.

    Parameters
    ----------
    prior : array of shape (K,), or dict or pandas Series by class name
        Class probabilities.
    rows : float
        As many as one would have to count to know them as well.

    Examples
    --------
    >>> import temperance as tp
    >>> mix = tp.about([0.7, 0.3], rows=50)
    >>> mix.low.round(2), mix.high.round(2)
    (array([0.59, 0.19]), array([0.81, 0.41]))
    """
    keys, plain = class_keys(prior), plain_numbers(prior)
    numbers = plain if keys is None else as_array(plain)  # in the order of the keys
    q = check_prior(numbers, _length(numbers))
    n = check_number(rows, "rows", low=1)
    error = 1.645 * np.sqrt(q * (1 - q) / n)
    return Prior(q, "about", np.maximum(q - error, 0), np.minimum(q + error, 1), n, keys)


def as_prior(prior: object, n_classes: int, classes: Sequence[object] | None = None) -> Prior:
    """Return a class mix as stated: probabilities, a range for each class, or `about`."""
    prior = in_columns(prior, n_classes, classes)
    if isinstance(prior, Prior):
        return prior
    array = as_array(prior)
    table = None if array is None else as_floating(array)
    if table is not None and tuple(table.shape) == (n_classes, 2):
        return _from_ranges(to_numpy(table).astype(np.float64))
    q = check_prior(prior, n_classes)
    return Prior(q, "given", q, q)


def in_columns(prior: object, n_classes: int, classes: Sequence[object] | None) -> object:
    """Return what is known in the order of the columns, whatever it was given by."""
    if not isinstance(prior, Prior):
        return by_column(prior, n_classes, classes)
    if prior.keys is None:
        check_prior(prior.value, n_classes)
        return prior
    order = class_order(prior.keys, n_classes, classes, "prior")
    value, low, high = (part[order] for part in (prior.value, prior.low, prior.high))
    return replace(prior, value=value, low=low, high=high, keys=None)


def _from_ranges(table: Vector) -> Prior:
    low, high = table[:, 0], table[:, 1]
    with np.errstate(over="ignore"):
        least, most = float(low.sum()), float(high.sum())
    good = (low >= 0).all() and (low <= high).all() and (high <= 1).all()
    if not (good and least <= 1 + 1e-9 and most >= 1 - 1e-9):
        msg = (
            f"prior ranges must satisfy 0 <= low <= high <= 1, sum of low <= 1 <= sum of high. Got "
            f"sums {least:.4g} and {most:.4g}; widen the ranges."
        )
        raise InputError(msg)
    share = min(max((1 - least) / (most - least), 0.0), 1.0) if most > least else 0.0
    return Prior(low + (high - low) * share, "range", low, high)


def _length(prior: object) -> int:
    array = as_array(prior)
    return int(array.shape[0]) if array is not None and array.shape else 0
