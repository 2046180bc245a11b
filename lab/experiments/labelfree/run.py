"""Regret of every label-free method against the labelled temperature, family by family.

    python experiments/labelfree/run.py --cache DIR [--nets DIR] [--families NAME ...]
                                        [--methods NAME ...]

rebuilds the suite (networks are trained, or loaded from --nets; logits that are in --cache are used
as they are), fits every method on unlabelled target rows, judges it on other target rows, prints
the tables, and writes one record (JSON) a family, the summary, what the front door said of each
shift, and the figures. TEMPERANCE_DATA names the shared data.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import figures
import front_door
import numpy as np
import scenarios
import simulated
import uts_networks
from methods import METHODS

import temperance as tp

if TYPE_CHECKING:
    from scenarios import Scenario

    from temperance.maps import Map

HERE = Path(__file__).parent
SEED = 0
MEASURES = ("brier", "nll", "ece", "accuracy")
REFERENCE = "TS-Target"


def measure(fitted: Map, s: Scenario) -> dict[str, float]:
    """Return Brier score (sum over classes, times 1000), NLL, ECE and accuracy of a map."""
    z, y = s.held_out
    result = tp.metrics.evaluate(np.asarray(fitted(z)), y)
    return {
        "brier": 1000 * z.shape[1] * result.brier,
        "nll": result.nll,
        "ece": result.ece,
        "accuracy": result.accuracy,
    }


def run_family(
    family: str, cache: Path, data_dir: Path, nets: Path | None, known: dict[str, Any]
) -> dict[str, Any]:
    """Return the record of a family; what is known of a shift already is kept."""
    suite, digest = scenarios.load(family, cache, data_dir, nets)
    shifts: dict[str, Any] = {}
    for s in suite:
        shifts[s.shift] = dict.fromkeys(METHODS) | known.get("shifts", {}).get(s.shift, {})
        for name, facts in shifts[s.shift].items():
            if facts is None:
                shifts[s.shift][name] = judge(METHODS[name](s), s)
    return {
        "family": family,
        "data": digest,
        "seed": SEED,
        "version": tp.__version__,
        "rows": {"source": len(suite[0].source[1]), "target": len(suite[0].labels)},
        "summary": summarise(shifts),
        "front_door": known.get("front_door") or front_door.judge(suite),
        "shifts": shifts,
    }


def judge(fitted: Map, s: Scenario) -> dict[str, float]:
    """Return what is recorded of a map."""
    facts = measure(fitted, s) | {"temperature": float(fitted.parameters()["temperature"])}
    return {key: round(value, 6) for key, value in facts.items()}


def recorded(path: Path, anew: list[str]) -> dict[str, Any]:
    """Return the record of a family without some methods, or nothing if all are to be fitted."""
    if set(anew) == set(METHODS) or not path.exists():
        return {}
    known = json.loads(path.read_text(encoding="utf-8"))
    if "prior-matched" in anew:  # the front door gives this map
        known.pop("front_door", None)
    for facts in known["shifts"].values():
        for name in anew:
            facts.pop(name, None)
    return known


def summarise(shifts: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Mean over shifts: regret in Brier and NLL, ECE and its regret, gain of accuracy in points."""
    out: dict[str, dict[str, float]] = {}
    for name in METHODS:
        facts = {m: np.array([s[name][m] for s in shifts.values()]) for m in MEASURES}
        bound = {m: np.array([s[REFERENCE][m] for s in shifts.values()]) for m in MEASURES}
        source = np.array([s["TS-source"]["brier"] for s in shifts.values()])
        out[name] = {
            "brier_regret": float((facts["brier"] - bound["brier"]).mean()),
            "nll_regret": float((facts["nll"] - bound["nll"]).mean()),
            "ece_regret": float((facts["ece"] - bound["ece"]).mean()),
            "ece": float(facts["ece"].mean()),
            "accuracy_gain": 100 * float((facts["accuracy"] - bound["accuracy"]).mean()),
            "worst_against_source": float((facts["brier"] - source).max()),
        }
        if "clean" in shifts:
            clean = shifts["clean"]
            out[name]["unshifted"] = clean[name]["brier"] - clean[REFERENCE]["brier"]
    return out


def mean_over(records: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean of the summaries of families, each family counted once."""
    keys = ("brier_regret", "nll_regret", "ece_regret", "ece", "accuracy_gain")
    return {
        name: {key: float(np.mean([r["summary"][name][key] for r in records])) for key in keys}
        for name in METHODS
    }


def show(title: str, summary: dict[str, dict[str, float]]) -> None:
    """Print one table."""
    print(f"\n{title}\n{'':34s}{'Brier':>9s}{'NLL':>9s}{'ECE':>8s}{'(ECE)':>8s}{'acc.':>7s}")
    for name, row in summary.items():
        print(
            f"{name:34s}{row['brier_regret']:+9.1f}{row['nll_regret']:+9.3f}"
            f"{row['ece_regret']:+8.3f}{row['ece']:8.3f}{row['accuracy_gain']:+7.1f}"
        )


def write(path: Path, facts: dict[str, Any]) -> None:
    """Write a record whole."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True, help="logits, written if missing")
    parser.add_argument("--nets", type=Path, help="trained networks; without it they are trained")
    parser.add_argument("--families", nargs="*", default=scenarios.FAMILIES)
    parser.add_argument(
        "--methods",
        nargs="*",
        default=list(METHODS),
        choices=list(METHODS),
        help="fit these anew; all else, with the verdicts, stays as recorded",
    )
    parser.add_argument("--records", type=Path, default=HERE / "records")
    arguments = parser.parse_args()
    data_dir = Path(os.environ["TEMPERANCE_DATA"])
    arguments.records.mkdir(parents=True, exist_ok=True)
    for family in arguments.families:
        path = arguments.records / f"{family}.json"
        known = recorded(path, arguments.methods)
        record = run_family(family, arguments.cache, data_dir, arguments.nets, known)
        write(path, record)
        show(
            f"{family}: {len(record['shifts'])} shifts, regret against TS-Target", record["summary"]
        )
    if arguments.methods == list(METHODS):
        write(arguments.records / "simulated.json", simulated.measure())
        write(arguments.records / "uts_networks.json", uts_networks.measure(data_dir))
        write(arguments.records / "uts_protocol.json", uts_networks.protocol(data_dir))
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for family in scenarios.FAMILIES
        if (path := arguments.records / f"{family}.json").exists()
    ]
    asked = [r for r in records if r["family"] in scenarios.ASKED]
    summary = {
        "families": [r["family"] for r in records],
        "data": {r["family"]: r["data"] for r in records},
        "seed": SEED,
        "version": tp.__version__,
        "over_families": mean_over(records),
        "over_shared_data_families": mean_over(asked),
        "front_door": front_door.summarise(records),
    }
    write(arguments.records / "summary.json", summary)
    show(f"mean over {len(records)} families", summary["over_families"])
    show(f"mean over the {len(asked)} of the shared data", summary["over_shared_data_families"])
    print("\nfront door:", json.dumps(summary["front_door"]["over_all"], indent=1))
    figures.regret_by_family(records, arguments.records.parent / "regret.png")
    figures.verdicts(records, arguments.records.parent / "front_door.png")


if __name__ == "__main__":
    main()
