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
SCORES = {
    "nll": "NLL ↓",
    "brier": "Brier ↓",
    "ece": "ECE ↓",
    "accuracy": "accuracy ↑",
    "melanomas_found": "melanomas found ↑",
}
CURVES = (
    "uncalibrated",
    "TS, source",
    "prior-matched, source mix",
    "prior-matched, clinic mix",
    "TS-Target (labels)",
)


def site(record: dict[str, Any], path: Path) -> None:
    """Scores with intervals, reliability, risk-coverage and class mixes of one unseen clinic."""
    figure = plt.figure(figsize=(13, 8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    _scores(above.subplots(1, len(SCORES), sharey=True), record)
    reliability, risk, mixes = below.subplots(1, 3)
    maps = record["calibrators"]
    for name in CURVES:
        bins = maps[name]["reliability"]
        x, y = ([b[key] for b in bins] for key in ("confidence", "accuracy"))
        reliability.plot(x, y, "o-", color=COLOURS[name], ms=4, label=name)
        risk.plot(*maps[name]["risk_coverage"], color=COLOURS[name], label=name)
    reliability.plot([0, 1], [0, 1], ":", color="#555555")
    reliability.set(xlabel="confidence", ylabel="share right", xlim=(0, 1), ylim=(0, 1))
    reliability.set_title("Reliability", fontsize=11)
    risk.set(xlabel="share of cases answered", ylabel="wrong answers among them", xlim=(0, 1))
    risk.set_ylim(bottom=0)
    risk.set_title("Risk-coverage", fontsize=11)
    _mixes(mixes, record)
    curves, names = risk.get_legend_handles_labels()
    below.legend(
        curves, names, loc="outside lower left", ncols=len(names), fontsize=9, frameon=False
    )
    figure.suptitle(
        f"{record['site']} as the unseen clinic: {record['rows']:,} pictures of "
        f"{record['lesions']:,} lesions, 95 % intervals by lesion",
        fontsize=12,
    )
    _finish(figure, path)


def _scores(axes: Any, record: dict[str, Any]) -> None:
    maps = record["calibrators"]
    names = [name for name in reversed(COLOURS) if "not_identified" not in maps[name]]
    for axis, (key, title) in zip(axes, SCORES.items(), strict=True):
        for y, name in enumerate(names):
            value, low, high = maps[name][key]
            axis.plot([low, high], [y, y], color=COLOURS[name], lw=2.5, solid_capstyle="round")
            axis.plot(value, y, "o", color=COLOURS[name], ms=6)
        axis.set_title(title, fontsize=11)
        axis.grid(axis="x", color="#e5e5e5")
        axis.margins(x=0.12)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(names)), names)
    axes[-1].set_xlabel(f"in the {record['referral']:.0%} most suspected", fontsize=9)


def _mixes(axis: Any, record: dict[str, Any]) -> None:
    """Class shares: elsewhere, here, and as the network predicts them."""
    shown = {
        "training sites": (record["mix_source"], "#c98bb9"),
        "this clinic": (record["mix_here"], "#0f7c86"),
        "as predicted": (record["mix_predicted"], "#8c8c8c"),
    }
    for number, (name, (shares, colour)) in enumerate(shown.items()):
        places = [k + 0.27 * (number - 1) for k in range(len(CLASSES))]
        axis.barh(places, [100 * share for share in shares], 0.25, color=colour, label=name)
    axis.set_yticks(range(len(CLASSES)), [_name(k) for k in range(len(CLASSES))], fontsize=9)
    axis.invert_yaxis()
    axis.set_xlabel("% of pictures")
    axis.set_title("Class mix", fontsize=11)
    axis.legend(fontsize=8, frameon=False, loc="lower right")


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
    """A right and a wrong case of each diagnosis, with four confidences in the raw prediction."""
    pictured = images is not None
    figure, axes = plt.subplots(
        4 if pictured else 2,
        len(CLASSES),
        figsize=(2.2 * len(CLASSES), 9.6 if pictured else 5.2),
        height_ratios=(1.3, 1) * 2 if pictured else (1, 1),
        layout="constrained",
    )
    for axis in axes.flat:
        axis.axis("off")
    missing = set(range(len(CLASSES))) - {c["label"] for c in shown if c["label"] == c["predicted"]}
    for label in missing:
        axes[0, label].set_title(f"no {_name(label)}\nis said right", fontsize=9, color="#8c8c8c")
    drawn = set()
    for case in shown:
        right = case["label"] == case["predicted"]
        if (case["label"], right) in drawn:
            continue  # the table has all cases
        drawn.add((case["label"], right))
        line = (0 if right else 1) * (2 if pictured else 1)
        top, axis = axes[line, case["label"]], axes[line + pictured, case["label"]]
        if images is not None:
            top.imshow(images[case["row"]])
        top.set_title(
            f"is {_name(case['label'])}\nsaid {_name(case['predicted'])}",
            fontsize=9,
            color="#0b6b4f" if right else "#9b1c2e",
        )
        axis.axis("on")
        _confidences(axis, case)
    figure.suptitle(
        "Typical right (above) and wrong (below) cases: confidence in what the network said",
        fontsize=12,
    )
    _finish(figure, path)


def _confidences(axis: Any, case: dict[str, Any]) -> None:
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
    if case["predicted_label_free"] != case["predicted"]:
        said = _name(case["predicted_label_free"])
        axis.set_xlabel(f"label-free says\n{said}", fontsize=8, color="#0f7c86")
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
