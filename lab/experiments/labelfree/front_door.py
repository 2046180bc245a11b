"""What `calibrate` said of each shift, and whether it was so on rows that it did not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp

if TYPE_CHECKING:
    from scenarios import Scenario

    from temperance.maps import Map

ROUNDING = 0.005  # an ECE of some thousand held-out rows is itself no better known
COVERED = ("accuracy_before", "accuracy", "temperature", "ece_before", "ece_after")


def judge(suite: list[Scenario]) -> dict[str, Any]:
    """Return verdicts and truths by shift."""
    return {s.shift: judge_one(s) for s in suite}


def judge_one(s: Scenario) -> dict[str, Any]:
    """Return verdict and truth of one shift."""
    cal = tp.calibrate(s.target, prior=s.prior, source=s.source)
    z, y = s.held_out
    before, after = (tp.metrics.evaluate(u, y) for u in (z, np.asarray(cal.map(z))))
    source = tp.metrics.evaluate(np.asarray(_at_home(s)(z)), y)
    # The temperature that is best for the map as it is: its bias stays, labels decide the rest.
    bias = np.asarray(cal.map.parameters().get("bias", np.zeros(z.shape[1])))
    truth = {
        "accuracy_before": before.accuracy,
        "accuracy": after.accuracy,
        "temperature": best_temperature(s.target, s.labels, bias),
        "ece_before": before.ece,
        "ece_after": after.ece,
    }
    believed = {name: list(getattr(cal, name)) for name in COVERED[1:]}
    believed["accuracy_before"] = list(cal.details["accuracy_before"])
    slack = {name: ROUNDING if name.startswith("ece") else 0.0 for name in COVERED}
    return {
        "verdict": cal.verdict,
        "codes": [finding.code for finding in cal.findings],
        "right": bool(after.ece < before.ece),
        "better": bool(after.brier < before.brier),
        "brier_against_source": 1000 * z.shape[1] * (after.brier - source.brier),
        "truth": truth,
        "believed": believed,
        "covered": {
            name: bool(
                believed[name][1] - slack[name] <= truth[name] <= believed[name][2] + slack[name]
            )
            for name in COVERED
        },
    }


def _at_home(s: Scenario) -> Map:
    """Return the source's temperature, where it has one."""
    try:
        return tp.fit_temperature(*s.source)
    except tp.NotIdentified:
        return tp.maps.IDENTITY


def best_temperature(z: Any, y: Any, bias: Any) -> float:
    """Return argmin_T of the NLL of z/T + b."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    rows = np.arange(len(y))

    def loss(log_t: float) -> float:
        u = z / np.exp(log_t) + bias
        return float(np.mean(logsumexp(u, axis=1) - u[rows, y]))

    return float(np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x))


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return shares of right verdicts and of covering intervals, by family and over all shifts."""
    by_family = {r["family"]: shares(list(r["front_door"].values())) for r in records}
    everything = [v for r in records for v in r["front_door"].values()]
    return {"by_family": by_family, "over_all": shares(everything)}


def _rates(improved: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how often "improved" was right: in all, in the Brier score, without reservation."""
    certain = [v for v in improved if "TP404" not in v["codes"]]
    return {
        "improved_right": float(np.mean([v["right"] for v in improved])) if improved else None,
        "improved_better": float(np.mean([v["better"] for v in improved])) if improved else None,
        "certain": len(certain),
        "certain_right": float(np.mean([v["right"] for v in certain])) if certain else None,
    }


def shares(verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts of verdicts, and shares of right ones and of intervals that cover."""
    improved = [v for v in verdicts if v["verdict"] == "improved"]
    return {
        "shifts": len(verdicts),
        "improved": len(improved),
        **_rates(improved),
        "no_evidence": sum(v["verdict"] == "no-evidence" for v in verdicts),
        "refused": sum(v["verdict"] == "refused" for v in verdicts),
        "worst_brier_against_source": max(v["brier_against_source"] for v in verdicts),
        "coverage": {
            name: float(np.mean([v["covered"][name] for v in verdicts])) for name in COVERED
        },
    }
