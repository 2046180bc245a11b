"""The figures of the records: small multiples on one scale, direct labels, bands over draws."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance.report.style import ink, pyplot, styled
from temperance_lab.reproduce.paper_rows import title
from temperance_lab.reproduce.probabilistic import BASELINES, EQUAL_ACCURACY, PAPER
from temperance_lab.reproduce.record_table import RecordTable
from temperance_lab.reproduce.size import ALL_SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from temperance_lab.reproduce.record import Record

__all__ = ["FIGURES", "draw"]

# Okabe and Ito and a few more, one colour and one marker for a method in every figure.
LOOK = {
    "uncalibrated": ("#7F7F7F", "o", ":"),
    "TS": ("#E69F00", "s", "--"),
    "ATS": ("#8A7F00", "P", "-."),
    "UTS": ("#D55E00", "^", "-"),
    "UTS, mix of the draw": ("#CC79A7", "<", "-"),
    "UTS in bags": ("#CC79A7", "v", "-"),
    "vector": ("#56B4E9", "X", "-"),
    "matrix": ("#009E73", "D", "-"),
    "matrix, penalty 0.005": ("#009E73", "d", "-."),
    "penalised matrix": ("#009E73", "d", "--"),
    "prior-matched, T only": ("#56B4E9", "v", "-"),
    "prior-matched": ("#0072B2", "o", "-"),
    "calibrate": ("#003B5C", "h", "-"),
    "calibrate, 50 labels": ("#003B5C", "h", "-"),
    "TS-Target": ("#000000", "*", "--"),
    "ll-Dropout": ("#8A7F00", "P", "-"),
    "SVI": ("#CC79A7", "X", "-"),
    "ensemble": ("#009E73", "D", "-"),
    "ll-Laplace": ("#8C510A", "<", "-"),
    "ll-MCMC": ("#6A3D9A", ">", "-"),
}
EQUAL = (1 - 1 / 10) / 10  # Brier score of equal probabilities for the ten classes of every shift
SCALE = (0.18, 5.0)  # of the ratios in the table's figure; beyond it stands the number
ROOM = 0.125  # inches between two labels

PRINT = {"savefig.facecolor": "white", "figure.labelsize": 9, "axes.titlesize": 7.5}


def draw(name: str, records: Iterable[Record], path: Path) -> None:
    """Draw the figure of an experiment into a PNG."""
    with styled(), pyplot().rc_context(PRINT):
        figure = FIGURES[name](RecordTable(records))
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
    for ax in axes.flat[max(0, n - columns) : n]:  # nothing below it
        ax.tick_params(labelbottom=True)
    return figure, list(axes.flat[:n])


def _known(t: RecordTable) -> list[str]:
    """Return the methods of the records, in one order for all figures."""
    return [m for m in LOOK if m in t.methods()]


def _lines(group: str) -> str:
    """Return the title of a panel; a network that stands for another has two lines."""
    return title(group).replace(" for ", "\nfor ")


def _guessing(ax: Axes, *, named: bool = False, across: bool = True) -> None:
    """Draw the Brier score of a guess that gives every class the same probability."""
    (ax.axhline if across else ax.axvline)(EQUAL, color=ink(), linewidth=0.7, linestyle=(0, (1, 3)))
    if named and across:
        at = {"xycoords": ("axes fraction", "data"), "fontsize": 6, "va": "bottom"}
        ax.annotate("equal probabilities", (0.02, EQUAL), **at)


def _point(ax: Axes, x: float, y: float, method: str, **options: Any) -> None:
    colour, marker, _ = LOOK[method]
    ax.errorbar(x, y, color=colour, marker=marker, markersize=4.5, linestyle="", **options)


def _label(
    ax: Axes, points: dict[str, tuple[float, float]], names: dict[str, str] | None = None
) -> None:
    """Write the name of each method beside the panel, apart from each other, with a line to it."""
    to_axes = ax.transData + ax.transAxes.inverted()
    places = {m: np.clip(to_axes.transform(xy), 0, 1) for m, xy in points.items()}
    order = sorted(places, key=lambda m: float(places[m][1]))
    room = ROOM * ax.figure.dpi / ax.get_window_extent().height
    heights = _apart([float(places[m][1]) for m in order], room)
    for m, height in zip(order, heights, strict=True):
        colour = LOOK[m][0]
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        label = ax.annotate(
            (names or {}).get(m, m),
            tuple(places[m]),
            (1.07, height),
            xycoords="axes fraction",
            va="center",
            color=colour,
            fontsize=7,
            arrowprops={**line, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
        label.set_in_layout(ax.get_subplotspec().is_last_col())  # pyright: ignore[reportOptionalMemberAccess]


def _apart(places: Sequence[float], room: float) -> list[float]:
    """Push rising heights apart, both ways, and then into the panel as far as there is room."""
    heights = list(places)
    for _ in range(200):
        for i in range(len(heights) - 1):
            lack = room - (heights[i + 1] - heights[i])
            if lack > 0:
                heights[i] -= lack / 2
                heights[i + 1] += lack / 2
    for i in range(len(heights)):
        heights[i] = max(heights[i], i * room)
    last = len(heights) - 1
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], max(1.0, last * room) - (last - i) * room)
    return heights


def _at_the_right(axes: list[Axes], points: list[dict[str, tuple[float, float]]]) -> None:
    """Name the methods beside the last panel of each line; all curves have been drawn."""
    axes[0].figure.canvas.draw()  # the scales are final
    for i, (ax, some) in enumerate(zip(axes, points, strict=True)):
        spec = ax.get_subplotspec()
        if some and (i == len(axes) - 1 or (spec is not None and spec.is_last_col())):
            _label(ax, some)


def _curves(
    t: RecordTable,
    ax: Axes,
    group: str,
    metric: str,
    methods: Sequence[str],
    unit: float = 1.0,
    most: float = np.inf,
    *,
    spread: bool = False,
) -> dict[str, tuple[float, float]]:
    """Draw the curves of a panel and their bands; return where each ends.

    A band is the 95 % interval of the mean or, with ``spread``, one standard deviation of draws.
    """
    ends = {}
    for method in methods:
        there = ((d, t.get(group, method, metric, d)) for d in t.degrees(group) if d <= most)
        x = [d for d, record in there if record and (record.answered or method != "TS-Target")]
        if not x or np.isnan(unit):
            continue
        y = np.array([t.value(group, method, metric, d) for d in x]) / unit
        low, high = np.array([t.interval(group, method, metric, d) for d in x]).T / unit
        if spread:
            sd = np.array([t.spread(group, method, metric, d) for d in x]) / unit
            low, high = y - sd, y + sd
        if len(x) == 1:  # a method without labels, which no noise of labels reaches
            x = t.degrees(group)
            y, low, high = (np.repeat(each, len(x)) for each in (y, low, high))
        colour, marker, dash = LOOK[method]
        ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, y, color=colour, marker=marker, linestyle=dash, linewidth=1.2, markersize=3)
        ends[method] = (x[-1], float(y[-1]))
    return ends


def _multiples(
    t: RecordTable,
    metric: str,
    columns: int,
    unit: Callable[[str], float] = lambda _: 1.0,
    *,
    spread: bool = False,
    **scale: Any,
) -> tuple[Figure, list[Axes]]:
    """One panel a group on one scale, the names of the methods at the right."""
    groups = t.groups()
    figure, axes = _grid(len(groups), columns, (2.3, 1.75), sharey=True)
    methods = [m for m in _known(t) if (metric, m) != ("temperature", "uncalibrated")]
    ends = []
    for ax, group in zip(axes, groups, strict=True):
        ax.set(title=_lines(group), **scale)
        if ax.get_yscale() == "log":
            ax.minorticks_off()
        ends.append(_curves(t, ax, group, metric, methods, unit(group), spread=spread))
    _at_the_right(axes, ends)
    return figure, axes


def table(t: RecordTable) -> Figure:
    """NLL of every row over that of the uncalibrated network; the paper's numbers hollow."""
    methods = [m for m in _known(t) if m != "uncalibrated"]
    groups = t.groups()
    figure, axes = _grid(len(groups), 3, (2.4, 1.75), sharex=True, sharey=True)
    place = {m: i for i, m in enumerate(reversed(methods))}
    for ax, group in zip(axes, groups, strict=True):
        ax.axvline(1, color=ink(), linewidth=0.8, linestyle=":")
        base = t.value(group, "uncalibrated", "nll")
        for method in methods:
            ratio, sd = (f(group, method, "nll") / base for f in (t.value, t.spread))
            printed = _printed(t, group, method) / _printed(t, group, "uncalibrated")
            row = place[method]
            for value, colour, name in ((ratio, LOOK[method][0], ""), (printed, ink(), "○ ")):
                if value > SCALE[1]:
                    at = {"ha": "right", "va": "center", "fontsize": 7, "color": colour}
                    ax.text(SCALE[1], row, f"{name}{value:,.1f} →", **at)
            if ratio <= SCALE[1]:
                _point(ax, ratio, row, method, xerr=sd)
            if printed <= SCALE[1]:
                ax.plot(printed, row, marker="o", mfc="none", mec=ink(), ms=7, clip_on=False)
        ax.set(
            title=_lines(group),
            xlim=SCALE,
            xscale="log",
            yticks=list(place.values()),
        )
        ax.set_ylim(-0.6, len(methods) - 0.4)
        ax.set_yticklabels(place)
        ax.minorticks_off()
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
        ax.grid(axis="x", linewidth=0.3)
    figure.supxlabel("NLL over that of the uncalibrated network (circles: as the paper prints it)")
    return figure


