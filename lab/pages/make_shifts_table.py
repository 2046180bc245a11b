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
    record = read()
    sizes = record["sizes"]
    names = next(iter(sizes.values()))
    kinds = {"ratio": "one thread", "clock_ratio": "by the clock"}
    columns = [(side, key) for side in sizes for key in kinds]
    head = [f"{side} pixels, {kinds[key]}" for side, key in columns]
    lines = [["corruption", *head], ["---"] * (1 + len(head))]
    for name in names:
        ratios = [sizes[side][name][key] for side, key in columns]
        lines.append([name.replace("_", " "), *map(shown, ratios)])
    slowest = max(names, key=lambda name: names[name]["peer_us"]).replace("_", " ")
    together = {
        "all, one after the other": "ratio",
        f"all but {slowest}": "ratio_without_the_slowest",
        "geometric mean": "geometric_mean",
    }
    for words, name in together.items():
        sums = [record["together"][side][key.replace("ratio", name)] for side, key in columns]
        lines.append([f"**{words}**", *map(shown, sums)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(ratio: float) -> str:
    """Return a ratio, below the wanted one with a decimal."""
    return f"{ratio:.0f} ×" if ratio >= WANTED else f"{ratio:.1f} ×"


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
    words += ["\n", _jpeg(record)]
    for name, row in record["sizes"]["224"].items():
        if min(row["ratio"], row["clock_ratio"]) < WANTED and name != "jpeg_compression":
            words.append(
                f"A twentieth of the package's time for {name.replace('_', ' ')} is\n"
                f"{row['peer_us'] / WANTED:.0f} µs; ours takes {row['ours_us']:.0f} µs of one "
                f"processor and {row['ours_clock_us']:.0f} µs\nby the clock.\n"
            )
    return "".join(words)


def _jpeg(record: dict) -> str:
    """Say why JPEG cannot be twenty times as fast."""
    row, least = record["sizes"]["224"]["jpeg_compression"], record["floors"]["224"]
    package, library = row["peer_us"], least["libjpeg_us"]
    return (
        f"The package passes an image of 224 pixels through JPEG in {package:.0f} µs. For "
        f"{library:.0f} µs of them\nlibjpeg itself writes and reads the image, in vector code "
        f"written by hand; ours, which skips the\ncoding, takes {row['ours_us']:.0f} µs. A "
        f"twentieth of the package would be {package / WANTED:.0f} µs: to convert colours to luma "
        f"and\nchroma and back, and nothing else, takes {least['jpeg_colour_us']:.0f} µs here, "
        f"and to copy the image {least['copy_us']:.0f} µs.\n"
    )


TABLES = {"shifts.md": table, "shifts_floor.md": floor}

if __name__ == "__main__":
    for name, text in TABLES.items():
        (HERE / "tables" / name).write_text(text(), encoding="utf-8")
