"""The verdict on simulated shifts, in both regimes of tests/scenes.py, with seeds not yet seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp

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
    verdicts, right, covered = [], [], []
    for seed in range(scenes.UNSEEN, scenes.UNSEEN + SHIFTS):
        s = scenes.any_shift(seed, overconfident=overconfident)
        cal = tp.calibrate(s.target, prior=s.prior, source=s.source)
        z, y = s.held_out
        low, high = cal.facts["accuracy_before"][1:]
        verdicts.append(cal.verdict)
        right.append(tp.metrics.ece(np.asarray(cal.map(z)), y) < tp.metrics.ece(z, y))
        covered.append(low <= tp.metrics.accuracy(z, y) <= high)
    improved = np.array(verdicts) == "improved"
    return {
        "shifts": SHIFTS,
        **{v: verdicts.count(v) for v in ("improved", "no-evidence", "refused")},
        "improved_right": float(np.mean(np.array(right)[improved])),
        "accuracy_covered": float(np.mean(covered)),
    }
