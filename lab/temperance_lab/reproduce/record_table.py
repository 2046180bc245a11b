"""Records as a table: the value of a method in a group, at a degree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from temperance_lab.reproduce.record import Record

__all__ = ["RecordTable"]


class RecordTable:
    """Measured records of one experiment by group, degree, method and metric."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = {
            (r.group, r.x, r.method, r.metric): r for r in records if r.reproduced is not None
        }

    def groups(self) -> list[str]:
        """Return the groups, in the order they were given."""
        return list(dict.fromkeys(key[0] for key in self.records))

    def only(self, groups: Iterable[str]) -> RecordTable:
        """Return the table of some groups."""
        wanted = set(groups)
        return RecordTable(r for r in self.records.values() if r.group in wanted)

    def degrees(self, group: str) -> list[float]:
        """Return the degrees (noise, rows) of a group, rising."""
        return sorted({x for g, x, _, _ in self.records if g == group and x is not None})

    def methods(self, group: str | None = None) -> list[str]:
        """Return the methods, in the order they were given."""
        return list(dict.fromkeys(m for g, _, m, _ in self.records if group in {None, g}))

    def get(self, group: str, method: str, metric: str, x: float | None = None) -> Record | None:
        """Return a record, or None where the cell was not measured."""
        return self.records.get((group, x, method, metric))

    def value(self, group: str, method: str, metric: str, x: float | None = None) -> float:
        """Return the mean over draws; NaN where the cell was not measured."""
        record = self.get(group, method, metric, x)
        return float("nan") if record is None or record.reproduced is None else record.reproduced

    def spread(self, group: str, method: str, metric: str, x: float | None = None) -> float:
        """Return the standard deviation over draws; NaN where the cell was not measured."""
        record = self.get(group, method, metric, x)
        return float("nan") if record is None or record.sd is None else record.sd

    def interval(
        self, group: str, method: str, metric: str, x: float | None = None
    ) -> tuple[float, float]:
        """Return the 95 % interval of the mean; NaN where the cell was not measured."""
        record = self.get(group, method, metric, x)
        return (record and record.interval) or (float("nan"), float("nan"))