def _printed(t: RecordTable, group: str, method: str) -> float:
    record = t.get(group, method, "nll")
    return record.reported["mean"] if record and record.reported else float("nan")


def shifts(t: RecordTable) -> Figure:
    """Accuracy and Brier score against the degree of the three shifts of figure 2."""
    groups = t.groups()
    figure, axes = _grid(2 * len(groups), len(groups), (2.5, 2.1), sharey="row", sharex="col")
    upper, lower = axes[: len(groups)], axes[len(groups) :]
    # One temperature leaves the accuracy as it is: all of them share a line.
    for line, metric, methods in (
        (upper, "accuracy", ["TS", "prior-matched"]),
        (lower, "brier", _known(t)),
    ):
        ends = [_curves(t, ax, g, metric, methods) for ax, g in zip(line, groups, strict=True)]
        for ax in line if metric == "brier" else []:
            _guessing(ax, named=ax is line[-1])  # where no curve crosses the words
        figure.canvas.draw()  # the scales are final
        _label(line[-1], ends[-1], {"TS": "every temperature"} if line is upper else None)
    for ax, group in zip(upper, groups, strict=True):
        ax.set_title(title(group))
        ax.tick_params(labelbottom=False)
    for ax, group in zip(lower, groups, strict=True):
        unit = "degrees" if "rotation" in group else "pixels" if "rolling" in group else "severity"
        ax.set_xlabel(unit)
    upper[0].set_ylabel("accuracy, %")
    lower[0].set_ylabel("Brier score")
    return figure


