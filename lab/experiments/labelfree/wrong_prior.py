"""What a class mix that is only roughly known does: to the map, and to the verdict.

    python experiments/labelfree/wrong_prior.py --cache DIR

On every third shift of each family the prior is what a count of a few rows of the target would
give. It is handed over as if it were known, and as what it is, ``about(q, rows=...)``; or it is not
given, and estimated. The map of `fit_prior_matched` is judged on rows that it has not seen beside
the temperature of the source, and so is what `calibrate` says. With the right prior on all shifts
it is counted how often a prior is wrongly called contradicted.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scenarios
from methods import source_temperature
from run import measure, write

import temperance as tp

if TYPE_CHECKING:
    from scenarios import Scenario

COUNTED = (1000, 300, 100, 30, 10)
EVERY = 3
HARM = 5.0  # Brier x 1000 above the source's temperature


def judge(s: Scenario, prior: Any) -> dict[str, Any]:
    """Return the Brier score beside that of the source's temperature, and the verdict."""
    home = measure(source_temperature(s), s)["brier"]
    told = tp.estimate_prior(s.target, s.source) if prior is None else prior
    fitted = measure(tp.fit_prior_matched(s.target, told, s.source), s)["brier"]
    cal = tp.calibrate(s.target, prior, s.source)
    given = measure(cal.map, s)
    return {
        "fitted": fitted - home,
        "given": given["brier"] - home,
        "verdict": cal.verdict,
        "contradicted": any(finding.code == "TP106" for finding in cal.findings),
        "right": given["ece"] < measure(tp.Temperature(1.0), s)["ece"],
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return means and shares over shifts."""
    fitted = np.array([row["fitted"] for row in rows])
    kept = np.array([row["given"] for row in rows if row["verdict"] != "refused"])
    improved = [row["right"] for row in rows if row["verdict"] == "improved"]
    return {
        "shifts": len(rows),
        "brier_against_source": float(fitted.mean()),
        "worst": float(fitted.max()),
        "harmed": float((fitted > HARM).mean()),
        "contradicted": float(np.mean([row["contradicted"] for row in rows])),
        "refused": float(np.mean([row["verdict"] == "refused" for row in rows])),
        "improved": len(improved),
        "improved_right": float(np.mean(improved)) if improved else 1.0,
        "harmed_by_the_front_door": float((kept > HARM).mean()) if len(kept) else 0.0,
        "worst_by_the_front_door": float(kept.max()) if len(kept) else 0.0,
    }


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    data_dir = Path(os.environ["TEMPERANCE_DATA"])
    found: dict[str, list[dict[str, Any]]] = {}
    for family in scenarios.FAMILIES:
        suite = scenarios.load(family, arguments.cache, data_dir, None)[0]
        for number, s in enumerate(suite):
            found.setdefault("known", []).append(judge(s, s.prior))
            if number % EVERY:
                continue
            found.setdefault("estimated", []).append(judge(s, None))
            rng = np.random.default_rng(number)
            for n in COUNTED:
                q = rng.dirichlet(s.prior * n + 1e-9)  # what is left open by a count of n rows
                q = (q + 1e-6) / (q + 1e-6).sum()
                found.setdefault(f"{n}, as known", []).append(judge(s, q))
                found.setdefault(f"{n}, as about", []).append(judge(s, tp.about(q, rows=n)))
        print(family, flush=True)
    record = {"version": tp.__version__, "harm": HARM}
    record["by_rows"] = {name: summarise(rows) for name, rows in found.items()}
    write(Path(__file__).parent / "records" / "wrong_prior.json", record)
    for name, row in record["by_rows"].items():
        print(name, {key: round(value, 3) for key, value in row.items()})


if __name__ == "__main__":
    main()
