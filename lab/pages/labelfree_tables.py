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


def left_out(name: str, digits: int, **more: tuple[str, str]) -> str:
    """Return how little a constant depends on the families it was chosen on."""
    keys = ("error_with_best_here", "error_with_best_on_others", "error_as_shipped")
    heads = ["error with best here", "error, left out", "error as shipped", *more]
    rows = [
        [
            plain(family),
            f"{f['best_here']:g}",
            f"{f['best_on_others']:g}",
            *(f"{f[k]:.{digits}f}" for k in keys),
            *(form.format(f[key]) for key, form in more.values()),
        ]
        for family, f in record("leave_one_out")[name].items()
    ]
    return table(["family", "best value here", "best on the others", *heads], rows)


def stretch() -> str:
    """Return the study of STRETCH."""
    return left_out("families", 3)


def mended() -> str:
    """Return the study of TWICE, with the ratio of errors that it stands for."""
    return left_out("mended", 1, **{"ratio of errors": ("ratio_of_errors", "{:.1f}")})


def moved() -> str:
    """Return the study of MOVED."""
    head = ["family", "best value here", "best on the others", "covered without", "as shipped"]
    rows = [
        [
            plain(family),
            f"{f['best_here']:.1f}",
            f"{f['best_on_others']:.1f}",
            f"{f['covered_without']:.0%}",
            f"{f['covered_as_shipped']:.0%}",
        ]
        for family, f in record("leave_one_out")["moved"].items()
    ]
    return table(head, rows)


def regret() -> str:
    """Return the regret of every method, over all families and over those of the shared data."""
    summary = record("summary")
    head = [
        "method",
        f"Brier, {len(summary['families'])} families",
        "NLL",
        "ECE",
        "accuracy, points",
        "Brier, shared-data families",
    ]
    rows = [
        [
            name,
            f"{row['brier_regret']:+.1f}",
            f"{row['nll_regret']:+.3f}",
            f"{row['ece']:.3f}",
            f"{row['accuracy_gain']:+.1f}",
            f"{summary['over_shared_data_families'][name]['brier_regret']:+.1f}",
        ]
        for name, row in summary["over_families"].items()
    ]
    return table(head, rows)


def families() -> str:
    """Return the regret of the flagship and of what it is compared with, family by family."""
    compared = ["TS-source", "UTS", "prototype", "prior-matched"]
    head = ["Brier regret", "shifts", *compared, "unshifted", "worst against TS-source, front door"]
    front, rows = record("summary")["front_door"]["by_family"], []
    for name in record("summary")["families"]:
        summary = record(name)["summary"]
        still = summary["prior-matched"].get("unshifted")
        rows.append(
            [
                plain(name),
                str(front[name]["shifts"]),
                *(f"{summary[method]['brier_regret']:+.1f}" for method in compared),
                "" if still is None else f"{still:+.2f}",
                f"{front[name]['worst_brier_against_source']:+.1f}",
            ]
        )
    return table(head, rows)


def verdicts() -> str:
    """Return how often each verdict was given, and how often "improved" was right."""
    real = record("summary")["front_door"]["over_all"]
    unseen = record("unseen")
    every = {
        "real": real,
        **{f"simulated, {name}": found for name, found in record("simulated").items()},
    }
    others = {
        "other models, looked at": unseen["looked_at"]["front_door"]["over_all"],
        "other models, judged once": unseen["judged_once"]["front_door"]["over_all"],
    }
    head = [
        "scenarios",
        "shifts",
        "improved",
        "ECE fell",
        "Brier fell",
        "without TP404",
        "ECE fell",
    ]
    rows = [[name, *counts(found)] for name, found in every.items()]
    rows.append(["all of these", *counts(pooled(list(every.values())))])
    rows += [[name, *counts(found)] for name, found in others.items()]
    return table([*head, "no evidence", "refused"], rows)


