"""Types of public arguments, and which library an argument comes from.

An array is anything with a shape: NumPy, torch, any Array API library, a data frame of pandas or
polars, a Dask collection. The checks of `temperance._core.checks` decide the rest when a function
is called; these types catch what can never be right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from temperance.data.rows import Rows


class HasShape(Protocol):
    """An array or a table of any library."""

    @property
    def shape(self) -> Any:
        """Sizes of the axes."""
        ...


class HasValue(Protocol):
    """A class mix with a doubt, as `temperance.about` returns it."""

    @property
    def value(self) -> Any:
        """Class probabilities."""
        ...


Blocks = Callable[[], Iterable[Any]] | Iterable[Any]
"""Blocks of rows that can be read again, or a function that yields them."""

LogitsLike = HasShape | Rows | Blocks | str | os.PathLike[str]
"""Rows of logits, or where to read them; see `temperance.data.as_rows`."""

LabelsLike = HasShape | Sequence[Any]
"""Class indices or names, one per row; or probabilities of the classes."""

WeightsLike = HasShape | Sequence[float]
"""Non-negative weights, one per row."""

SourceLike = tuple[LogitsLike, LabelsLike] | Sequence[Any] | Rows | Blocks | os.PathLike[str]
"""Labelled rows: a pair (logits, labels), or rows that bring their labels."""

PriorLike = HasShape | HasValue | Sequence[Any] | Mapping[Any, float]
"""Class probabilities, in the order of the classes or by name; or a range for each class."""

FeaturesLike = Sequence[Any]
"""A pair (target features, source features)."""

Foreign = Any
"""An object of a library that may not be installed."""


def is_dask(values: object) -> TypeGuard[Foreign]:
    """Return whether these are rows of Dask: an array, a data frame or one of its columns."""
    return hasattr(values, "__dask_graph__")  # Dask's own protocol for its collections


def is_arrow_dataset(values: object) -> TypeGuard[Foreign]:
    """Return whether these are the rows of a ``pyarrow.dataset``."""
    return any(base.__module__ == "pyarrow._dataset" for base in type(values).__mro__)
