"""The verdict on simulated shifts, in both regimes of tests/scenes.py, with seeds not yet seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import front_door

sys.path.append(str(Path(__file__).parents[2] / "tests"))
import scenes

SHIFTS = 325  # of each regime; with the suite more than 1,000 scenarios


def measure() -> dict[str, Any]:
    """Return counts of verdicts and the share of right ones, by regime."""
    return {
        "any sharpness": _regime(overconfident=False),
        "overconfident at home": _regime(overconfident=True),
    }


def _regime(*, overconfident: bool) -> dict[str, Any]:
    seeds = range(scenes.UNSEEN, scenes.UNSEEN + SHIFTS)
    found = (scenes.any_shift(seed, overconfident=overconfident) for seed in seeds)
    return front_door.shares([front_door.judge_one(s) for s in found])
