"""Write docs/tables/shifts.md and shifts_floor.md from the record of benchmarks/shifts.py."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
RECORD = HERE.parent / "benchmarks" / "records" / "shifts.json"
WANTED = 20  # times as fast


def read() -> dict:
    """Return the record."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def table() -> str:
    """Return how many times faster each corruption is, by size, as a Markdown table."""
    sizes = read()["sizes"]
    names = next(iter(sizes.values()))
    kinds = {"ratio": "one thread", "clock_ratio": "by the clock"}
    columns = [(side, key) for side in sizes for key in kinds]
    head = [f"{side} pixels, {kinds[key]}" for side, key in columns]
    lines = [["corruption", *head], ["---"] * (1 + len(head))]
    for name in names:
        ratios = [sizes[side][name][key] for side, key in columns]
        shown = [f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×" for ratio in ratios]
        lines.append([name.replace("_", " "), *shown])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def floor() -> str:
    """Return which corruptions are not twenty times as fast, and why JPEG cannot be."""
    record = read()
    words = []
    for side, rows in record["sizes"].items():
        for key, how in {"ratio": "in one thread", "clock_ratio": "by the clock"}.items():
            slow = [name.replace("_", " ") for name, row in rows.items() if row[key] < WANTED]
            words.append(
                f"At {side} pixels and {how} all are at least {WANTED} times as fast"
                + (f" but {', '.join(slow)}.\n" if slow else ".\n")
            )
    package = record["sizes"]["224"]["jpeg_compression"]["peer_us"]
    least = record["floors"]["224"]
    words.append(
        f"The package passes an image of 224 pixels through JPEG in {package:.0f} µs, of which\n"
        f"{package / WANTED:.0f} µs are a twentieth; to convert its colours to luma and chroma\n"
        f"and back, and nothing else, takes {least['jpeg_colour_us']:.0f} µs here, and to copy\n"
        f"it {least['copy_us']:.0f} µs.\n"
    )
    rest = [n for n in record["sizes"]["224"] if n != "jpeg_compression"]
    for name in rest:
        row = record["sizes"]["224"][name]
        if row["clock_ratio"] < WANTED:
            words.append(
                f"A twentieth of the package's time for {name.replace('_', ' ')} is\n"
                f"{row['peer_us'] / WANTED:.0f} µs, of which the copy would be a part; ours takes "
                f"{row['ours_us']:.0f} µs.\n"
            )
    return "".join(words)


TABLES = {"shifts.md": table, "shifts_floor.md": floor}

if __name__ == "__main__":
    for name, text in TABLES.items():
        (HERE / "tables" / name).write_text(text(), encoding="utf-8")
