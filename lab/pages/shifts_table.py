"""Table of the speed of corruptions beside the published package, from its record."""

from __future__ import annotations

import json
from pathlib import Path

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "shifts.json"


def tables() -> dict[str, str]:
    """Return how many times faster each corruption is, by size, as a Markdown table."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    sizes, means = record["sizes"], record["geometric_mean"]
    lines = [["corruption", *(f"{side} pixels" for side in sizes)], ["---"] * (1 + len(sizes))]
    for name in next(iter(sizes.values())):
        ratios = (f"{rows[name]['ratio']:.1f} ×" for rows in sizes.values())
        lines.append([name.replace("_", " "), *ratios])
    lines.append(["**geometric mean**", *(f"**{means[side]:.1f} ×**" for side in sizes)])
    return {"shifts.md": "".join(f"| {' | '.join(line)} |\n" for line in lines)}