def corruptions(t: RecordTable) -> Figure:
    """Brier score against severity, one panel a corruption, one scale for all."""
    figure, axes = _multiples(t, "brier", 4)
    for ax, group in zip(axes, t.groups(), strict=True):
        ax.set_title(title(group).removeprefix("CIFAR10 "))
        ax.set_xticks(t.degrees(group))
        _guessing(ax, named=ax is axes[0])
    figure.supxlabel("severity (rolling: pixels)")
    figure.supylabel("Brier score")
    return figure


def noise(t: RecordTable) -> Figure:
    """NLL against the share of wrong labels, over that of the uncalibrated network."""
    ticks = {"yticks": [0.5, 1, 2, 5, 10, 20], "yticklabels": ["0.5", "1", "2", "5", "10", "20"]}
    percent = {"xticks": [0, 0.25, 0.5], "xticklabels": ["0", "25 %", "50 %"]}
    scale = {"yscale": "log", "ylim": (0.45, 30), **ticks, **percent}
    base = lambda g: t.value(g, "uncalibrated", "nll", 0)  # noqa: E731
    figure, _ = _multiples(t, "nll", 3, base, spread=True, **scale)
    figure.supxlabel("wrong labels among the calibration rows")
    figure.supylabel("NLL over uncalibrated")
    return figure


