"""Tables of the skin-lesion study, from the records of lab/experiments/skin_lesion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

STUDY = Path(__file__).parents[1] / "experiments" / "skin_lesion"
RECORDS, LOGITS = STUDY / "records", STUDY / "logits"
SITES = ("rosendahl", "vidir_modern", "vidir_molemax")
COLUMNS = {
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "accuracy": "accuracy",
    "melanomas_found": "melanomas found",
}


def clinic(name: str) -> str:
    """One unseen clinic: what was said of it without labels, and what its labels say."""
    record = read(name)
    value, low, high = record["estimated_accuracy"]
    given = "prior-matched, clinic mix" if record["verdict"] == "improved" else "TS, source"
    true = record["calibrators"][given].get("accuracy", [float("nan")])[0]
    said = (
        f"{record['rows']:,} pictures of {record['lesions']:,} lesions, {record['melanomas']} of "
        f"them melanomas. Verdict of `temperance.calibrate` with the clinic's mix: "
        f"**{record['verdict']}**; estimated accuracy {value:.2f} ({low:.2f} to {high:.2f}), "
        f"measured {true:.2f}; to call every picture the most frequent diagnosis would be right in "
        f"{record['majority']:.2f}."
    )
    head = f"| map | T | {' | '.join(COLUMNS.values())} |"
    lines = [said, "", head, f"|---|---|{'---|' * len(COLUMNS)}"]
    for label, found in record["calibrators"].items():
        if "not_identified" in found:
            lines.append(f"| {label} | not identified |{' |' * len(COLUMNS)}")
            continue
        cells = [f"{found[key][0]:.3f}" for key in COLUMNS]
        lines.append(f"| {label} | {found['temperature']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def load() -> str:
    """What the server did under load."""
    record = read("load")
    latency = record["latency_seconds"]
    return (
        f"{record['workers']} workers on {record['cores']} core{'s'[: record['cores'] > 1]}, "
        f"{record['in_flight']} requests "
        f"in flight for {record['seconds']:.0f} seconds, one photograph each: "
        f"{record['requests']:,} requests, {record['errors']} errors, "
        f"{record['cases_recorded']:,} cases on record; {record['requests_per_second']:g} requests "
        f"a second, half of them answered within {latency['p50']:.2f} s and 99 % within "
        f"{latency['p99']:.2f} s, beside other work of load {record['load_of_others']:g} "
        f"(niceness {record['niceness']})."
    )


def study() -> str:
    """What the report of a silent study would have said at the unseen clinics."""
    record = read("study")
    head = "| clinic (truth) | known | estimated | measured alone |"
    parts = []
    for key, text in (
        ("accuracy", "Most probable diagnosis right"),
        ("sensitivity", "Melanomas referred or named"),
    ):
        lines = [f"{text}:", "", head, "|---|---|---|---|"]
        for name, found in record["clinics"].items():
            rows = [("the mix, roughly", found["mix_stated"][key], None)]
            for step in found["steps"]:
                n, measured = step["labels"], step.get("measured")
                words = f"{n} diagnoses" if n else "nothing"
                rows.append((words, step["estimated"][key], measured and measured[key]))
            for i, (known, *sides) in enumerate(rows):
                first = f"{name} ({found['truth'][key]:.2f})" if not i else ""
                lines.append(f"| {first} | {known} | {' | '.join(map(_side, sides))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _side(found: dict[str, float] | None) -> str:
    if not found:
        return "–"
    return f"{found['mean']:.2f}, interval of {found['width']:.2f}, holds {found['holds']:.0%}"


def maps() -> str:
    """What the rules of a new installation would do with a calibration for an unseen clinic."""
    head = ("clinic", "its mix of diagnoses", "verdict", "missed on the labelled sites")
    head += ("missed, expected here", "missed here, by all labels", "can be accepted")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, record in read("study")["clinics"].items():
        for mix, found in record["calibrated"].items():
            keys = ("missed_before", "missed_expected", "missed_here")
            shares = [f"{100 * found[key]:.1f} %" for key in keys]
            able = "**no**" if found["objection"] else "yes"
            lines.append(f"| {' | '.join([name, mix, found['verdict'], *shares, able])} |")
    return "\n".join(lines)


def foreign() -> str:
    """Who is referred for not looking like a lesion."""
    record = read("foreign")
    lines = [
        "| no lesions | pictures | answered without the test | answered with it |",
        "|---|---|---|---|",
    ]
    for name, found in record["no_lesions"].items():
        counts = (found["pictures"], found["answered_before"], found["answered"])
        lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in counts)} |")
    lines += [
        "",
        "| lesions | referred as foreign, trained on the site | and nothing of it seen |",
        "|---|---|---|",
    ]
    for site in SITES:
        shares = [record[kind][site] for kind in ("validation", "unseen")]
        cells = [
            f"{s['foreign']:,} of {s['pictures']:,} ({100 * s['foreign'] / s['pictures']:.1f} %)"
            for s in shares
        ]
        lines.append(f"| {site} | {' | '.join(cells)} |")
    return "\n".join(lines)


def skin_tone() -> str:
    """What becomes of validation pictures that are darkened."""
    found = read("skin_tone")["judged"]
    head = ("1,685 validation pictures", "not recognised", "not fit", "right", "mean confidence")
    head += ("answered without the rule", "of these wrong", "answered with the rule")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, o in found.items():
        keys = ("not_recognised", "not_fit", "right", "answered_before", "answered")
        *shares, before, after = (f"{100 * o[key][2]:.1f} %" for key in keys)
        wrong = "{2:.1%} ({3:.1%} to {4:.1%})".format(*o["wrong_before"]).replace("%", " %")
        cells = [*shares, f"{o['confidence']:.2f}", before, wrong, after]
        shown = name if name == "as taken" else f"darkened to {name}"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def read(name: str) -> dict[str, Any]:
    """Read a record."""
    return json.loads((RECORDS / f"{name}.json").read_text("utf-8"))


def intervals() -> str:
    """All clinics and maps as one table, with 95 % intervals."""
    records = [read(site) for site in SITES]
    head = (
        "| unseen clinic | map | T | NLL | Brier | ECE | accuracy | melanomas found | AURC |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for record in records:
        for name, found in record["calibrators"].items():
            if "not_identified" in found:
                lines.append(f"| {record['site']} | {name} | not identified | | | | | | |\n")
                continue
            cells = [
                f"{found[key][0]:.3f} [{found[key][1]:.3f}, {found[key][2]:.3f}]"
                for key in ("nll", "brier", "ece", "accuracy", "melanomas_found", "aurc")
            ]
            row = [record["site"], name, f"{found['temperature']:.2f}", *cells]
            lines.append(f"| {' | '.join(row)} |\n")
    return head + "".join(lines)


# Test rows and accuracy of the supplement's ResNet-200, in per cent; in the order of its table.
# Its "Bowen" is akiec, df dermatofibroma, vasc vascular lesions.
PRINTED = {
    "mel": (356, 60.67),
    "nv": (2146, 96.83),
    "bcc": (164, 82.93),
    "akiec": (105, 50.00),
    "bkl": (352, 73.86),
    "df": (37, 66.67),
    "vasc": (45, 91.67),
}
PRINTED_ALL = (3205, 89.14)


def slips() -> str:
    """What does not add up in the print of the supplement's table."""
    odd = [
        (name, n)
        for name, (n, share) in PRINTED.items()
        if all(f"{100 * right / n:.2f}" != f"{share:.2f}" for right in range(n + 1))
    ]
    n, printed = PRINTED_ALL
    together = sum(rows * share for rows, share in PRINTED.values()) / n
    return (
        f"In the supplement's table of ISIC, the test accuracies of {_listed(k for k, _ in odd)} "
        f"are no shares of {_listed(str(n) for _, n in odd)} pictures, and the seven classes "
        f"together give {together:.1f} %, where {printed:.2f} % is printed."
    )


