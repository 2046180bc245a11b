"""One folder of experiments/: its records and its figure, from what is cached or run now."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from temperance_lab.reproduce import ITEMS, Bench, run, stored
from temperance_lab.reproduce.figures import draw

__all__ = ["main"]


def main(name: str, folder: Path) -> None:
    """Run an item into ``folder``: records that are there are kept, unless --methods names them."""
    parser = argparse.ArgumentParser(description=ITEMS[name].title)
    parser.add_argument("--cache", type=Path, required=True, help="networks and logits are kept")
    parser.add_argument("--cells", default="", help="only groups whose name contains this")
    parser.add_argument("--methods", nargs="*", choices=ITEMS[name].methods, help="run these again")
    arguments = parser.parse_args()
    data = os.environ.get("TEMPERANCE_DATA")
    bench = Bench(arguments.cache, None if data is None else Path(data))
    options = {"cells": arguments.cells, "methods": arguments.methods}
    for group, some in run(name, bench, folder / "records", **options):
        print(f"{name}: {group}, {len(some)} records", flush=True)
    draw(name, stored(name, folder / "records"), folder / f"{folder.name}.png")
