"""UTS on six unshifted CIFAR networks: the gap to labelled temperature scaling that it closes."""

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
