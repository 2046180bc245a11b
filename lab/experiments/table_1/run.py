"""The item "table-1", with --cache DIR: see temperance_lab.reproduce.experiment."""

from __future__ import annotations

from pathlib import Path

from temperance_lab.reproduce.experiment import main

if __name__ == "__main__":
    main("table-1", Path(__file__).parent)
