"""Write docs/tables/shifts.md from the record of benchmarks/shifts.py."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
RECORD = HERE.parent / "benchmarks" / "records" / "shifts.json"
TABLE = HERE / "tables" / "shifts.md"


def table() -> str:
    """Return how many times faster each corruption is, by size, as a Markdown table."""
    sizes = json.loads(RECORD.read_text(encoding="utf-8"))["sizes"]
    names = next(iter(sizes.values()))
    lines = [["corruption", *(f"{side} pixels" for side in sizes)], ["---"] * (1 + len(sizes))]
    for name in names:
        ratios = [sizes[side][name]["ratio"] for side in sizes]
        shown = [f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×" for ratio in ratios]
        lines.append([name.replace("_", " "), *shown])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
