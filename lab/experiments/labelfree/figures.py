"""The two figures of the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

TITLES = {
    "mnist_lenet5": "MNIST, LeNet-5",
    "cifar_small": "CIFAR-10, small net",
    "skin_lesions": "Skin lesions by site",
    "svhn_to_mnist": "SVHN to MNIST",
    "mnist_lenet5_dropout": "MNIST, LeNet-5 + dropout",
    "fashion_lenet5": "Fashion-MNIST, LeNet-5",
    "cifar_resnet20": "CIFAR-10, ResNet-20",
}
BLUE, GREY, ORANGE = "#1f5fa8", "#9aa3ad", "#c9701b"


def regret_by_family(records: list[dict[str, Any]], path: Path) -> None:
    """Draw Brier regret: one panel a family, one bar a method, ours in blue."""
    names = [n for n in records[0]["summary"] if n != "TS-Target"]
    figure, axes = plt.subplots(
        2, 4, figsize=(15, 0.5 * len(names) + 2), sharey=True, layout="constrained"
    )
    values = [[r["summary"][n]["brier_regret"] for n in names] for r in records]
    panels = [*(TITLES[r["family"]] for r in records), f"mean over {len(records)} families"]
    columns = [*values, np.mean(values, axis=0)]
    place = np.arange(len(names))[::-1]
    limits = (1.15 * min(-5.0, np.min(columns)), 150)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, title, column in zip(axes.flat, panels, columns, strict=False):
        axis.barh(place, np.clip(column, *limits), color=[_colour(n) for n in names], height=0.7)
        for y, value in zip(place, column, strict=True):
            x = max(min(float(value), limits[1]), 0.0)
            inside = value > 0.75 * limits[1]
            axis.annotate(
                f"{value:+.0f}",
                (x, y),
                xytext=(-3 if inside else 3, 0),
                textcoords="offset points",
                ha="right" if inside else "left",
                va="center",
                fontsize=8,
                color="white" if inside else "#333333",
            )
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set(title=title, xlim=limits, yticks=place, yticklabels=names)
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set_fontsize(11)
    figure.suptitle(
        "Brier score (sum over classes, × 1000) minus that of the temperature fitted on target "
        "labels; below zero is better than those labels",
        fontsize=12,
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _colour(name: str) -> str:
    if name.startswith("prior-matched"):
        return BLUE
    return ORANGE if name.startswith("prototype") else GREY


def verdicts(records: list[dict[str, Any]], path: Path) -> None:
    """Draw estimated against true accuracy with its interval, one panel a family."""
    figure, axes = plt.subplots(2, 4, figsize=(14, 7.2), layout="constrained")
    for axis in axes.flat[len(records) :]:
        axis.axis("off")
    for axis, record in zip(axes.flat, records, strict=False):
        rows = list(record["front_door"].values())
        truth = np.array([r["truth"]["accuracy_before"] for r in rows])
        value, low, high = np.array([r["believed"]["accuracy_before"] for r in rows]).T
        inside = np.array([r["covered"]["accuracy_before"] for r in rows])
        for mask, colour in ((inside, BLUE), (~inside, ORANGE)):
            error = np.abs(np.stack([value - low, high - value]))[:, mask]
            axis.errorbar(
                truth[mask], value[mask], error, fmt=".", color=colour, alpha=0.6, linewidth=0.7
            )
        axis.plot([0, 1], [0, 1], color="black", linewidth=0.8)
        axis.set(
            title=f"{TITLES[record['family']]}: {inside.mean():.0%} covered",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("accuracy on held-out labels")
    figure.supylabel("accuracy estimated without labels, 90 % interval")
    figure.savefig(path, dpi=110)
    plt.close(figure)
