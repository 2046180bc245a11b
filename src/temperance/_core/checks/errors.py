"""The two errors of the library."""

from __future__ import annotations


class InputError(ValueError):
    """An argument does not keep the input contract; the message says which and the way out."""


class NotIdentified(ValueError):
    """The data do not determine the parameter: the optimum runs to the edge or is not unique."""
