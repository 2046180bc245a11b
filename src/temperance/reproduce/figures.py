"""The figures of the records: small multiples on one scale, direct labels, bands over draws."""

from __future__ import annotations

from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance.display.style import ink, pyplot, styled
from temperance.reproduce.lookup import Lookup
from temperance.reproduce.paper_rows import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from temperance.reproduce.record import Record

__all__ = ["FIGURES", "draw"]

# Okabe and Ito, one colour and one marker for a method in every figure.
LOOK = {
    "uncalibrated": ("#7F7F7F", "o", ":"),
    "TS": ("#E69F00", "s", "--"),
    "ATS": ("#8A7F00", "P", "-."),
    "UTS": ("#D55E00", "^", "-"),
    "UTS, mix of the draw": ("#CC79A7", "<", "-"),
    "UTS in bags": ("#CC79A7", "v", "-"),
    "vector": ("#56B4E9", "X", "-"),
    "matrix": ("#009E73", "D", "-"),
    "penalised matrix": ("#009E73", "d", "--"),
    "prior-matched, T only": ("#56B4E9", "v", "-"),
    "prior-matched": ("#0072B2", "o", "-"),
    "TS-Target": ("#000000", "*", "--"),
    "ll-Dropout": ("#8A7F00", "P", "-"),
    "SVI": ("#CC79A7", "X", "-"),
    "ensemble": ("#009E73", "D", "-"),
}
EDGE = 1.9  # of the ratios in the table's figure; beyond it stands the number
ROOM = 0.09  # of the height of a panel, between two labels


PRINT = {"savefig.facecolor": "white", "figure.labelsize": 9, "axes.titlesize": 7.5}


def draw(name: str, records: Iterable[Record], path: Path) -> None:
    """Draw the figure of an item into a PNG."""
    with styled(), pyplot().rc_context(PRINT):
        figure = FIGURES[name](Lookup(records))
        figure.savefig(path, dpi=200)
        pyplot().close(figure)


