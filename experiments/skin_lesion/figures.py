"""The figures of the skin-lesion experiment, drawn from its records alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from temperance_skin_lesion.classes import CLASSES

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

COLOURS = {
    "uncalibrated": "#8c8c8c",
    "TS, source": "#6a8caf",
    "ATS, source, θ = 1e-5": "#c3cc9c",
    "ATS, source, θ = 0.1": "#8b9a52",
    "UTS, source mix": "#d9a441",
    "UTS, clinic mix": "#b5651d",
    "prior-matched, source mix": "#c98bb9",
    "prior-matched, clinic mix": "#0f7c86",
    "TS-Target (labels)": "#222222",
}
SCORES = {"nll": "NLL", "brier": "Brier", "ece": "ECE"}
CURVES = ("uncalibrated", "TS, source", "prior-matched, clinic mix", "TS-Target (labels)")


def site(record: dict[str, Any], path: Path) -> None:
    """Scores with intervals, reliability and risk-coverage of one unseen clinic."""
    figure, axes = plt.subplots(
        1, 5, figsize=(15, 4.1), width_ratios=(1, 1, 1, 1.45, 1.45), layout="constrained"
    )
    maps = record["calibrators"]
    names = [name for name in maps if "not_identified" not in maps[name]]
    for axis, (key, title) in zip(axes[:3], SCORES.items(), strict=True):
        for y, name in enumerate(reversed(names)):
            value, low, high = maps[name][key]
            axis.plot([low, high], [y, y], color=COLOURS[name], lw=2.5, solid_capstyle="round")
            axis.plot(value, y, "o", color=COLOURS[name], ms=6)
        axis.set_title(title, fontsize=11)
        axis.set_yticks(range(len(names)), list(reversed(names)) if axis is axes[0] else [])
        axis.set_xlim(left=0)
        axis.grid(axis="x", color="#e5e5e5")
    for name in CURVES:
        found = maps[name]
        bins = found["reliability"]
        axes[3].plot(
            [b["confidence"] for b in bins],
            [b["accuracy"] for b in bins],
            "o-",
            color=COLOURS[name],
            ms=4,
            label=name,
        )
        axes[4].plot(*found["risk_coverage"], color=COLOURS[name], label=name)
    axes[3].plot([0, 1], [0, 1], ":", color="#555555")
    axes[3].set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axes[3].set_title("Reliability", fontsize=11)
    axes[4].set(xlabel="share of cases answered", ylabel="error rate among them", xlim=(0, 1))
    axes[4].set_ylim(bottom=0)
    axes[4].set_title("Risk-coverage", fontsize=11)
    axes[4].legend(fontsize=8, frameon=False)
    figure.suptitle(
        f"{record['site']} unseen: {record['rows']:,} pictures of {record['lesions']:,} lesions; "
        f"lower is better; 95 % intervals by lesion",
        fontsize=12,
    )
    _finish(figure, path)


def prior(records: list[dict[str, Any]], path: Path) -> None:
    """What the stated class mix does to prior-matched scaling."""
    figure, axes = plt.subplots(
        1, len(records), figsize=(4.4 * len(records), 3.6), layout="constrained", sharey=True
    )
    for axis, record in zip(axes, records, strict=True):
        share = [step["share"] for step in record["prior_sweep"]]
        axis.plot(share, [step["brier"] for step in record["prior_sweep"]], color="#0f7c86", lw=2.5)
        for name in ("TS, source", "TS-Target (labels)"):
            value = record["calibrators"][name]["brier"][0]
            axis.axhline(value, color=COLOURS[name], ls="--", lw=1.3)
            place = {"va": "bottom", "dy": 3} if name == "TS, source" else {"va": "top", "dy": -3}
            axis.annotate(
                name,
                (0, value),
                xytext=(4, place["dy"]),
                textcoords="offset points",
                xycoords=axis.get_yaxis_transform(),
                va=place["va"],
                color=COLOURS[name],
                fontsize=8,
            )
        axis.set_title(record["site"], fontsize=11)
        axis.set_xticks([0, 1], ["mix of the\ntraining sites", "mix of\nthis clinic"])
        axis.grid(axis="y", color="#e5e5e5")
    axes[0].set_ylabel("Brier score, lower is better")
    figure.suptitle("The stated class mix decides: prior-matched scaling between two priors")
    _finish(figure, path)


def cases(shown: list[dict[str, Any]], path: Path, images: NDArray[np.uint8] | None = None) -> None:
    """Right and wrong cases with raw, TS, ATS and label-free confidence in the raw prediction."""
    columns = len(shown) // 2
    rows = 4 if images is not None else 2
    heights = (1.3, 1) * 2 if images is not None else (1, 1)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(2.1 * columns, 2.3 * rows),
        height_ratios=heights,
        layout="constrained",
    )
    for number, case in enumerate(shown):
        line, column = divmod(number, columns)
        if images is not None:
            picture = axes[2 * line, column]
            picture.imshow(images[case["row"]])
            picture.axis("off")
        axis = axes[2 * line + 1 if images is not None else line, column]
        _confidences(axis, case, first=column == 0)
        top = axes[2 * line, column] if images is not None else axis
        top.set_title(
            f"is {_name(case['label'])}\nsaid {_name(case['predicted'])}",
            fontsize=8,
            color="#0b6b4f" if case["label"] == case["predicted"] else "#9b1c2e",
        )
    figure.suptitle("Confidence in what the network said: right above, wrong below", fontsize=12)
    _finish(figure, path)


def _confidences(axis: Any, case: dict[str, Any], *, first: bool) -> None:
    names = list(case["confidence"])
    colours = ["#8c8c8c", "#6a8caf", "#9aa86a", "#0f7c86"]
    values = [case["confidence"][name] for name in names]
    axis.barh(names, values, color=colours)
    for y, value in enumerate(values):
        inside = value > 0.75
        axis.text(
            value - 0.03 if inside else value + 0.03,
            y,
            f"{value:.2f}",
            va="center",
            ha="right" if inside else "left",
            fontsize=8,
            color="white" if inside else "black",
        )
    axis.set_xlim(0, 1)
    axis.invert_yaxis()
    axis.set_xticks([])
    if not first:
        axis.set_yticks([])
    axis.tick_params(labelsize=8, length=0)


def _name(number: int) -> str:
    return {"akiec": "Bowen / actinic k.", "bcc": "basal cell ca."}.get(
        CLASSES[number].code, CLASSES[number].name.lower()
    )


def _finish(figure: Any, path: Path) -> None:
    for axis in figure.axes:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    # No date and no version inside: the same records give the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
