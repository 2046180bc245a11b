"""Tables of label-free calibration, from the records of lab/experiments/labelfree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[1] / "experiments" / "labelfree" / "records"


def record(name: str) -> dict[str, Any]:
    """Return one record."""
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def settings(group: str, of: str = "settings") -> str:
    """Return what each setting of knowledge is worth on one group of families."""
    found = record(of)[group]
    head = ["what is known", "Brier regret", "NLL regret", "ECE", "accuracy, points", "harmed"]
    head += ["worst", "improved", "of these right, Brier", "ECE", "accuracy covered", "ECE covered"]
    rows = [
        [
            name,
            f"{f['regret']:+.1f}",
            f"{f['nll']:+.3f}",
            f"{f['ece']:.3f}",
            f"{f['gain']:+.1f}",
            f"{f['harmed']:.1%}",
            f"{f['worst']:+.0f}",
            str(f["improved"]),
            "–" if f["right"] is None else f"{f['right']:.0%}",
            "–" if f["right_ece"] is None else f"{f['right_ece']:.0%}",
            f"{f['covers']:.0%}",
            f"{f['covers_ece']:.0%}",
        ]
        for name, f in found.items()
        if isinstance(f, dict) and "harmed" in f
    ]
    rows.append(["TS-source", f"{found['TS-source']:+.1f}", *[""] * 10])
    rows.append(["the model's own", f"{found['own']:+.1f}", *[""] * 10])
    return table(head, rows)


# What the reader has, what to call, how the answer is named in the record, and how it fails.
DECISION = (
    (
        "labels of a thousand or more new rows",
        "`tp.fit_temperature(z, y)`; `tp.fit_vector` or `tp.fit_matrix` where classes differ",
        "all labels",
        "other data need labels of their own",
    ),
    (
        "labels of some new rows (here 30); a labelled source; the class mix, known",
        "`tp.calibrate(z, prior, source, labelled=…)`: [guide](guides/few-labels.md)",
        "exact mix, 30 labels",
        "labels of rows picked by hand pull the answer to their side",
    ),
    (
        "labels of some new rows (here 30); a labelled source",
        "`tp.calibrate(z, source=source, labelled=…)`",
        "no mix, 30 labels",
        "the same; five labels of text or tables tell little",
    ),
    (
        "no new labels; a labelled source; the class mix, known",
        "`tp.calibrate(z, prior, source)`",
        "exact mix",
        "a class mix that is wrong moves predictions the wrong way",
    ),
    (
        "the same, the class mix counted on some rows",
        "`tp.calibrate(z, tp.about(mix, rows=100), source)`",
        "mix of 100 rows",
        "the same, but less: few rows count little",
    ),
    (
        "no new labels; a labelled source",
        "`tp.calibrate(z, source=source)`",
        "no mix",
        "a shift that leaves no trace in the logits is not seen",
    ),
    (
        "no new labels; the class mix",
        "`tp.calibrate(z, prior)`",
        "no source",
        "intervals are wide, and for images still too narrow",
    ),
    (
        "new logits and nothing else",
        "label thirty rows",
        None,
        "no method can answer: [any temperature fits the logits](concepts/limits.md)",
    ),
    (
        "old labelled rows, and new rows of the same kind",
        "`tp.fit_temperature(z_old, y_old)`",
        "TS-source",
        "under a shift the model stays too sure",
    ),
)


def decision() -> str:
    """Return what to call with what the reader has, what it gains, and how it fails."""
    found = record("settings")
    groups = ("text and tables", "images")
    rows = []
    for holds, call, name, fails in DECISION:
        gains = ["–" if name is None else f"{_gain(found[g], name):.0f}" for g in groups]
        known = name is not None and isinstance(found[groups[0]].get(name), dict)
        harmed = [f"{found[g][name]['harmed']:.0%}" for g in groups] if known else []
        both = ("\u00a0/\u00a0".join(part) or "–" for part in (gains, harmed))  # on one line
        rows.append([holds, call, *both, fails])
    return table(["You have", "Call", "gain", "harmed", "How it fails"], rows)


def _gain(found: dict[str, Any], name: str) -> float:
    """Return the fall of the Brier score, times 1000, against the model's own probabilities."""
    if name == "all labels":
        return found["own"]
    if name in found["labels"]:
        return found["own"] - found["labels"][name]
    return found["own"] - (found[name] if name == "TS-source" else found[name]["regret"])


def families() -> str:
    """Return the Brier regret of each setting, family by family."""
    found = record("settings")
    rows = []
    groups = [name for name in found if name.endswith(("text and tables", "images"))]
    for group in groups:
        for family, f in found[group]["by_family"].items():
            sets = str(f["sets"])
            rows.append([plain(family), sets, *(f"{f[n]:+.1f}" for n in f if n != "sets")])
    names = next(iter(found["images"]["by_family"].values()))
    return table(["family", "sets", *(n for n in names if n != "sets")], rows)


