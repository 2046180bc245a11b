"""Parts of the manual that come from the code: constants, codes of findings, printed output.

``constants.md`` and ``codes.md`` are written to ``_generated`` before the pages are read. Examples
run when their page is read, and what an example prints is shown below it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from temperance.calibrate import constants
from temperance.calibrate.findings import CODES

if TYPE_CHECKING:
    from sphinx.application import Sphinx

KINDS = (constants.Fitted, constants.Policy, constants.Numerical)
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SILENT = {"experiments", "tracking"}  # trains a network; needs packages of others
RUN = """\
import contextlib, io, json, sys
held, printed = {}, []
for example in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "example", "exec"), held)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the tables when a build begins, and show what examples print."""
    app.connect("builder-inited", write)
    app.connect("source-read", show_output)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """Write all of it."""
    out = Path(app.srcdir) / "_generated"
    out.mkdir(exist_ok=True)
    (out / "constants.md").write_text(constants_table(), encoding="utf-8")
    (out / "codes.md").write_text(codes(), encoding="utf-8")


def show_output(_app: Sphinx, name: str, source: list[str]) -> None:
    """Run the examples of a page in an empty directory, and show what each prints below it."""
    examples = [example for example in EXAMPLE.findall(source[0]) if "mlflow" not in example]
    if name in SILENT or "print(" not in "".join(examples):
        return
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603 - our own pages
            [sys.executable, "-c", RUN],
            input=json.dumps(examples),
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
    if "ModuleNotFoundError" in done.stderr:  # of a package that the manual can do without
        return
    if done.returncode:
        raise RuntimeError(f"the examples of {name} must run.\n{done.stderr}")
    printed = dict(zip(examples, json.loads(done.stdout), strict=True))

    def shown(example: re.Match[str]) -> str:
        text = printed.get(example[1])
        return f"{example[0]}\n\n```text\n{text}```" if text else example[0]

    source[0] = EXAMPLE.sub(shown, source[0])


def constants_table() -> str:
    """Return one table of all constants: kind, names with values, the comment in the source."""
    lines = ["| kind | constants | meaning |", "|---|---|---|"]
    for kind in KINDS:
        for meaning, group in groupby(described(kind), key=lambda row: row[2]):
            values = "<br>".join(f"`{name}` {value:.10g}" for name, value, _ in group)
            lines.append(f"| {kind.__name__.lower()} | {values} | {meaning} |")
    return "\n".join(lines) + "\n"


def described(kind: type) -> list[tuple[str, float, str]]:
    """Return name, value and comment of each field: behind the field, or above its group."""
    source = inspect.getsource(kind).splitlines()
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101 - the caller hands classes over
    rows: list[tuple[str, float, str]] = []
    for field in body.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name, line = field.target.id, field.lineno - 1
        behind = source[line].partition("#")[2].strip()
        rows.append((name, getattr(kind, name), behind or _above(source, line)))
    return rows


def _above(source: list[str], line: int) -> str:
    """Return the comment above a group of fields; raises IndexError where there is none."""
    while not source[line].lstrip().startswith("#"):
        line -= 1
    last = line
    while source[line - 1].lstrip().startswith("#"):
        line -= 1
    return " ".join(one.strip(" #") for one in source[line : last + 1])


def codes() -> str:
    """Return one section for each code, numbers of a finding in italics."""
    out: list[str] = []
    for code, (severity, title, advice) in CODES.items():
        out += [f"({code.lower()})=", f"## {code}", "", f"**{severity}**: {_named(title)}", ""]
        out += [_named(advice), ""]
    return "\n".join(out)


def _named(text: str) -> str:
    """Return a text with ``{share:.0%}`` as *share* %."""

    def shown(found: re.Match[str]) -> str:
        return f"*{found[1].replace('_', ' ')}*" + " %" * found[2].endswith("%")

    return re.sub(r"\{(\w+)([^}]*)\}", shown, text)
