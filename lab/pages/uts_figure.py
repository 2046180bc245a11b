"""Draw docs/figures/uts_objective.png: J(1/w) in its three forms, from the authors' own logits."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from temperance.data import as_rows
from temperance.methods.uts import Shortfall, weight_objective

FORMS = {
    "reference": "What the authors ran",
    "appendix": "Printed, appendix weights",
    "paper": "Printed, main-text weights",
}


def main() -> None:
    """Draw the figure."""
    path = Path(os.environ["TEMPERANCE_DATA"]) / "logits" / "cifar100_densenet40.npz"
    with np.load(path) as data:
        z = data["logits"][:2000].astype(np.float64)
    k = z.shape[1]
    q, rows = np.full(k, 1 / k), as_rows(z)
    shortfall = Shortfall.of(rows, q, None)
    v = np.geomspace(0.03, 300, 61)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for axis, (form, title) in zip(axes, FORMS.items(), strict=True):
        value = weight_objective(rows, shortfall, form)(v)
        limit = float((shortfall.wanted(form) ** 2).sum())
        axis.plot(v, value / limit, color="#1f5fa8")
        axis.axhline(1, color="#777777", linewidth=0.8, linestyle="--")
        best = int(np.argmin(value))
        axis.plot(v[best], value[best] / limit, "o", color="#c9701b")
        axis.annotate(
            f"{value[best] / limit:.3f}",
            (v[best], value[best] / limit),
            xytext=(6, -14),
            textcoords="offset points",
            color="#c9701b",
        )
        axis.set(title=title, xscale="log", xlabel="1/w", ylim=(0, 2))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("J(w) / J(w = 0)")
    figure.savefig(Path(__file__).parents[2] / "docs" / "figures" / "uts_objective.png", dpi=110)


if __name__ == "__main__":
    main()
