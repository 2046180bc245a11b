"""Table 1 and the tables of appendix C.1: the same domain, twelve networks, four metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.experiment_data import pooled
from temperance_lab.reproduce.paper_rows import Row, reported, rows
from temperance_lab.reproduce.protocol import draw_fifth, over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.record import Record

EXPERIMENT = "table-1"
METRICS = ("accuracy", "nll", "ece", "brier")
METHODS = (
    "uncalibrated",
    "TS",
    "UTS",
    "UTS, mix of the draw",
    "vector",
    "matrix",
    "matrix, penalty 0.005",
    "penalised matrix",
    "prior-matched, T only",
    "prior-matched",
    "histogram binning",
    "isotonic",
    "BBQ",
)
BBQ_CLASSES = 10  # beyond which one fit of BBQ takes half a minute
EARLY = (
    "a penalty of 5e-3 in the place of an optimiser that stops early, chosen so that NLL is as "
    "printed for CIFAR100 DenseNet40"
)


def groups(data: ExperimentData) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the rows of the table, each a function from methods to records."""
    return {row.group: partial(_row, data, row) for row in rows(data)}


def _row(data: ExperimentData, row: Row, methods: Sequence[str]) -> list[Record]:
    if not row.available(data):
        return row.missing(EXPERIMENT, methods, METRICS)
    runs = row.runs(data)
    asked = [m for m in methods if m != "BBQ" or runs[0].z.shape[1] <= BBQ_CLASSES]
    draws = over_draws([draw_fifth(one) for one in runs], asked, data.n_draws)
    records = draws.records(
        METRICS, partial(reported, row), experiment=EXPERIMENT, **row.fields(pooled(runs))
    )
    return [
        replace(r, caveat="; ".join(filter(None, (r.caveat, EARLY)))) if "0.005" in r.method else r
        for r in records
    ]
