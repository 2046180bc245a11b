"""The item "label-noise", with --cache DIR: see temperance.reproduce.experiment."""

from __future__ import annotations

from pathlib import Path

from temperance.reproduce.experiment import main

if __name__ == "__main__":
    main("label-noise", Path(__file__).parent)
