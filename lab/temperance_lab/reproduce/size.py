"""Appendix C.4 and the supplement: how much the number of calibration rows decides.

On every degree of the paper's three shifts and on every network without a shift; there and for one
degree of each shift up to ten thousand rows, where the paper stops at two thousand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from temperance_lab.reproduce.experiment_data import Shift, pooled
from temperance_lab.reproduce.paper_rows import Row, rows
from temperance_lab.reproduce.protocol import draw_fifth, over_draws
from temperance_lab.reproduce.shift import SHIFTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.record import Record

EXPERIMENT = "sample-size"
SIZES = (30, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
METRICS = ("nll", "temperature")  # the NLL of ATS, as in the supplement
METRICS_UNDER_SHIFT = ("brier", "temperature")  # the Brier score, as in C.4
METHODS = ("uncalibrated", "TS", "ATS", "UTS", "UTS in bags", "prior-matched", "TS-Target")
UNDER_SHIFT = ("prior-matched", "TS-Target")  # the first has a source there, the second a target
FEW = 2_000  # rows up to which the paper's figure goes
# Every degree of the paper's three shifts, up to 2,000 rows; of one degree each, all sizes.
ALL_SIZES = ("MNIST-rotation-45", "MNIST-rolling-6", "CIFAR10-gaussian_noise-3")
SHIFTED = {
    f"{group}-{degree}": (task, Shift(shift, degree))
    for group, (task, shift, degrees) in SHIFTS.items()
    for degree in degrees
    if degree
}
JUDGED = "judged on all test rows, drawn ones too"
AS_MANY = "as many source rows, or all"
EXPENSIVE = 2_000  # rows beyond which ATS, whose claim is about few, is left out


def groups(data: ExperimentData) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the shifts and the networks; of networks whose logits are missing, what they need."""
    unshifted = {r.group: partial(_unshifted, data, r) for r in rows(data)}
    return {name: partial(_shifted, data, name) for name in SHIFTED} | unshifted


def _unshifted(data: ExperimentData, row: Row, methods: Sequence[str]) -> list[Record]:
    methods = [m for m in methods if m not in UNDER_SHIFT]
    if not methods:
        return []
    if not row.available(data):
        return row.missing(EXPERIMENT, methods, ("temperature",), setting="rows", x=30)
    runs = row.runs(data)
    records = []
    for n in _sizes(len(runs[0].y)):
        asked = [m for m in _asked(methods, n) if m != "ATS" or n <= EXPENSIVE]
        draws = over_draws([draw_fifth(one, n=n) for one in runs], asked, data.n_draws)
        shared: dict[str, Any] = row.fields(pooled(runs)) | {
            "experiment": EXPERIMENT,
            "setting": "rows",
            "x": n,
        }
        shared["caveat"] = "; ".join(filter(None, (row.caveat, JUDGED)))
        records += draws.records(METRICS, **shared)
    return records


def _shifted(data: ExperimentData, name: str, methods: Sequence[str]) -> list[Record]:
    asked = [m for m in methods if m != "ATS"]
    if not asked:
        return []  # before a network is trained for nothing
    task_name, shift = SHIFTED[name]
    task = data.task(task_name)
    records = []
    for n in _sizes(task.test if name in ALL_SIZES else min(FEW, task.test)):
        turns, fields = data.draws(task, data.runs, shift, n)
        draws = over_draws(turns, _asked(asked, n), data.n_draws)
        shared: dict[str, Any] = fields | {"experiment": EXPERIMENT, "setting": "rows", "x": n}
        shared |= {"group": name, "caveat": f"networks trained here; {JUDGED}; {AS_MANY}"}
        records += draws.records(METRICS_UNDER_SHIFT, **shared)
    return records


def _asked(methods: Sequence[str], n: int) -> list[str]:
    """Return the methods to run on ``n`` rows: a network as it is has one number for all."""
    return [m for m in methods if m != "uncalibrated" or n == SIZES[0]]


def _sizes(available: int) -> list[int]:
    return sorted({min(n, available) for n in SIZES})