def labels() -> str:
    """Return the Brier regret by the number of labels."""
    found = record("settings")
    counts = (10, 30, 100)
    rows = []
    for group in ("text and tables", "images"):
        f = found[group]
        for name in ("TS", "no mix", "exact mix"):
            none = f["TS-source"] if name == "TS" else f[name]["regret"]
            some = (f["labels"][f"{name}, {n} labels"] for n in counts)
            what = "temperature scaling on these labels" if name == "TS" else f"calibrate, {name}"
            rows.append([group, what, f"{none:+.1f}", *(f"{s:+.1f}" for s in some)])
    return table(["", "", "no label", *(f"{n} labels" for n in counts)], rows)


def labels_covered() -> str:
    """Return how often the interval of the accuracy holds the truth, by the number of labels."""
    found = record("settings")
    counts = (10, 30, 100)
    rows = []
    for group in ("text and tables", "images"):
        f = found[group]
        for name in ("no mix", "exact mix"):
            some = (f["labels_cover"][f"{name}, {n} labels"] for n in counts)
            rows.append([group, name, f"{f[name]['covers']:.0%}", *(f"{s:.0%}" for s in some)])
    return table(["", "", "no label", *(f"{n} labels" for n in counts)], rows)


def features() -> str:
    """Return what the layer before the logits adds where no class mix is known."""
    head = ["network", "shifts", "TS-source", "no features", "with features"]
    head += ["covered without", "covered with"]
    rows = [
        [
            plain(name),
            str(f["shifts"]),
            *(f"{f[key]:+.0f}" for key in ("TS-source", "without", "with")),
            *(f"{f[f'{key}, covered']:.0%}" for key in ("without", "with")),
        ]
        for name, f in record("features")["networks"].items()
    ]
    return table(head, rows)


def leave_one_out() -> str:
    """Return what each fitted constant is worth on families that did not choose it."""
    found = record("leave_one_out")
    head = ["constant", *(f"times {factor:g}" for factor in found["factors"])]
    head += ["chosen by the other families"]
    rows = [
        [
            f"`{name}`",
            *(f"{value:+.1f}" for value in f["by_factor"]),
            f"{f['left_out']:+.1f}",
        ]
        for name, f in found["constants"].items()
    ]
    return table(head, rows)


def uts() -> str:
    """Return what UTS does on networks without a shift."""
    head = ["network", "NLL before", "UTS", "TS, with labels", "gap closed"]
    head += ["T, 2,000 rows", "T, 10,000 rows", "T with labels"]
    rows = [
        [
            plain(name),
            *(f"{f['nll'][key]:.3f}" for key in ("uncalibrated", "uts", "ts")),
            f"{f['gap_closed']:.0%}",
            *(f"{f['temperature'][key]:.2f}" for key in ("uts", "uts_all_rows", "ts")),
        ]
        for name, f in record("uts_networks").items()
    ]
    return table(head, rows)


def protocol() -> str:
    """Return what UTS gives on the paper's protocol, with the spread between draws."""
    found = record("uts_protocol")
    digits = {"temperature": 3, "nll": 4, "ece": 4}
    rows = [
        [
            f"{found['draws']} {kind} draws",
            *(f"{f[key]['mean']:.{d}f} ± {f[key]['spread']:.{d}f}" for key, d in digits.items()),
            *(f"{f[key]['first_20']:.{d}f}" for key, d in digits.items()),
        ]
        for kind, f in found.items()
        if isinstance(f, dict)
    ]
    return table(["", "T", "NLL", "ECE", "T, first 20", "NLL, first 20", "ECE, first 20"], rows)


def plain(name: str) -> str:
    """Return a name as a reader writes it."""
    return name.replace("_", " ")


TABLES = {
    "decision": decision,
    "worlds": lambda: settings("text and tables"),
    "public": lambda: settings("public text and tables"),
    "public_first": lambda: settings("public text and tables", "public_first"),
    "newest": lambda: settings("newest text and tables"),
    "newest_first": lambda: settings("newest text and tables", "newest_first"),
    "more": lambda: settings("more text and tables"),
    "more_first": lambda: settings("more text and tables", "more_first"),
    "images": lambda: settings("images"),
    "two_classes": lambda: settings("two classes"),
    "unshifted": lambda: settings("unshifted"),
    "families": families,
    "features": features,
    "labels": labels,
    "labels_covered": labels_covered,
    "leave_one_out": leave_one_out,
    "uts": uts,
    "protocol": protocol,
}


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    return {f"labelfree_{name}.md": make() for name, make in TABLES.items()}