def _listed(words: Iterable[str]) -> str:
    """Return words with commas, the last after an "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def classes() -> str:
    """Rows and accuracy of each diagnosis, on the labelled sites and at each unseen clinic."""
    lines = [
        ["diagnosis", *(f"{site}: {part}" for site in SITES for part in ("validation", "unseen"))],
    ]
    lines[0].append("supplement, ResNet-200")
    found = {site: np.load(LOGITS / f"ham_{site}.npz") for site in SITES}
    names = [str(name) for name in found[SITES[0]]["classes"]]
    for k, name in enumerate([*names, "all"]):
        cells = []
        for site in SITES:
            for part in ("source", "target"):
                y = found[site][f"{part}_labels"]
                right = found[site][f"{part}_logits"].argmax(axis=1) == y
                rows = np.ones(len(y), bool) if name == "all" else y == k
                share = f"{100 * right[rows].mean():.1f} %" if rows.any() else "–"
                cells.append(f"{rows.sum():,}, {share}")
        printed = PRINTED_ALL if name == "all" else PRINTED[name]
        lines.append([name, *cells, f"{printed[0]:,}, {printed[1]:.1f} %"])
    rule = ["---"] * len(lines[0])
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def cases() -> str:
    """Sixteen cases with all confidences in what the network said."""
    shown = read("cases")
    maps = list(shown[0]["confidence"])
    head = ["diagnosis", "network says", *maps, "label-free says"]
    names = [str(name) for name in np.load(LOGITS / f"ham_{SITES[0]}.npz")["classes"]]
    lines = [head, ["---"] * len(head)]
    for case in shown:
        said = (names[case[key]] for key in ("label", "predicted"))
        numbers = (f"{case['confidence'][m]:.2f}" for m in maps)
        lines.append([*said, *numbers, names[case["predicted_label_free"]]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    texts = {site: clinic(site) for site in SITES} | {
        "load": load(),
        "maps": maps(),
        "study": study(),
        "foreign": foreign(),
        "skin_tone": skin_tone(),
        "intervals": intervals(),
        "classes": classes(),
        "sixteen": cases(),
    }
    return {f"skin_lesion_{name}.md": f"{text}\n" for name, text in texts.items()}
