"""Appendix C.4 and the supplement: how much the number of calibration rows decides.

On the paper's three shifts and on every network without a shift; up to ten thousand rows, where
the paper stops at two thousand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from temperance_lab.reproduce.bench import Shift
from temperance_lab.reproduce.paper_rows import Row, rows
from temperance_lab.reproduce.protocol import draw_fifth, draw_shifted, over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.bench import Bench
    from temperance_lab.reproduce.record import Record

ITEM = "sample-size"
SIZES = (30, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
METRICS = ("nll", "brier", "temperature")
METHODS = ("uncalibrated", "TS", "ATS", "UTS", "UTS in bags", "prior-matched", "TS-Target")
SHIFTED = {
    "MNIST-rotation-45": ("mnist", Shift("rotation", 45)),
    "MNIST-rolling-6": ("mnist", Shift("rolling", 6)),
    "CIFAR10-gaussian_noise-3": ("cifar10", Shift("gaussian_noise", 3)),
}
JUDGED = "judged on all test rows, the drawn ones among them"
AS_MANY = "of the source as many rows, or all it has"
EXPENSIVE = 2_000  # rows beyond which ATS, whose claim is about few, is left out


def groups(bench: Bench) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the shifts, and the networks whose logits are there."""
    unshifted = {r.group: partial(_unshifted, bench, r) for r in rows(bench) if r.available(bench)}
    return {name: partial(_shifted, bench, name) for name in SHIFTED} | unshifted


def _unshifted(bench: Bench, row: Row, methods: Sequence[str]) -> list[Record]:
    logits = row.logits(bench)
    records = []
    for n in _sizes(len(logits.y)):
        asked = [m for m in methods if m != "TS-Target" and (m != "ATS" or n <= EXPENSIVE)]
        draws = over_draws(draw_fifth(logits, n=n), asked, bench.n_draws)
        shared: dict[str, Any] = row.fields(logits) | {"item": ITEM, "setting": "rows", "x": n}
        shared["caveat"] = "; ".join(filter(None, (row.caveat, JUDGED)))
        records += draws.records(METRICS, **shared)
    return records


def _shifted(bench: Bench, name: str, methods: Sequence[str]) -> list[Record]:
    task_name, shift = SHIFTED[name]
    task = bench.task(task_name)
    source = bench.source(task, "network")
    target = bench.shifted(task, "network", shift)
    records = []
    for n in _sizes(len(target.y)):
        asked = [m for m in methods if m != "ATS"]
        draws = over_draws(draw_shifted(source, target, n=n), asked, bench.n_draws)
        shared: dict[str, Any] = task.fields(target) | {"item": ITEM, "setting": "rows", "x": n}
        shared |= {"group": name, "caveat": f"network trained here; {JUDGED}; {AS_MANY}"}
        records += draws.records(METRICS, **shared)
    return records


def _sizes(available: int) -> list[int]:
    return sorted({min(n, available) for n in SIZES})
