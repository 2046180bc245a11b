"""Time and memory of a fit without labels beside the fit of the NLL, by network."""

from __future__ import annotations

import time
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.reproduce.experiment_data import pooled
from temperance_lab.reproduce.methods import METHODS as FITS
from temperance_lab.reproduce.paper_rows import Row, rows
from temperance_lab.reproduce.protocol import draw_fifth
from temperance_lab.reproduce.record import Record, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.methods import FitInput

EXPERIMENT = "cost"
METHODS = ("TS", "UTS")
METRICS = ("seconds", "megabytes")
CAVEAT = "processor time and memory of a fit on a fifth of the rows, beside the logits themselves"


def groups(data: ExperimentData) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the networks; of those whose logits are missing, what they need."""
    return {row.group: partial(_row, data, row) for row in rows(data)}


def _row(data: ExperimentData, row: Row, methods: Sequence[str]) -> list[Record]:
    if not row.available(data):
        return row.missing(EXPERIMENT, methods, METRICS)
    runs = row.runs(data)
    shared = row.fields(pooled(runs)) | {"experiment": EXPERIMENT, "caveat": CAVEAT}
    evidence = shared.pop("evidence")
    draws = [
        draw_fifth(runs[i % len(runs)])(np.random.default_rng([0, i]))[0]
        for i in range(data.n_draws)
    ]
    out = []
    for method in methods:
        FITS[method](draws[0])  # compiled code and caches are made once
        costs = np.array([_cost(method, given) for given in draws])
        for metric, values in zip(METRICS, costs.T, strict=True):
            facts = measured(values, None, evidence, len(runs))
            out.append(Record(**shared, **facts, method=method, metric=metric))
    return out


def _cost(method: str, given: FitInput) -> tuple[float, float]:
    start = time.process_time()
    FITS[method](given)
    seconds = time.process_time() - start
    tracemalloc.start()
    FITS[method](given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak / 1e6
