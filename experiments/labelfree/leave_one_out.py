"""How much the constant STRETCH depends on the families it was chosen on.

    python experiments/labelfree/leave_one_out.py --cache DIR

For each family of at least ten shifts, the value that is best on the others is applied to it; its
mean absolute error of the estimated accuracy is written beside that of the shipped value.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import scenarios

from temperance.labelfree.evidence import STRETCH, believe, gather_evidence, undo
from temperance.labelfree.profile import SourceProfile

GRID = np.round(np.arange(0.9, 1.75, 0.1), 2)


def errors(family: str, cache: Path, data_dir: Path) -> np.ndarray:
    """Mean absolute error of the estimated accuracy for each value of the grid."""
    table = []
    for s in scenarios.load(family, cache, data_dir, None)[0]:
        profile = SourceProfile.of(*s.source, s.prior)
        seen = gather_evidence(s.target, s.prior, profile)
        truth = float((s.target.argmax(axis=1) == s.labels).mean())
        others = [seen.estimates["typical"], seen.estimates["histogram"]]
        undone = undo(s.target, s.prior, seen.shrink, profile)
        believed = [believe(s.target, *undone, profile, value) for value in GRID]
        table.append([abs(np.median([*others, b]) - truth) for b in believed])
    return np.mean(table, axis=0)


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    data_dir = Path(os.environ["TEMPERANCE_DATA"])
    large = [f for f in scenarios.FAMILIES if f not in {"skin_lesions", "svhn_to_mnist"}]
    table = {family: errors(family, arguments.cache, data_dir) for family in large}
    shipped = int(np.argmin(np.abs(GRID - STRETCH)))
    record = {}
    for family, own in table.items():
        others = np.mean([row for name, row in table.items() if name != family], axis=0)
        chosen = int(np.argmin(others))
        record[family] = {
            "best_here": float(GRID[int(np.argmin(own))]),
            "best_on_others": float(GRID[chosen]),
            "error_with_best_here": round(float(own.min()), 4),
            "error_with_best_on_others": round(float(own[chosen]), 4),
            "error_as_shipped": round(float(own[shipped]), 4),
        }
        print(family, record[family])
    path = Path(__file__).parent / "records" / "leave_one_out.json"
    path.write_text(json.dumps({"stretch": STRETCH, "families": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