def pooled(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts of verdicts added up, and shares over all of them."""
    sums = {
        key: sum(part[key] for part in parts)
        for key in ("shifts", "improved", "certain", "no_evidence", "refused")
    }
    over = {"improved_right": "improved", "improved_better": "improved", "certain_right": "certain"}
    shares = {
        key: sum(part[of] * part[key] for part in parts) / sums[of] for key, of in over.items()
    }
    return sums | shares


def counts(found: dict[str, Any]) -> list[str]:
    """Return one row of the table of verdicts."""
    return [
        str(found["shifts"]),
        str(found["improved"]),
        f"{found['improved_right']:.1%}",
        f"{found['improved_better']:.1%}",
        str(found["certain"]),
        f"{found['certain_right']:.1%}",
        str(found["no_evidence"]),
        str(found["refused"]),
    ]


def coverage() -> str:
    """Return how often the 90 % intervals hold the truth."""
    columns = {
        "accuracy before": "accuracy_before",
        "accuracy after": "accuracy",
        "T": "temperature",
        "ECE before": "ece_before",
        "ECE after": "ece_after",
    }
    rows = [
        [
            plain(name),
            f"{f['improved']}, {f['improved_right']:.0%}" if f["improved"] else "none",
            *(f"{f['coverage'][key]:.0%}" for key in columns.values()),
        ]
        for name, f in record("summary")["front_door"]["by_family"].items()
    ]
    return table(["family", "improved, right", *columns], rows)


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


def doubt() -> str:
    """Return what a roughly known class mix does, taken as known and as what it is."""
    head = ["prior from a count of", "handed over", "Brier, map", "worst", "harmed", "refused"]
    head += ["improved, right", "harmed, front door", "worst"]
    rows = []
    for name, f in record("wrong_prior")["by_rows"].items():
        count, _, how = name.partition(", as ")
        ways = {"known": "as known", "about": f"about(q, rows={count})"}
        rows.append(
            [
                f"{count} rows" if how else {"known": "the truth"}.get(name, "nothing"),
                ways.get(how or name, "not at all: estimated"),
                f"{f['brier_against_source']:+.0f}",
                f"{f['worst']:+.0f}",
                f"{f['harmed']:.0%}",
                f"{f['refused']:.0%}",
                f"{f['improved']}, {f['improved_right']:.0%}",
                f"{f['harmed_by_the_front_door']:.0%}",
                f"{f['worst_by_the_front_door']:+.0f}",
            ]
        )
    return table(head, rows)


def judged(found: dict[str, Any]) -> str:
    """Return the regret, the verdict and the coverage of one study, model by model."""
    compared = ["TS-source", "UTS", "prototype", "prior-matched, T only", "prior-matched"]
    head = ["Brier regret", *compared, "improved, right", "without TP404", "refused", "covered"]
    rows = []
    for model, summary in found["models"].items():
        door = found["front_door"]["by_family"][model]
        rows.append(
            [
                plain(model),
                *(f"{summary[method]['brier_regret']:+.1f}" for method in compared),
                f"{door['improved']}, {door['improved_right']:.0%}" if door["improved"] else "none",
                f"{door['certain']}, {door['certain_right']:.0%}" if door["certain"] else "none",
                str(door["refused"]),
                ", ".join(f"{door['coverage'][key]:.0%}" for key in ("accuracy", "ece_after")),
            ]
        )
    return table(head, rows)


def offsets() -> str:
    """Return what is made of class offsets alone, each network over all sizes and draws."""
    compared = ["uncalibrated", "TS-source", "UTS", "prototype", "prior-matched", "TS-Target"]
    head = ["ECE", *compared, "accuracy", "Brier regret", "improved, right", "no evidence"]
    rows = []
    for name, sizes in record("offsets")["networks"].items():
        mean = {
            method: {
                key: sum(found[method][key] for found in sizes.values()) / len(sizes)
                for key in ("ece", "accuracy", "brier")
            }
            for method in compared
        }
        door = [one for found in sizes.values() for one in found["front_door"]]
        right = [one["right"] for one in door if one["verdict"] == "improved"]
        rows.append(
            [
                plain(name),
                *(f"{mean[method]['ece']:.3f}" for method in compared),
                f"{mean['uncalibrated']['accuracy']:.1%} → {mean['prior-matched']['accuracy']:.1%}",
                f"{mean['prior-matched']['brier'] - mean['TS-Target']['brier']:+.0f}",
                f"{len(right)}, {sum(right) / len(right):.0%}" if right else "none",
                str(sum(one["verdict"] == "no-evidence" for one in door)),
            ]
        )
    return table(head, rows)


def plain(name: str) -> str:
    """Return a name as a reader writes it."""
    return name.replace("_", " ")


TABLES = {
    "stretch": stretch,
    "mended": mended,
    "moved": moved,
    "regret": regret,
    "families": families,
    "verdicts": verdicts,
    "coverage": coverage,
    "uts": uts,
    "protocol": protocol,
    "doubt": doubt,
    "unseen": lambda: judged(record("unseen")["looked_at"]),
    "judged_once": lambda: judged(record("unseen")["judged_once"]),
    "offsets": offsets,
    "two_classes": lambda: judged(record("two_classes")),
}


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    return {f"labelfree_{name}.md": make() for name, make in TABLES.items()}