def _grid(
    n: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple[Any, list[Axes]]:
    columns = min(columns, n)
    lines = ceil(n / columns)
    figure, axes = pyplot().subplots(
        lines,
        columns,
        figsize=(size[0] * columns, size[1] * lines),
        squeeze=False,
        layout="constrained",
        **options,
    )
    for ax in axes.flat[n:]:
        ax.axis("off")
    return figure, list(axes.flat[:n])


def _known(t: Lookup) -> list[str]:
    """Return the methods of the records, in one order for all figures."""
    return [m for m in LOOK if m in t.methods()]


def _curve(ax: Axes, x: Any, y: Any, sd: Any, method: str) -> None:
    colour, marker, dash = LOOK[method]
    ax.fill_between(x, y - sd, y + sd, color=colour, alpha=0.15, linewidth=0)
    ax.plot(x, y, color=colour, marker=marker, linestyle=dash, linewidth=1.2, markersize=3)


def _label_ends(
    ax: Axes,
    ends: dict[str, tuple[float, float]],
    aliases: Mapping[str, str] = MappingProxyType({}),
    *,
    in_layout: bool = True,
) -> None:
    """Write the name of each line beside its end, apart from each other."""
    if not ends:
        return
    ax.autoscale_view()
    low, high = ax.get_ylim()
    log = ax.get_yscale() == "log"

    def at(y: float) -> float:
        a, b, c = np.log([low, high, max(y, low)]) if log else (low, high, y)
        return float(np.clip((c - a) / (b - a), 0, 1))

    names = sorted(ends, key=lambda m: ends[m][1])
    places = [at(ends[m][1]) for m in names]
    for m, place, height in zip(names, places, _apart(places), strict=True):
        label = ax.annotate(
            aliases.get(m, m),
            (1.0, place),
            (1.07, height),
            xycoords="axes fraction",
            va="center",
            color=LOOK[m][0],
            fontsize=7,
            arrowprops={
                "arrowstyle": "-",
                "color": LOOK[m][0],
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )
        label.set_in_layout(in_layout)


def _apart(places: Sequence[float]) -> list[float]:
    """Push rising heights apart, both ways, until there is room for a line of text between."""
    heights = list(places)
    for _ in range(200):
        for i in range(len(heights) - 1):
            lack = ROOM - (heights[i + 1] - heights[i])
            if lack > 0:
                heights[i] -= lack / 2
                heights[i + 1] += lack / 2
    return heights


def _curves(
    t: Lookup,
    ax: Axes,
    group: str,
    metric: str,
    methods: Sequence[str],
    scaled: Callable[[str, Any], Any] = lambda _, v: v,
) -> dict[str, tuple[float, float]]:
    """Draw the curves of a panel; return where each ends."""
    ends = {}
    for method in methods:
        x = [d for d in t.degrees(group) if t.get(group, method, metric, d)]
        if not x:
            continue
        y = np.array([t.value(group, method, metric, d) for d in x])
        sd = np.array([t.spread(group, method, metric, d) for d in x])
        if len(x) == 1:  # a method without labels, which no noise of labels reaches
            x = t.degrees(group)
            y, sd = np.repeat(y, len(x)), np.repeat(sd, len(x))
        y, sd = scaled(group, y), scaled(group, sd)
        if np.isnan(y).any():
            continue  # nothing to measure it by
        _curve(ax, x, y, sd, method)
        ends[method] = (x[-1], float(y[-1]))
    return ends


def table(t: Lookup) -> Figure:
    """NLL of every row over that of the uncalibrated network; the paper's numbers hollow."""
    methods = [m for m in _known(t) if m != "uncalibrated"]
    groups = t.groups()
    figure, axes = _grid(len(groups), 3, (2.5, 1.6), sharex=True, sharey=True)
    place = {m: i for i, m in enumerate(reversed(methods))}
    for ax, group in zip(axes, groups, strict=True):
        ax.axvline(1, color=ink(), linewidth=0.8, linestyle=":")
        base = t.value(group, "uncalibrated", "nll")
        for method in methods:
            colour, marker, _ = LOOK[method]
            ratio = t.value(group, method, "nll") / base
            sd = t.spread(group, method, "nll") / base
            if ratio > EDGE:
                at = {"ha": "right", "va": "center", "fontsize": 7, "color": colour}
                ax.text(EDGE + 0.08, place[method], f"{ratio:,.1f} →", **at)
            else:
                ax.errorbar(
                    ratio, place[method], xerr=sd, color=colour, marker=marker, markersize=5
                )
            printed = _printed(t, group, method) / _printed(t, group, "uncalibrated")
            if not np.isnan(printed):
                ax.plot(
                    min(printed, 1.9),
                    place[method],
                    marker="o",
                    mfc="none",
                    mec=ink(),
                    markersize=7,
                )
        ax.set(title=title(group), xlim=(0.15, 2.0), yticks=list(place.values()))
        ax.set_ylim(-0.6, len(methods) - 0.4)
        ax.set_yticklabels(place)
        ax.grid(axis="x", linewidth=0.3)
    figure.supxlabel("NLL over that of the uncalibrated network (circles: as the paper prints it)")
    return figure


def _printed(t: Lookup, group: str, method: str) -> float:
    record = t.get(group, method, "nll")
    return record.reported["mean"] if record and record.reported else float("nan")


def _shift_panels(t: Lookup, columns: int, metrics: Sequence[tuple[str, str]]) -> Figure:
    groups = t.groups()
    methods = _known(t)
    figure, axes = pyplot().subplots(
        len(metrics),
        columns,
        figsize=(2.3 * columns + 1.2, 2.1 * len(metrics)),
        sharey="row",
        sharex="col",
        squeeze=False,
        layout="constrained",
    )
    for line, (metric, label) in zip(axes, metrics, strict=True):
        # One temperature leaves the accuracy as it is: all of them share a line.
        shown = ["TS", "prior-matched"] if metric == "accuracy" else methods
        for ax, group in zip(line, groups, strict=True):
            ends = _curves(t, ax, group, metric, shown)
            if ax is line[-1]:
                _label_ends(ax, ends, {"TS": "every temperature"} if metric == "accuracy" else {})
        line[0].set_ylabel(label)
    for ax, group in zip(axes[0], groups, strict=True):
        ax.set_title(title(group))
    for ax, group in zip(axes[-1], groups, strict=True):
        ax.set_xlabel(_unit(group))
    return figure


def _unit(group: str) -> str:
    return "degrees" if "rotation" in group else "pixels" if "rolling" in group else "severity"


def shifts(t: Lookup) -> Figure:
    """Accuracy and Brier score against the degree of the three shifts of figure 2."""
    return _shift_panels(
        t, len(t.groups()), (("accuracy", "accuracy, %"), ("brier", "Brier score"))
    )


def corruptions(t: Lookup) -> Figure:
    """Brier score against severity, one panel a corruption, one scale for all."""
    groups = t.groups()
    methods = _known(t)
    figure, axes = _grid(len(groups), 4, (2.0, 1.7), sharey=True)
    for i, (ax, group) in enumerate(zip(axes, groups, strict=True)):
        ends = _curves(t, ax, group, "brier", methods)
        ax.set_title(title(group).removeprefix("CIFAR10 "))
        ax.set_xticks(t.degrees(group))
        if i % 4 == 3 or i == len(groups) - 1:
            _label_ends(ax, ends, in_layout=i % 4 == 3)
    figure.supxlabel("severity (rolling: pixels)")
    figure.supylabel("Brier score")
    return figure


def noise(t: Lookup) -> Figure:
    """NLL against the share of wrong labels, over that of the uncalibrated network."""
    groups = t.groups()
    methods = _known(t)
    figure, axes = _grid(len(groups), 3, (2.5, 1.8), sharex=True, sharey=True)
    for i, (ax, group) in enumerate(zip(axes, groups, strict=True)):
        ends = _curves(
            t, ax, group, "nll", methods, lambda g, v: v / t.value(g, "uncalibrated", "nll", 0)
        )
        ax.set(title=title(group), ylim=(0.2, 2.6))
        if i % 3 == 2 or i == len(groups) - 1:
            _label_ends(ax, ends, in_layout=i % 3 == 2)
    figure.supxlabel("share of wrong labels among the calibration rows")
    figure.supylabel("NLL over uncalibrated")
    return figure


def sizes(t: Lookup) -> Figure:
    """T against the number of rows, over the T that all labels of the domain give."""
    groups = sorted(t.groups(), key=lambda g: "TS-Target" not in t.methods(g))
    methods = [m for m in _known(t) if m != "uncalibrated"]
    figure, axes = _grid(len(groups), 3, (2.5, 1.8), sharex=True, sharey=True)

    def over_all(group: str, values: Any) -> Any:
        labelled = "TS-Target" if t.get(group, "TS-Target", "temperature", 30) else "TS"
        return values / t.value(group, labelled, "temperature", t.degrees(group)[-1])

    for i, (ax, group) in enumerate(zip(axes, groups, strict=True)):
        ax.axhline(1, color=ink(), linewidth=0.6, linestyle=":")
        ends = _curves(t, ax, group, "temperature", methods, over_all)
        ax.set(title=title(group), xscale="log", yscale="log", ylim=(0.3, 4))
        ax.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        ax.set_xticks([30, 100, 1_000, 10_000], ["30", "100", "1,000", "10,000"])
        ax.minorticks_off()
        if i % 3 == 2 or i == len(groups) - 1:
            _label_ends(ax, ends, in_layout=i % 3 == 2)
    figure.supxlabel("calibration rows")
    figure.supylabel("T over the T of all labels")
    return figure


def probabilistic(t: Lookup) -> Figure:
    """Brier score against accuracy, a point for each method, one scale for a data set."""
    groups = t.groups()
    figure, axes = _grid(len(groups), 4, (2.1, 2.1), sharey="row")
    for ax, group in zip(axes, groups, strict=True):
        x = t.degrees(group)[0]
        for method in _known(t):
            colour, marker, _ = LOOK[method]
            a, b = (t.value(group, method, m, x) for m in ("accuracy", "brier"))
            da, db = (t.spread(group, method, m, x) for m in ("accuracy", "brier"))
            ax.errorbar(
                a, b, xerr=da, yerr=db, color=colour, marker=marker, linestyle="", label=method
            )
        ax.set_title(title(group))
        ax.margins(0.15)
        ax.grid(linewidth=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    figure.supxlabel("accuracy, %")
    figure.supylabel("Brier score")
    return figure


def combination(t: Lookup) -> Figure:
    """Brier score of a probabilistic method alone, and with a method on top, by setting."""
    methods = t.methods()
    groups = t.groups()
    figure, axes = _grid(len(groups), 4, (2.3, 2.5), sharey=True)
    place = {m: i for i, m in enumerate(reversed(methods))}
    for ax, group in zip(axes, groups, strict=True):
        x = t.degrees(group)[0]
        for method in methods:
            alone, _, top = method.partition(" + ")
            colour, marker, _ = LOOK[top or alone]
            value, sd = t.value(group, method, "brier", x), t.spread(group, method, "brier", x)
            ax.errorbar(value, place[method], xerr=sd, color=colour, marker=marker, markersize=4.5)
            if not top:
                ax.axvline(value, color=colour, linewidth=0.6, linestyle=":")
        ax.set(title=title(group), yticks=list(place.values()))
        ax.set_yticklabels(place)
        ax.grid(axis="x", linewidth=0.3)
    figure.supxlabel("Brier score (dotted: alone)")
    return figure


FIGURES: dict[str, Callable[[Lookup], Figure]] = {
    "table-1": table,
    "label-noise": noise,
    "sample-size": sizes,
    "figure-shift": shifts,
    "figure-corruptions": corruptions,
    "probabilistic": probabilistic,
    "combination": combination,
}
