"""Fits, metrics and gates of the commands, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import temperance as tp
from temperance._core.checks import InputError
from temperance.data import Rows, as_rows
from temperance.io.formats import Table
from temperance.maps import Map

FITS: dict[str, Callable[..., Map]] = {
    "temperature": tp.fit_temperature,
    "vector": tp.fit_vector,
    "matrix": tp.fit_matrix,
    "biased": tp.fit_biased_temperature,
    "attended": tp.fit_attended,
}
METRICS = {
    "accuracy": tp.metrics.accuracy,
    "nll": tp.metrics.nll,
    "brier": tp.metrics.brier,
    "ece": tp.metrics.ece,
}


def fit(
    method: str, rows: Table, penalty: float
) -> tuple[Map, tp.metrics.Evaluation, tp.metrics.Evaluation]:
    """Return the map of a method, and what its own rows say before and after it."""
    options = {"penalty": penalty} if method in {"vector", "matrix"} else {}
    if penalty and not options:
        msg = f"--penalty goes with the methods vector and matrix. Got it with {method!r}."
        raise InputError(msg)
    fitted = FITS[method](rows.logits, rows.labels, **options)
    before = tp.metrics.evaluate(rows.logits, rows.labels)
    return fitted, before, tp.metrics.evaluate(after(fitted, rows))


def after(fitted: Map, rows: Table) -> Rows:
    """Return labelled rows after a map, block by block, in single precision at least."""
    dtype = np.result_type(rows.logits.dtype, np.float32)
    return as_rows(rows.logits, rows.labels).mapped(lambda z: fitted(z.astype(dtype)))


def measure(rows: Table, fitted: Map | None = None) -> dict[str, list[float]]:
    """Return metrics of rows, after a map if there is one, with bootstrap intervals (by group)."""
    labelled = as_rows(rows.logits, rows.labels) if fitted is None else after(fitted, rows)
    return {
        name: list(tp.metrics.bootstrap(metric, labelled, groups=rows.groups))
        for name, metric in METRICS.items()
    }


class Gate(NamedTuple):
    """A limit of a metric beside the value that was measured or estimated."""

    name: str
    found: Sequence[float] | None  # value, low, high; None where nothing is known
    limit: float
    largest: bool  # whether the limit is the largest value that passes, or the smallest

    @property
    def missed(self) -> bool:
        """Return whether the value is on the wrong side, or not known."""
        if self.found is None:
            return True
        value = self.found[0]
        return value > self.limit if self.largest else value < self.limit

    @property
    def open(self) -> bool:
        """Return whether the interval has values on both sides: the rows cannot tell."""
        return self.found is not None and self.found[1] < self.limit < self.found[2]

    def says(self) -> str:
        """Return why the gate was missed."""
        side = "above" if self.largest else "below"
        if self.found is None:
            return f"{self.name} is not known, and {self.limit:g} was demanded"
        return f"{self.name} {self.found[0]:.4f} is {side} {self.limit:g}"

    def doubt(self) -> str:
        """Return why the gate might have ended otherwise."""
        _, low, high = self.found or (0, 0, 0)
        return (
            f"the interval of the {self.name}, {low:.4f} to {high:.4f}, spans the gate "
            f"{self.limit:g}: these rows cannot tell on which side it lies."
        )


def gates(
    found: Mapping[str, Sequence[float] | None], max_ece: float | None, min_accuracy: float | None
) -> list[Gate]:
    """Return what was demanded, beside what was found."""
    demanded: list[Gate] = []
    for name, limit, largest in (("ECE", max_ece, True), ("accuracy", min_accuracy, False)):
        if limit is not None:
            value = found[name.lower()]
            every = value is not None and value[1] <= 0 and value[2] >= 1  # nothing is known then
            demanded.append(Gate(name, None if every else value, limit, largest))
    return demanded
