"""Tables of speed beside the peers, from the record of benchmarks/peers.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "peers.json"


def shape(text: str) -> str:
    """Return ``2000x10`` as people write it, wherever it stands in the text."""
    return re.sub(r"(\d+)x(\d+)", lambda m: f"{int(m[1]):,} × {int(m[2]):,}", text)


def markdown(lines: list[list[str]]) -> str:
    """Return a table whose first line is its head."""
    rule = ["---", *("---:" for _ in lines[0][1:])]
    return "".join(f"| {' | '.join(line)} |\n" for line in [lines[0], rule, *lines[1:]])


def times(ratio: float | None) -> str:
    """Return a ratio with two digits."""
    if ratio is None:
        return ""
    return (
        f"{ratio:.0f} ×"
        if ratio >= 9.95
        else f"{ratio:.1f} ×"
        if ratio >= 0.95
        else f"{ratio:.2f} ×"
    )


def power(value: float | None) -> str:
    """Return a small number as a power of ten, roughly; nothing below rounding."""
    if value is None:
        return ""
    return "0" if value < 1e-15 else f"{value:.0e}"


def temperature(sizes: dict[str, Any]) -> str:
    """Return speed relative to the fastest peer, by size, and what each costs in accuracy."""
    shapes = [shape(size) for size in sizes]
    largest = list(sizes)[-1]
    lines = [["", *shapes, f"error of T, {shapes[-1]}", "passes", "memory, MB"]]
    for name in next(iter(sizes.values())):
        rows = [size.get(name, {}) for size in sizes.values()]
        last = sizes[largest].get(name, {})
        passes = last.get("passes")
        lines.append(
            [
                name,
                *(times(row.get("ratio")) for row in rows),
                power(last.get("error")),
                "" if passes is None else f"{passes:.2f}",
                f"{last['memory_mb']:.0f}" if last else "",
            ]
        )
    return markdown(lines)


def side_by_side(tasks: dict[str, Any]) -> str:
    """Return speed relative to the fastest peer and the NLL above the best, by task."""
    names = list(dict.fromkeys(name for rows in tasks.values() for name in rows))
    lines = [["", *(shape(task) for task in tasks)]]
    for name in names:
        cells = []
        for rows in tasks.values():
            row = rows.get(name)
            cells.append("" if row is None else f"{times(row['ratio'])} ({power(row['excess'])})")
        lines.append([name, *cells])
    return markdown(lines)


def label_free(sizes: dict[str, Any]) -> str:
    """Return what the label-free fits cost, in units of a temperature with labels."""
    lines = [["", *(shape(size) for size in sizes)]]
    for name in next(iter(sizes.values())):
        cells = (times(rows[name]["times_temperature"]) for rows in sizes.values())
        lines.append([name.removeprefix("temperance: "), *cells])
    return markdown(lines)


def metrics(record: dict[str, Any]) -> str:
    """Return the speed of metrics relative to the fastest peer."""
    lines = [["", "speed"]]
    for rows in (record["metrics"], record["smooth"]):
        lines += [[name, times(row["ratio"])] for name, row in rows.items()]
    return markdown(lines)


def costs(record: dict[str, Any]) -> str:
    """Return nanoseconds of one core per logit and pass, as measured."""
    lines = [["", "ns per logit and pass", "pass"]]
    for size, rows in list(record["temperature"].items())[1:]:  # the smallest is all overhead
        n, k = map(int, size.split("x"))
        for name in ("temperance", "temperance, NumPy"):
            row = rows[name]
            each = 1e6 * row["cpu_ms"] / (n * k * row["passes"])
            lines.append([f"{name}, {shape(size)}", f"{each:.1f}", "temperature"])
    for name, row in record["metrics"].items():
        if name.startswith("temperance"):
            lines.append(
                [f"{name.split(':')[0]}, 1,000,000 × 10", f"{row['cpu_ms'] / 10:.1f}", "metrics"]
            )
    return markdown(lines)


def reads(record: dict[str, Any]) -> str:
    """Return what the parts of a fit cost, in units of two plain reads of the array."""
    lines = [["", *(shape(size) for size in record)]]
    names = next(iter(record.values()))
    lines += [[name, *(times(parts[name]) for parts in record.values())] for name in names]
    return markdown(lines)


def threads(record: dict[str, Any]) -> str:
    """Return how much faster two threads are than one, by the clock on the wall."""
    lines = [["", "two threads against one"]]
    lines += [[shape(name), times(row["gain"])] for name, row in record.items()]
    return markdown(lines)


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return {
        "speed-temperature.md": temperature(record["temperature"]),
        "speed-affine.md": side_by_side(record["affine"]),
        "speed-label-free.md": label_free(record["label_free"]),
        "speed-metrics.md": metrics(record),
        "speed-costs.md": costs(record),
        "speed-reads.md": reads(record["floor"]),
        "speed-threads.md": threads(record["threads"]),
    }
