"""How much three constants depend on the families they were chosen on.

    python experiments/labelfree/leave_one_out.py --cache DIR

For each family of at least ten shifts, the value that is best on the others is applied to it: of
STRETCH, by the mean absolute error of the estimated accuracy, and of TWICE, by the Brier score of
the map (times 1000, less that of the best value). Both are written beside the shipped value, and
with TWICE the ratio of errors that it stands for. Of MOVED, by the likelihood of what the map's
confidence misses, with the models of `unseen` that were looked at as families too, and beside it
how often the 90 % interval covers.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import scenarios
from scipy.optimize import minimize_scalar
from temperance._core.sample import Sample
from temperance.calibrate.audit import Z90
from temperance.methods.evidence import (
    STRETCH,
    Evidence,
    believe,
    gather_evidence,
    log_odds,
    undo,
)
from temperance.methods.source import SourceProfile
from unseen import LOOKED_AT, MODELS

import temperance as tp
from temperance.calibrate.uncertainty import MOVED, around, standard_error
from temperance.methods import prior_matched

if TYPE_CHECKING:
    from scenarios import Scenario

STRETCHES = np.round(np.arange(0.9, 1.75, 0.1), 2)
WEIGHTS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0])
MENDED = 0.3  # of the bias, or more, is kept where the share of mended rows is worth a look


def accuracies(s: Scenario, seen: Evidence, profile: SourceProfile) -> list[float]:
    """Return the error of the estimated accuracy for each value of STRETCH."""
    truth = float((s.target.argmax(axis=1) == s.labels).mean())
    others = [seen.estimates["typical"], seen.estimates["histogram"]]
    sample = Sample(s.target)
    undone = undo(sample, s.prior, seen.shrink, profile)
    said = sample.beliefs(*undone)
    believed = [believe(said, profile, value) for value in STRETCHES]
    return [abs(float(np.median([*others, b])) - truth) for b in believed]


def scores(s: Scenario, seen: Evidence, profile: SourceProfile) -> list[float]:
    """Return the Brier score of the map for each value of TWICE."""
    (z, y), sample, out = s.held_out, Sample(s.target), []
    for value in WEIGHTS:
        with mock.patch.object(prior_matched, "TWICE", value):
            t, b = prior_matched.solve(sample, s.prior, profile, seen, bias=True)
        out.append(1000 * tp.metrics.brier(z / t + b, y, per_class=False))
    return out


def misses(s: Scenario, seen: Evidence, profile: SourceProfile) -> tuple[float, float] | None:
    """Return the log-odds by which accuracy before the map and share of mended rows are off."""
    if seen.mended is None or seen.shrink < MENDED:
        return None
    t, b = undo(Sample(s.target), s.prior, seen.shrink, profile)
    before, after = (
        float((u.argmax(axis=1) == s.labels).mean()) for u in (s.target, s.target / t + b)
    )
    return log_odds(seen.accuracy) - log_odds(before), log_odds(seen.mended) - log_odds(after)


def after_the_bias(s: Scenario) -> tuple[float, float, float]:
    """Return how many predictions the bias changes, and how the map's confidence errs after it.

    That is, of its log-odds, the standard error as if only the accuracy before were unknown, and
    the error.
    """
    profile, sample = SourceProfile.of(*s.source, s.prior), Sample(s.target)
    seen = gather_evidence(sample, s.prior, profile)
    accuracy = around(seen.accuracy, standard_error(seen, profile, len(sample), 0.0))
    solved = [
        prior_matched.solve(sample, s.prior, profile, seen.at(a), bias=True) for a in accuracy
    ]
    t, b = solved[0]
    middle, low, high = (log_odds(sample.beliefs(*one).sure) for one in solved)
    moved = float(((s.target / t + b).argmax(axis=1) != sample.predicted).mean())
    z, y = s.held_out
    truth = log_odds(float(((z / t + b).argmax(axis=1) == y).mean()))
    return moved, (high - low) / (2 * Z90), truth - middle


def likely(families: list[np.ndarray]) -> float:
    """Return the most likely value of MOVED, every family counting the same."""

    def loss(value: float) -> float:
        total = 0.0
        for share, error, miss in families:
            variance = error**2 + (value * share) ** 2
            total += float(np.mean(np.log(variance) + miss**2 / variance))
        return total

    return float(minimize_scalar(loss, bounds=(0, 5), method="bounded").x)


def covered(family: np.ndarray, value: float) -> float:
    """Return how often the interval holds what it should."""
    share, error, miss = family
    return float(np.mean(np.abs(miss) <= Z90 * np.hypot(error, value * share)))


def moved_apart(cache: Path, data_dir: Path, large: list[str]) -> dict[str, Any]:
    """Return the study of MOVED."""
    found = {family: scenarios.load(family, cache, data_dir, None)[0] for family in large}
    for name in list(MODELS)[:LOOKED_AT]:
        found[name] = list(scenarios.read(name, cache / f"unseen_{name}.npz"))
    misses = {
        family: np.transpose([after_the_bias(s) for s in suite]) for family, suite in found.items()
    }
    return {
        family: {
            "best_here": round(likely([own]), 2),
            "best_on_others": round(likely([v for f, v in misses.items() if f != family]), 2),
            "covered_without": round(covered(own, 0.0), 3),
            "covered_as_shipped": round(covered(own, MOVED), 3),
        }
        for family, own in misses.items()
    }


def study(family: str, cache: Path, data_dir: Path) -> dict[str, Any]:
    """Return what each value costs in a family."""
    found: dict[str, list[Any]] = {"stretch": [], "twice": [], "misses": []}
    for s in scenarios.load(family, cache, data_dir, None)[0]:
        profile = SourceProfile.of(*s.source, s.prior)
        seen = gather_evidence(Sample(s.target), s.prior, profile)
        found["stretch"].append(accuracies(s, seen, profile))
        found["twice"].append(scores(s, seen, profile))
        found["misses"].append(misses(s, seen, profile))
    before, after = np.transpose([pair for pair in found["misses"] if pair is not None])
    ratio = float(np.sqrt(np.mean(after**2) / np.mean(before**2)))
    costs = {name: np.mean(found[name], axis=0) for name in ("stretch", "twice")}
    return {
        "stretch": costs["stretch"],
        "twice": costs["twice"] - costs["twice"].min(),
        "ratio": ratio,
    }


def left_out(table: dict[str, Any], grid: np.ndarray, shipped: float) -> dict[str, Any]:
    """Return, family by family, the best value there, on the others, and what each costs."""
    record = {}
    for family, own in table.items():
        others = np.mean([row for name, row in table.items() if name != family], axis=0)
        chosen = int(np.argmin(others))
        record[family] = {
            "best_here": float(grid[int(np.argmin(own))]),
            "best_on_others": float(grid[chosen]),
            "error_with_best_here": round(float(own.min()), 4),
            "error_with_best_on_others": round(float(own[chosen]), 4),
            "error_as_shipped": round(float(own[int(np.argmin(np.abs(grid - shipped)))]), 4),
        }
        print(family, record[family])
    return record


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    data_dir = Path(os.environ["TEMPERANCE_DATA"])
    large = [f for f in scenarios.FAMILIES if f not in {"skin_lesions", "svhn_to_mnist"}]
    found = {family: study(family, arguments.cache, data_dir) for family in large}
    twice = prior_matched.TWICE
    stretches = left_out({f: v["stretch"] for f, v in found.items()}, STRETCHES, STRETCH)
    weights = left_out({f: v["twice"] for f, v in found.items()}, WEIGHTS, twice)
    for family, facts in weights.items():
        facts["ratio_of_errors"] = round(found[family]["ratio"], 2)
    moved = moved_apart(arguments.cache, data_dir, large)
    print(moved)
    record = {"stretch": STRETCH, "families": stretches, "twice": twice, "mended": weights}
    record["moved"] = moved
    path = Path(__file__).parent / "records" / "leave_one_out.json"
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
