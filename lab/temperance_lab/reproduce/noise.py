"""Figure 4 and appendix C.3: wrong labels among the calibration rows; the supplement's ATS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.experiment_data import pooled
from temperance_lab.reproduce.paper_rows import Row, rows
from temperance_lab.reproduce.protocol import draw_fifth, over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.record import Record

EXPERIMENT = "label-noise"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
METRICS = ("nll", "ece", "brier", "temperature")
METHODS = ("uncalibrated", "TS", "ATS", "UTS", "prior-matched")
NEED_LABELS = ("TS", "ATS")


def groups(data: ExperimentData) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the networks; of those whose logits are missing, what they need."""
    return {row.group: partial(_row, data, row) for row in rows(data)}


def _row(data: ExperimentData, row: Row, methods: Sequence[str]) -> list[Record]:
    if not row.available(data):
        return row.missing(EXPERIMENT, methods, ("nll",), setting="noise", x=0.0)
    runs = row.runs(data)
    records = []
    for share in SHARES:
        # The answer of a method without labels at noise 0 is its answer at every noise.
        asked = [m for m in methods if share == 0 or m in NEED_LABELS]
        draws = over_draws([draw_fifth(one, noise=share) for one in runs], asked, data.n_draws)
        shared = {"experiment": EXPERIMENT, "setting": "noise", "x": share}
        records += draws.records(METRICS, **shared, **row.fields(pooled(runs)))
    return records
