"""The words of the help: options that several commands share, and what stands below a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

FLAG = Parameter(negative="", show_default=False)

Json = Annotated[bool, FLAG, Parameter(help="Print JSON, and nothing else, on stdout.")]
Out = Annotated[Path, Parameter(name="--out")]
Classes = Annotated[
    str | None, Parameter(help="Class names: cat,dog,owl or a JSON file, if the file has none.")
]
Labels = Annotated[
    Path | None, Parameter(help="Labels in a .npy file of their own, beside logits in a .npy file.")
]
Probabilities = Annotated[
    bool,
    FLAG,
    Parameter(help="The files hold probabilities (prob_0, prob_1, ...) in place of logits."),
]
MinAccuracy = Annotated[
    float | None, Parameter(help="Gate: exit 1 if the accuracy is smaller or not known.")
]
MaxEce = Annotated[
    float | None,
    Parameter(
        help="Gate: exit 1 if the calibration error, after calibration, is larger or not known."
    ),
]
MaxError = Annotated[
    float | None,
    Parameter(
        help="Say from which confidence rows may be accepted, so that at most this share is wrong."
    ),
]
Title = Annotated[str | None, Parameter(help="Title of the page.")]
Model = Annotated[
    str | None, Parameter(help="Name of the model, as the readers of the page know it.")
]
Method = Literal["temperature", "vector", "matrix", "biased", "attended"]

FRONT = """Begin with: temperance demo

Files of logits: .npz and .safetensors (logits, labels, classes, prior, groups),
.csv and .parquet (logit_0, logit_1, ..., label, group), .npy (logits alone).
With --probabilities: prob_0, prob_1, ..., or an array named probabilities.

Exit codes: 0 done; 1 refused, or a gate missed; 2 bad usage or bad input;
70 a defect of this program (--debug shows where); 130 interrupted."""

EXAMPLES = {
    "calibrate": """Examples:

  temperance calibrate target.npz --prior prior.json --out cal.json
  temperance calibrate target.npz --source val.npz --report report.html --title "Week 47"
  temperance calibrate clinic.csv --prior 0.7,0.2,0.1 --json | jq .verdict
  temperance calibrate forest.csv --probabilities --prior uniform
  temperance calibrate week.parquet --source val.npz --min-accuracy 0.85
  temperance calibrate week.parquet --source val.npz --labelled thirty.csv
  temperance calibrate week.parquet --source val.npz --max-error 0.05

The prior is the class mix of the target. prior.json holds a list in the order
of the classes, or an object by class name; a pair [low, high] is a range, and
{"about": [...], "rows": 100} says how well the mix is known. Without --prior
the one inside the file is used; without either, few predictions
change.""",
    "fit": """Examples:

  temperance fit val.npz --out map.json
  temperance fit val.csv --method matrix --penalty 0.1 --out map.json
  temperance fit logits.npy --labels labels.npy --out map.json""",
    "apply": """Examples:

  temperance apply new.npz --map cal.json --out calibrated.npz
  temperance apply new.csv --map cal.json --out confidence.csv --probabilities""",
    "evaluate": """Examples:

  temperance evaluate test.npz
  temperance evaluate test.npz --map cal.json --json
  temperance evaluate test.npz --map cal.json --max-ece 0.05""",
    "report": """Examples:

  temperance report cal.json --out report.html
  temperance report cal.json --labelled audit.npz --out report.html""",
    "inspect": """Examples:

  temperance inspect cal.json
  temperance inspect map.json --json""",
    "monitor": """Examples:

  temperance monitor start state.jsonl --source val.npz --min-accuracy 0.85
  temperance monitor add state.jsonl today.parquet --segment site || notify
  temperance monitor add state.jsonl --at 2026-11-16 --labelled thirty.csv
  temperance monitor add state.jsonl history.parquet --dates day --every week
  temperance monitor show state.jsonl --prometheus > temperance.prom
  temperance monitor report state.jsonl --out monitor.html
  temperance monitor propose state.jsonl --out cal.json
  temperance monitor accept state.jsonl

Exit codes: 1 an alarm, or a proposal that is not within the limits.""",
    "demo": """Example:

  temperance demo --out demo""",
}
