"""Table 1 and the tables of appendix C.1: the same domain, twelve networks, four metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.paper_rows import Row, reported, rows
from temperance_lab.reproduce.protocol import draw_fifth, over_draws
from temperance_lab.reproduce.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.bench import Bench

ITEM = "table-1"
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
)
EARLY = (
    "a penalty of 5e-3 in the place of an optimiser that stops early, chosen so that NLL is as "
    "printed for CIFAR100 DenseNet40"
)


def groups(bench: Bench) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the rows of the table, each a function from methods to records."""
    return {row.group: partial(_row, bench, row) for row in rows(bench)}


def _row(bench: Bench, row: Row, methods: Sequence[str]) -> list[Record]:
    if not row.available(bench):
        return [
            Record(
                item=ITEM,
                group=row.group,
                dataset=row.dataset,
                model=row.model,
                method=method,
                metric=metric,
                reported=reported(row, method, metric),
                needs=row.needs(ITEM),
            )
            for method in methods
            for metric in METRICS
        ]
    logits = row.logits(bench)
    draws = over_draws(draw_fifth(logits), methods, bench.n_draws)
    records = draws.records(METRICS, partial(reported, row), item=ITEM, **row.fields(logits))
    return [
        replace(r, caveat="; ".join(filter(None, (r.caveat, EARLY)))) if "0.005" in r.method else r
        for r in records
    ]
