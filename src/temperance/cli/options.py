"""The words of the help: options that several commands share, and examples (``help.toml``)."""

from __future__ import annotations

import tomllib
from importlib.resources import files
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

_HELP = files("temperance.cli").joinpath("help.toml").read_text("utf-8")
EXAMPLES: dict[str, str] = tomllib.loads(_HELP)
