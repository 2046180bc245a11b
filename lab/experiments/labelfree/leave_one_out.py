"""Fitted constants, each judged on families that did not choose it.

    python experiments/labelfree/leave_one_out.py --cache DIR [--every 4] [--jobs 2]

Targets are those of `settings`. One constant of ``temperance.calibrate.constants`` at a time is
multiplied by each of `FACTORS`, the others stay as shipped. For every family the factor is taken
that has the least mean Brier regret over all *other* families, in the settings that the constant
acts on, and the family is judged with that factor. The record has, for each constant, the mean
regret as shipped, the mean regret with the factors that the others chose, the regret by factor, and
how often each factor was chosen. A constant is worth its place where the regret as shipped is near
the least; it is fitted too closely where the regret of the others' choice is much larger.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import settings

import temperance as tp

FACTORS = (0.1, 0.5, 0.8, 1.0, 1.25, 2.0)
LABELS = 30
MIX, NONE, BLIND = "exact mix", "no mix", "no source"
ROUGH, FEW_MIX, FEW = "mix of 100 rows", "exact mix, labels", "no mix, labels"
CONSTANTS: dict[str, tuple[str, ...]] = {
    "calibrated": (MIX, ROUGH),
    "rescaled": (MIX, ROUGH),
    "shifted": (MIX, ROUGH),
    "offset": (MIX, ROUGH),
    "lower": (NONE, MIX),
    "skew": (MIX, NONE, BLIND),
    "stretch": (MIX, ROUGH),
    "histogram": (MIX, ROUGH),
    "variance": (MIX, NONE),
    "growth": (MIX,),
    "growth_without_mix": (NONE,),
    "variance_without_source": (BLIND,),
    "own": (BLIND,),
    "mix_odds": (MIX, ROUGH),
    "mix_slope": (MIX, ROUGH),
    "mix_shift": (MIX, ROUGH),
    "mix_distance": (MIX, ROUGH),
    "repeated_mix": (NONE,),
    "allowed_mix": (FEW,),
    "temperature_error": (FEW_MIX, FEW),
    "bias_error": (FEW,),
    "robustness": (FEW_MIX, FEW),
    "width_evidence": (FEW,),
}
WEIGHTS = ("calibrated", "rescaled", "shifted")  # which always sum to one
SHARES = ("lower", "own", "allowed_mix")  # which stay below one
RECORD = Path(__file__).parent / "records" / "leave_one_out.json"


def change(name: str, factor: float) -> dict[str, float]:
    """Return the fitted constants that a factor changes, with their new values."""
    shipped = importlib.import_module("temperance.calibrate.constants").Fitted()
    value = factor * getattr(shipped, name)
    if name not in WEIGHTS:
        return {name: min(value, 0.95) if name in SHARES else value}
    parts = {part: getattr(shipped, part) for part in WEIGHTS} | {name: value}
    return {part: share / sum(parts.values()) for part, share in parts.items()}


def judge(target: settings.Target) -> dict[str, Any]:
    """Return the regret of one target by constant and factor."""
    constants = importlib.import_module("temperance.calibrate.constants")
    shipped, used = constants.Fitted(), constants.FITTED
    z, y, source = target.logits, target.labels, target.source
    best = settings.brier(settings.temperature(z, y).predict_proba(z), y)
    seed = np.random.default_rng(zlib.crc32(f"{target.family} {target.shift}".encode()))
    exact, counted = target.mix(y), seed.multinomial(100, target.mix(y)) / 100
    rows = seed.permutation(len(y))[:LABELS]
    few = z[rows], y[rows]
    known: dict[str, dict[str, Any]] = {
        MIX: {"prior": exact, "source": source},
        ROUGH: {"prior": tp.about(counted, rows=100), "source": source},
        NONE: {"source": source},
        BLIND: {"prior": exact},
        FEW_MIX: {"prior": exact, "source": source, "labelled": few},
        FEW: {"source": source, "labelled": few},
    }

    def regret(name: str) -> float:
        return settings.brier(tp.calibrate(z, **known[name]).predict_proba(z), y) - best

    plain = {name: regret(name) for name in known}
    found: dict[str, list[float]] = {}
    for constant, acts_on in CONSTANTS.items():
        found[constant] = []
        for factor in FACTORS:
            values = change(constant, factor)
            for name, value in values.items():
                object.__setattr__(used, name, value)
            same = all(value == getattr(shipped, name) for name, value in values.items())
            regrets = [plain[name] if same else regret(name) for name in acts_on]
            found[constant].append(float(np.mean(regrets)))
            for name in values:
                object.__setattr__(used, name, getattr(shipped, name))
    return {"family": target.family, "regret": found}


def summarise(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the other families choose for each family, and what that costs."""
    families = sorted({one["family"] for one in found})
    out: dict[str, Any] = {}
    for constant in CONSTANTS:
        table = np.array(
            [
                np.mean([o["regret"][constant] for o in found if o["family"] == f], axis=0)
                for f in families
            ]
        )
        others = [np.delete(table, i, axis=0).mean(axis=0) for i in range(len(families))]
        chosen = [int(np.argmin(mean)) for mean in others]
        times = Counter(FACTORS[c] for c in chosen)
        out[constant] = {
            "shipped": round(float(table[:, FACTORS.index(1.0)].mean()), 2),
            "left_out": round(float(np.mean([table[i, c] for i, c in enumerate(chosen)])), 2),
            "by_factor": np.round(table.mean(axis=0), 2).tolist(),
            "chosen": {str(factor): times[factor] for factor in FACTORS if times[factor]},
        }
    return out


def main() -> None:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--every", type=int, default=4, help="take every so many-th set")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    arguments = parser.parse_args()
    data = Path(os.environ["TEMPERANCE_DATA"])
    sets = list(settings.targets(arguments.cache, data, arguments.stride))[:: arguments.every]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(judge, sets))
    record: dict[str, Any] = {"version": tp.__version__, "sets": len(sets), "factors": FACTORS}
    record["constants"] = summarise(found)
    print(f"{'':26s} shipped  left out   by factor {FACTORS}")
    for name, one in record["constants"].items():
        print(f"{name:26s}{one['shipped']:8.1f}{one['left_out']:10.1f}   ", one["by_factor"])
    arguments.record.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
