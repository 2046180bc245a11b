"""Figure 4 and appendix C.3: wrong labels among the calibration rows; the supplement's ATS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.paper_rows import Row, rows
from temperance_lab.reproduce.protocol import draw_fifth, over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.bench import Bench
    from temperance_lab.reproduce.record import Record

ITEM = "label-noise"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
METRICS = ("nll", "ece", "brier", "temperature")
METHODS = ("uncalibrated", "TS", "ATS", "UTS", "prior-matched")
NEED_LABELS = ("TS", "ATS")


def groups(bench: Bench) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the networks whose logits are there."""
    return {row.group: partial(_row, bench, row) for row in rows(bench) if row.available(bench)}


def _row(bench: Bench, row: Row, methods: Sequence[str]) -> list[Record]:
    logits = row.logits(bench)
    records = []
    for share in SHARES:
        # Without labels a method does not see the noise: its answer at 0 is its answer.
        asked = [m for m in methods if share == 0 or m in NEED_LABELS]
        draws = over_draws(draw_fifth(logits, noise=share), asked, bench.n_draws)
        shared = {"item": ITEM, "setting": "noise", "x": share}
        records += draws.records(METRICS, **shared, **row.fields(logits))
    return records