def sizes_under_shift(t: RecordTable) -> Figure:
    """Brier score against the number of rows, a panel for every degree of the three shifts."""
    shifted = [g for g in t.groups() if "TS-Target" in t.methods(g)]
    figure, axes = _grid(len(shifted), 6, (1.7, 1.5), sharey=True, sharex=True)
    methods = [m for m in _known(t) if m != "UTS in bags"]
    ends = []
    for ax, group in zip(axes, shifted, strict=True):
        ax.set(title=title(group), xscale="log", xlim=(25, 2_600))
        ax.set_xticks([30, 200, 2_000], ["30", "200", "2,000"])
        ax.minorticks_off()
        _guessing(ax, named=ax is axes[0])
        curves = _curves(t, ax, group, "brier", methods, most=2_000, spread=True)
        ends.append(curves)
    _at_the_right(axes, ends)
    figure.supxlabel("calibration rows")
    figure.supylabel("Brier score")
    return figure


def cost(t: RecordTable) -> Figure:
    """Time and memory of a UTS fit over those of a TS fit, by network."""
    groups = t.groups()
    figure, axes = _grid(2, 2, (3.2, 0.24 * len(groups) + 0.6), sharey=True)
    for ax, metric in zip(axes, ("seconds", "megabytes"), strict=True):
        ratio = [t.value(g, "UTS", metric) / t.value(g, "TS", metric) for g in groups]
        ax.plot(ratio, range(len(groups)), "^", color=LOOK["UTS"][0])
        ax.axvline(1, color=ink(), linewidth=0.8, linestyle=":")
        ax.set(title=metric, xlim=(0, 1.1 * max(ratio)), xlabel="UTS over TS")
        ax.grid(axis="x", linewidth=0.3)
    axes[0].set_yticks(range(len(groups)), [title(g) for g in groups])
    return figure


def sizes(t: RecordTable) -> Figure:
    """T against the number of rows, over the T that all labels of the domain give."""
    t = t.only(g for g in t.groups() if g in ALL_SIZES or "TS-Target" not in t.methods(g))

    def of_labels(group: str) -> float:
        labelled = "TS-Target" if "TS-Target" in t.methods(group) else "TS"
        return t.value(group, labelled, "temperature", t.degrees(group)[-1])

    ticks = {"yticks": [0.25, 1, 4, 16], "yticklabels": ["0.25", "1", "4", "16"]}
    rows = {"xticks": [30, 500, 10_000], "xticklabels": ["30", "500", "10,000"]}
    limits = {"xlim": (25, 13_000), "ylim": (0.2, 50)}
    scale = {"yscale": "log", "xscale": "log", **limits, **ticks, **rows}
    figure, axes = _multiples(t, "temperature", 3, of_labels, spread=True, **scale)
    for ax in axes:
        ax.axhline(1, color=ink(), linewidth=0.6, linestyle=":")
    figure.supxlabel("calibration rows")
    figure.supylabel("T over the T of all labels")
    return figure


