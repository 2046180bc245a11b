"""Options that several commands share, with their words in the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print JSON, and nothing else, on stdout.",
    ),
]
Out = Annotated[Path, Parameter(name="--out")]
OptionalOut = Annotated[Path | None, Parameter(name="--out")]
Classes = Annotated[
    str | None, Parameter(help="Class names: cat,dog,owl or a JSON file, if the file has none.")
]
Labels = Annotated[
    Path | None, Parameter(help="Labels in a .npy file of their own, beside logits in a .npy file.")
]
Method = Literal["temperature", "vector", "matrix", "biased", "attended"]
