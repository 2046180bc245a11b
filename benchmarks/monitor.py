"""A monitor: seconds and bytes of a window, and seconds to load a state of four.

    python benchmarks/monitor.py

One thread, CPU time, the best of three windows of 10,000 rows and 100 classes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from whole_job import best, rows

import temperance as tp

RECORD = Path(__file__).parent / "records" / "monitor.json"


def measure(n: int, k: int) -> dict[str, float]:
    """Return the cost of one size of window."""
    source = rows(min(n, 5_000), k, 4.0, 1)
    windows = iter([rows(n, k, 3.0, seed)[0] for seed in range(2, 6)])
    dates = iter([f"2026-01-0{day}" for day in range(1, 5)])
    mon = tp.Monitor(source, limits=tp.Limits(accuracy=0.8))
    mon.add(next(windows), at=next(dates))  # compiles
    found = {"add_seconds": round(best(lambda: mon.add(next(windows), at=next(dates)), 3), 3)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        mon.save(path)
        lines = path.read_bytes().splitlines(keepends=True)
        found["load_seconds"] = round(best(lambda: tp.Monitor.load(path).alarms, 3), 3)
    return found | {"source_bytes": len(lines[0]), "window_bytes": len(lines[-1])}


def main() -> None:
    """Print and record."""
    record = {f"{n:,} x {k}": measure(n, k) for n, k in ((10_000, 100), (1_000, 10))}
    print(json.dumps(record, indent=1))
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
