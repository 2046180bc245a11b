"""Figures of docs/concepts/uts.md: the weights over a plane, and the objective on real logits.

    python lab/pages/uts_figure.py

draws the objective, docs/figures/uts_objective.png, from the authors' own logits in the directory
that TEMPERANCE_DATA names. The weights need no data and are drawn by lab/pages/build.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from temperance_lab.reproduce.uts_equations import log_odds, objective, weights

OBJECTIVE = Path(__file__).parents[2] / "docs" / "figures" / "uts_objective.png"
COLOURS = ("Blues", "Oranges", "Greens")
COVER = 0.99  # the authors' factor of the predicted counts
LITERAL = "Eq. 8 as printed, one square"


def weight_map(path: Path) -> None:
    """Draw Ŵ_k of three classes over two features: the paper's figure 1, from data."""
    iris = load_iris()
    x, y = iris.data[:, 2:], iris.target
    classifier = LogisticRegression().fit(x, y)
    across, up = (np.linspace(a, b, 240) for a, b in ((0.6, 7.2), (-0.2, 2.8)))
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    z = classifier.decision_function(grid.reshape(-1, 2))
    found = weights(z, 1.0, "appendix").reshape(240, 240, 3)
    predicted = z.argmax(axis=1).reshape(240, 240)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
    for k, (axis, colour) in enumerate(zip(axes, COLOURS, strict=True)):
        shown = axis.pcolormesh(across, up, found[..., k], cmap=colour, vmin=0, vmax=1)
        axis.contour(across, up, predicted, levels=[0.5, 1.5], colors="black", linewidths=1)
        axis.plot(*x[y == k].T, ".", color="black", markersize=3)
        axis.set(title=f"weight for {iris.target_names[k]}", xlabel="petal length, cm")
        figure.colorbar(shown, ax=axis)
    axes[0].set_ylabel("petal width, cm")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def reference(z: np.ndarray, q: np.ndarray, w: float) -> float:
    """J of the authors' code: the weights fill the relative shortfall of predictions."""
    n, k = z.shape
    shortfall = np.maximum(0, 1 - COVER * np.bincount(z.argmax(axis=1), minlength=k) / (n * q))
    odds = np.exp(np.minimum(log_odds(z), 0) / w)
    odds[np.arange(n), z.argmax(axis=1)] = 0
    return float(((odds.mean(axis=0) - shortfall) ** 2).sum())


def objectives() -> None:
    """Draw J(1/w) over its value at w = 0, in four readings."""
    path = Path(os.environ["TEMPERANCE_DATA"]) / "logits" / "cifar100_densenet40.npz"
    with np.load(path) as data:
        z = data["logits"][:2000].astype(np.float64)
    q = np.full(z.shape[1], 1 / z.shape[1])
    panels = {
        "What the authors ran": lambda w: reference(z, q, w),
        "A square for each class, appendix": lambda w: objective(z, q, w, "appendix"),
        "A square for each class, main text": lambda w: objective(z, q, w),
        LITERAL: lambda w: objective(z, q, w, "appendix", "literal"),
    }
    v = np.geomspace(0.03, 300, 41)
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
    for axis, (title, j) in zip(axes, panels.items(), strict=True):
        value = np.array([j(1 / each) for each in v])
        if title == LITERAL:
            axis.plot(v, np.sqrt(value) / len(z), color="#1f5fa8")
            axis.set(yscale="log", ylabel="weight beyond 1 a row: falls to 0")
        else:
            limit = j(1 / 3000)
            axis.plot(v, value / limit, color="#1f5fa8")
            axis.axhline(1, color="#777777", linewidth=0.8, linestyle="--")
            axis.plot(v[value.argmin()], value.min() / limit, "o", color="#c9701b")
            axis.set(ylim=(0, 2), ylabel="J(w) / J(w = 0)")
        axis.set(title=title, xscale="log", xlabel="1/w")
        axis.title.set_fontsize(9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(OBJECTIVE, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    objectives()