def probabilistic(t: RecordTable) -> Figure:
    """Brier score against accuracy in the paper's settings, one scale for a data set."""
    groups = [g for g in PAPER if g in t.groups()] or t.groups()[:8]
    figure, axes = _grid(len(groups), 4, (2.2, 2.5), sharey="row", sharex="row")
    points = []
    for ax, group in zip(axes, groups, strict=True):
        x = t.degrees(group)[0]
        some = {}
        for method in (m for m in _known(t) if m in t.methods(group)):
            a, b = (t.value(group, method, m, x) for m in ("accuracy", "brier"))
            spreads = [t.spread(group, method, m, x) for m in ("accuracy", "brier")]
            _point(ax, a, b, method, xerr=spreads[0], yerr=spreads[1])
            some[method] = (a, b)
        ax.set_title(title(group))
        _guessing(ax, named=ax in {axes[0], axes[-1]})
        ax.margins(0.1)
        ax.grid(linewidth=0.3)
        points.append(some)
    _at_the_right(axes, points)
    figure.supxlabel("accuracy, %")
    figure.supylabel("Brier score")
    return figure


def matched(t: RecordTable) -> Figure:
    """Brier score of a probabilistic method minus that of UTS, against their accuracies."""
    tops = ("UTS", "prior-matched, T only")
    figure, axes = _grid(2, 2, (3.4, 2.8), sharey=True, sharex=True)
    for ax, top in zip(axes, tops, strict=True):
        for method in (m for m in BASELINES if m in t.methods()):
            pairs = [
                [t.value(g, method, m, x) - t.value(g, top, m, x) for m in ("accuracy", "brier")]
                for g in t.groups()
                for x in t.degrees(g)
            ]
            colour, marker, _ = LOOK[method]
            ax.plot(*np.array(pairs).T, marker, color=colour, markersize=4, label=method)
        ax.axhline(0, color=ink(), linewidth=0.7)
        ax.axvspan(-EQUAL_ACCURACY, EQUAL_ACCURACY, color=ink(), alpha=0.08, linewidth=0)
        ax.set(title=f"beside one network with {top}")
        ax.grid(linewidth=0.3)
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("accuracy minus that of one network, points (grey: equally accurate)")
    figure.supylabel("Brier score minus that of one network")
    return figure


def combination(t: RecordTable) -> Figure:
    """Brier score of a probabilistic method alone, and with a method on top, by setting."""
    methods = t.methods()
    groups = t.groups()
    figure, axes = _grid(len(groups), 4, (2.3, 2.5), sharey=True, sharex="row")
    place = {m: i for i, m in enumerate(reversed(methods))}
    for ax, group in zip(axes, groups, strict=True):
        x = t.degrees(group)[0]
        for method in methods:
            alone, _, top = method.partition(" + ")
            value, sd = t.value(group, method, "brier", x), t.spread(group, method, "brier", x)
            _point(ax, value, place[method], top or alone, xerr=sd)
            if not top:
                ax.axvline(value, color=LOOK[alone][0], linewidth=0.6, linestyle=":")
        _guessing(ax, across=False)
        ax.set(title=title(group), yticks=list(place.values()))
        ax.set_yticklabels(place)
        ax.grid(axis="x", linewidth=0.3)
    figure.supxlabel("Brier score (dotted: alone; black: equal probabilities)")
    return figure


def foreign(t: RecordTable) -> Figure:
    """Mean confidence and accuracy over all rows, of which foreign ones are never right."""
    groups = t.groups()
    figure, axes = _grid(len(groups), 2, (2.9, 2.2), sharey=True)
    ends = []
    for ax, group in zip(axes, groups, strict=True):
        x = t.degrees(group)
        ends.append(_curves(t, ax, group, "confidence", _known(t)))
        right = [t.value(group, "uncalibrated", "accuracy", d) for d in x]
        ax.plot(x, right, color=ink(), linewidth=2.5, alpha=0.5)
        apart = "foreign" in group
        ax.set(title=title(group), xlabel="share of foreign rows" if apart else "grey levels")
    _at_the_right(axes, ends)
    figure.supylabel("mean confidence, %")
    return figure


FIGURES: dict[str, Callable[[RecordTable], Figure]] = {
    "table-1": table,
    "label-noise": noise,
    "sample-size": sizes,
    "sample-size-shift": sizes_under_shift,
    "cost": cost,
    "figure-shift": shifts,
    "figure-corruptions": corruptions,
    "probabilistic": probabilistic,
    "probabilistic-matched": matched,
    "combination": combination,
    "foreign": foreign,
}
