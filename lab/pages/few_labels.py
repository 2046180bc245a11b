"""Tables and figure of what a few labels are worth, from the record of the study few_labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from labelfree_tables import table

RECORD = Path(__file__).parents[1] / "experiments" / "few_labels" / "record.json"
GROUPS = ("text and tables", "images")
OURS = {"exact mix": "#0072B2", "no mix": "#D55E00", "labels alone": "#009E73"}
RIVALS = {"TS": "--", "biased TS": "-.", "isotonic": ":"}
FLOOR, CEILING = -60.0, 60.0
MOST = 100  # labels; more are drawn from larger targets only


def read() -> dict[str, Any]:
    """Return the record."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def counts(found: dict[str, Any]) -> list[int]:
    """Return the numbers of labels, in rising order."""
    return sorted({int(n) for name in OURS for n in found[name]})


def regrets(group: str) -> str:
    """Return the Brier regret by the number of labels, of calibrate and of its rivals."""
    found = read()[group]
    columns = counts(found)
    rows = []
    for name, by_count in found.items():
        if isinstance(by_count, dict) and name != "TS-source":
            cells = (by_count.get(str(n)) for n in columns)
            what = name if name in found and "covers" not in _first(by_count) else f"**{name}**"
            rows.append([what, *("" if c is None else f"{c['regret']:+.0f}" for c in cells)])
    return table(["", *(f"{n} labels" for n in columns)], rows)


def checks() -> str:
    """Return coverage and verdicts by the number of labels."""
    record = read()
    rows = []
    for group in GROUPS:
        for name in ("exact mix", "no mix", "no source", "labels alone"):
            for n in ("10", "30", "100"):
                f = record[group][name][n]
                right = "–" if f["right"] is None else f"{f['right']:.0%}"
                shares = (f"{f[key]:.0%}" for key in ("covers", "covers_ece", "improved"))
                worse = f"{f['worse than TS']:.0%}"
                rows.append([group, name, n, *shares, right, f"{f['decided']:.0%}", worse])
    head = ["", "what is known", "labels", "accuracy covered", "ECE covered", "improved"]
    return table([*head, "of these right", "decided", "TS better by 5"], rows)


def _first(by_count: dict[str, Any]) -> dict[str, Any]:
    return next(iter(by_count.values()))


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    return {
        "few_labels_text.md": regrets(GROUPS[0]),
        "few_labels_images.md": regrets(GROUPS[1]),
        "few_labels_checks.md": checks(),
    }


def figure(path: Path) -> None:
    """Draw regret against labels, a band over draws, names above."""
    record = read()
    drawn, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    for ax, group in zip(axes, GROUPS, strict=True):
        found = record[group]
        columns = [n for n in counts(found) if n <= MOST]
        for name in (*OURS, *RIVALS):
            by_count = found[name]
            x = [i for i, n in enumerate(columns) if str(n) in by_count]
            cells = [by_count[str(columns[i])] for i in x]
            y = [min(c["regret"], CEILING + 20) for c in cells]
            if name in RIVALS:
                ax.plot(x, y, RIVALS[name], color="#666666", lw=1.2, label=name)
            else:
                ax.plot(x, y, color=OURS[name], lw=2, label=f"calibrate, {name}")
                low, high = ([c[key] for c in cells] for key in ("low", "high"))
                ax.fill_between(x, low, high, color=OURS[name], alpha=0.2, lw=0)
        ax.axhline(0, color="black", lw=0.8, label="temperature, all labels")
        ax.set_xticks(range(len(columns)), [f"{n:,}" for n in columns])
        ax.set_title(group, loc="left", size=10)
        ax.set_xlabel("labelled rows of the target")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(FLOOR, CEILING)
    axes[0].set_ylabel("Brier regret, times 1000")
    names = axes[0].get_legend_handles_labels()
    drawn.legend(*names, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    drawn.savefig(path, dpi=150)
    plt.close(drawn)
