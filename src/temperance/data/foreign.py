"""Which library an object comes from, found out without importing the library."""

from __future__ import annotations

from typing import Any, TypeGuard

Foreign = Any
"""An object of a library that may not be installed."""


def is_dask(values: object) -> TypeGuard[Foreign]:
    """Return whether these are rows of Dask: an array, a data frame or one of its columns."""
    return hasattr(values, "__dask_graph__")  # Dask's own protocol for its collections


def is_dask_frame(values: object) -> TypeGuard[Foreign]:
    """Return whether these are the rows of a Dask data frame."""
    return is_dask(values) and hasattr(values, "columns")


def is_dask_column(values: object) -> TypeGuard[Foreign]:
    """Return whether this is one column of a Dask data frame."""
    return is_dask(values) and hasattr(values, "to_dask_array")


def is_arrow_dataset(values: object) -> TypeGuard[Foreign]:
    """Return whether these are the rows of a ``pyarrow.dataset``."""
    return any(base.__module__ == "pyarrow._dataset" for base in type(values).__mro__)
