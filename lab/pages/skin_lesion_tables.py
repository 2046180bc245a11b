"""Tables of the skin-lesion study, from the records of lab/experiments/skin_lesion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[1] / "experiments" / "skin_lesion" / "records"
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
        f"{record['workers']} workers on {record['cores']} cores, {record['in_flight']} requests "
        f"in flight for {record['seconds']:.0f} seconds, one photograph each: "
        f"{record['requests']:,} requests, {record['errors']} errors, "
        f"{record['cases_recorded']:,} cases on record; {record['requests_per_second']:g} requests "
        f"a second, half of them answered within {latency['p50']:.2f} s and 99 % within "
        f"{latency['p99']:.2f} s, beside other work of load {record['load_of_others']:g} "
        f"(niceness {record['niceness']})."
    )


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


def tables() -> dict[str, str]:
    """Return the text of each table by the name of its file."""
    texts = {site: clinic(site) for site in SITES} | {
        "load": load(),
        "foreign": foreign(),
        "intervals": intervals(),
    }
    return {f"skin_lesion_{name}.md": f"{text}\n" for name, text in texts.items()}
