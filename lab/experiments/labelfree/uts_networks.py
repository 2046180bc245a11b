"""UTS on six unshifted CIFAR networks: the gap to labelled temperature scaling that it closes.

And the paper's own protocol on its authors' logits: draws of 2,000 rows, random or stratified, the
exact counts of the draw as prior, all rows of the draw at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp

if TYPE_CHECKING:
    from pathlib import Path

NETWORKS = (
    "cifar10_densenet40",
    "cifar10_resnet56",
    "cifar10_vgg16_bn",
    "cifar100_densenet40",
    "cifar100_resnet56",
    "cifar100_vgg16_bn",
)
SEEDS = range(5)
DRAWS = range(200)
ROWS = 2_000


def read(data_dir: Path, name: str) -> tuple[Any, Any]:
    """Return test logits and labels of a network."""
    with np.load(data_dir / "logits" / f"{name}.npz") as data:
        prefix = "test_" if "test_logits" in data.files else ""
        return data[f"{prefix}logits"].astype(np.float64), data[f"{prefix}labels"].astype(np.int64)


def measure(data_dir: Path) -> dict[str, Any]:
    """Fit on 2,000 rows with a uniform prior, judge on the others; T from all rows beside it."""
    return {name: _measure(*read(data_dir, name)) for name in NETWORKS}


def _measure(z: Any, y: Any) -> dict[str, Any]:
    k = z.shape[1]
    q = np.full(k, 1 / k)
    rows = []
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(y))
        here, there = order[:ROWS], order[ROWS:]
        maps = {
            "uncalibrated": tp.Temperature(1.0),
            "uts": tp.fit_uts(z[here], q),
            "ts": tp.fit_temperature(z[here], y[here]),
        }
        row = {name: tp.metrics.nll(np.asarray(m(z[there])), y[there]) for name, m in maps.items()}
        rows.append(row | {f"t_{name}": m.temperature for name, m in maps.items()})
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    whole = [tp.fit_uts(z, q, seed=seed).temperature for seed in SEEDS]
    return {
        "nll": {name: mean[name] for name in ("uncalibrated", "uts", "ts")},
        "gap_closed": (mean["uncalibrated"] - mean["uts"]) / (mean["uncalibrated"] - mean["ts"]),
        "temperature": {"ts": mean["t_ts"], "uts": mean["t_uts"], "uts_all_rows": np.mean(whole)},
        "spread": {
            "uts": float(np.std([row["t_uts"] for row in rows])),
            "uts_all_rows": float(np.std(whole)),
        },
    }


def protocol(data_dir: Path) -> dict[str, Any]:
    """Return mean, spread and standard error of T, NLL and ECE over the draws."""
    z, y = read(data_dir, "cifar100_densenet40")
    found = {}
    for kind, draw in {"random": _random, "stratified": _stratified}.items():
        rows = np.array([_judged(z, y, draw(y, np.random.default_rng(seed))) for seed in DRAWS])
        names = ("temperature", "nll", "ece")
        found[kind] = {
            name: {
                "mean": float(column.mean()),
                "spread": float(column.std(ddof=1)),
                "first_20": float(column[:20].mean()),
            }
            for name, column in zip(names, rows.T, strict=True)
        }
    return {"draws": len(DRAWS), "rows": ROWS, **found}


def _random(y: Any, rng: np.random.Generator) -> Any:
    return rng.permutation(len(y))[:ROWS]


def _stratified(y: Any, rng: np.random.Generator) -> Any:
    each = ROWS // (int(y.max()) + 1)
    return np.concatenate([rng.permutation(np.flatnonzero(y == k))[:each] for k in np.unique(y)])


def _judged(z: Any, y: Any, here: Any) -> tuple[float, float, float]:
    there = np.setdiff1d(np.arange(len(y)), here)
    t = tp.fit_uts(z[here], np.bincount(y[here], minlength=z.shape[1]) / len(here), bag_size=None)
    after = tp.metrics.evaluate(np.asarray(t(z[there])), y[there])
    return t.temperature, after.nll, after.ece
