"""Table 1 and the tables of appendix C.1: the same domain, twelve networks, four metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temperance.reproduce.paper_rows import Row, reported, rows
from temperance.reproduce.protocol import draw_fifth, over_draws
from temperance.reproduce.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance.reproduce.bench import Bench

ITEM = "table-1"
METRICS = ("accuracy", "nll", "ece", "brier")
METHODS = (
    "uncalibrated",
    "TS",
    "UTS",
    "UTS, mix of the draw",
    "vector",
    "matrix",
    "penalised matrix",
    "prior-matched, T only",
    "prior-matched",
)
SEPARABLE = (
    "the likelihood of a draw has no maximum where its rows can be separated: there a penalty of "
    "1e-4 stands for none, and the paper's number is where its optimiser stopped"
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
    evidence = "other weights" if row.evidence == "missing" else row.evidence
    records = draws.records(
        METRICS,
        partial(reported, row),
        item=ITEM,
        group=row.group,
        dataset=row.dataset,
        model=row.model,
        evidence=evidence,
        data=logits.data,
        weights=logits.weights,
        caveat=row.caveat,
    )
    return [_with_note(r, SEPARABLE) if r.method == "matrix" else r for r in records]


def _with_note(record: Record, note: str) -> Record:
    return replace(record, caveat=f"{record.caveat}; {note}" if record.caveat else note)
