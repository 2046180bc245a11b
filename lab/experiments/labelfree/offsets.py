"""Class offsets alone: public networks whose logits are moved, class by class.

    python experiments/labelfree/offsets.py

A third of the test rows is the source, a third the target, and a third judges. Each class gets an
offset, normal with a standard deviation of so many times that of the logits. The map that undoes it
is known: the bias takes the offset away, and the temperature is that of the source.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import front_door
import numpy as np
from methods import METHODS
from run import judge, write
from scenarios import Scenario
from uts_networks import NETWORKS, read

import temperance as tp

SIZES = (0.2, 0.5, 1.0)
SEEDS = range(4)
COMPARED = ("uncalibrated", "TS-source", "UTS", "prototype", "prior-matched", "TS-Target")


def moved(name: str, z: Any, y: Any, size: float, seed: int) -> Scenario:
    """Return one network with one offset."""
    rng = np.random.default_rng(seed)
    source, target, rest = np.array_split(rng.permutation(len(y)), 3)
    offset = size * z.std() * rng.normal(size=z.shape[1])
    return Scenario(
        family=name,
        shift=f"{size:g}, draw {seed}",
        source=(z[source], y[source]),
        target=z[target] + offset,
        labels=y[target],
        held_out=(z[rest] + offset, y[rest]),
        prior=np.bincount(y[target], minlength=z.shape[1]) / len(target),
    )


def summarise(suite: list[Scenario]) -> dict[str, Any]:
    """Return means over the draws of one size: each method, and what the front door said."""
    facts = {m: [judge(METHODS[m](s), s) for s in suite] for m in COMPARED}
    means = {
        m: {key: float(np.mean([f[key] for f in found])) for key in found[0]}
        for m, found in facts.items()
    }
    return means | {"front_door": list(front_door.judge(suite).values())}


def main() -> None:
    """Write the record."""
    data_dir = Path(os.environ["TEMPERANCE_DATA"])
    networks: dict[str, Any] = {}
    for name in (*NETWORKS, "birds_efficientnet_lite0"):
        z, y = read(data_dir, name)
        networks[name] = {
            f"{size:g}": summarise([moved(name, z, y, size, seed) for seed in SEEDS])
            for size in SIZES
        }
        for size, found in networks[name].items():
            print(name, size, {m: round(found[m]["ece"], 3) for m in COMPARED}, flush=True)
    record = {"version": tp.__version__, "seeds": list(SEEDS), "networks": networks}
    write(Path(__file__).parent / "records" / "offsets.json", record)


if __name__ == "__main__":
    main()
