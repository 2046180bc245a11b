"""One class against the rest: the shifts of the suite as questions with two answers.

    python experiments/labelfree/two_classes.py --cache DIR

A model of K classes says yes to class k with odds p_k / (1 - p_k). On every sixth shift two classes
are asked for, rare as one class in ten is; regret is that against the labelled temperature.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import front_door
import numpy as np
import scenarios
from methods import METHODS
from run import judge, show, summarise, write
from scipy.special import logsumexp

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenarios import Scenario

EVERY = 6
LEAST = 10  # rows of the class, in the source and in the target


def against_the_rest(z: Any, y: Any, k: int) -> tuple[Any, Any]:
    """Return logits and labels of the question whether a row is of class k."""
    rest = logsumexp(np.delete(z, k, axis=1), axis=1)
    return np.stack([rest, z[:, k]], axis=1), (y == k).astype(np.int64)


def questions(number: int, s: Scenario) -> Iterator[Scenario]:
    """Yield the questions that are asked on one shift."""
    for j in range(2):
        k = (3 * number + j) % len(s.prior)
        source = against_the_rest(*s.source, k)
        target, labels = against_the_rest(s.target, s.labels, k)
        if min(source[1].sum(), labels.sum()) < LEAST:
            continue
        yield replace(
            s,
            shift=f"{s.shift}, class {k}",
            source=source,
            target=target,
            labels=labels,
            held_out=against_the_rest(*s.held_out, k),
            prior=np.array([1 - s.prior[k], s.prior[k]]),
        )


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    records = []
    for family in scenarios.FAMILIES:
        suite = scenarios.load(family, arguments.cache, Path(os.environ["TEMPERANCE_DATA"]), None)[
            0
        ]
        some = suite[::EVERY] if len(suite) > EVERY else suite
        asked = [q for number, s in enumerate(some) for q in questions(number, s)]
        shifts = {s.shift: {m: judge(fit(s), s) for m, fit in METHODS.items()} for s in asked}
        door = front_door.judge(asked)
        records.append({"family": family, "summary": summarise(shifts), "front_door": door})
        show(family, records[-1]["summary"])
    summary = {
        "version": tp.__version__,
        "models": {r["family"]: r["summary"] for r in records},
        "front_door": front_door.summarise(records),
    }
    write(Path(__file__).parent / "records" / "two_classes.json", summary)
    print(summary["front_door"]["over_all"])


if __name__ == "__main__":
    main()
