"""Records measured again beside those of an earlier run: which cells are the same numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from temperance_lab.reproduce.record import Record

__all__ = ["compare", "same_number"]

# A solver that ends elsewhere within its tolerance moves a row or two between bins of ECE.
OF_THE_SPREAD, RELATIVE = 1 / 50, 1e-4
VARIES = ("seconds",)  # of the machine and its other work


def same_number(now: Record, then: Record) -> bool:
    """Whether two means differ by less than a fiftieth of their spread over draws, or by 1e-4."""
    if now.reproduced is None or then.reproduced is None:
        return now.needs == then.needs
    tolerance = OF_THE_SPREAD * (then.sd or 0.0) + RELATIVE * abs(then.reproduced)
    return abs(now.reproduced - then.reproduced) <= tolerance


def compare(now: Iterable[Record], then: Iterable[Record]) -> tuple[Counter[str], list[Record]]:
    """Return how many cells are the same, and the records that differ.

    Cells of other logits, of another number of training runs or of another label-free core are
    not the same measurement, and are counted apart.
    """
    before = {r.key: r for r in then}
    counts: Counter[str] = Counter()
    differ = []
    for record in now:
        old = before.pop(record.key, None)
        if record.metric in VARIES:
            continue
        if old is None:
            counts["new"] += 1
        elif (record.data, record.networks) != (old.data, old.networks):
            counts["other logits"] += 1
        elif record.core != old.core:
            counts["another core"] += 1
        elif same_number(record, old):
            counts["same"] += 1
        else:
            counts["differ"] += 1
            differ.append(record)
    counts["gone"] = sum(r.metric not in VARIES for r in before.values())
    return counts, differ
