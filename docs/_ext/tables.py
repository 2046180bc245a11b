"""Parts of the manual that come from the code: constants, codes of findings, printed output.

Written to ``_generated`` before the pages are read: ``constants.md``, ``codes.md``, and, for each
page of `PRINTING`, what its examples print.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from temperance.calibrate import constants
from temperance.calibrate.findings import CODES

if TYPE_CHECKING:
    from sphinx.application import Sphinx

KINDS = (constants.Fitted, constants.Policy, constants.Numerical)
PRINTING = ("start.md", "guides/few-labels.md", "concepts/limits.md")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the tables when a build begins."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """Write all of it."""
    out = Path(app.srcdir) / "_generated"
    out.mkdir(exist_ok=True)
    (out / "constants.md").write_text(constants_table(), encoding="utf-8")
    (out / "codes.md").write_text(codes(), encoding="utf-8")
    for page in PRINTING:
        text = printed(Path(app.srcdir) / page)
        (out / Path(page).name).write_text(f"```text\n{text}```\n", encoding="utf-8")


def printed(page: Path) -> str:
    """Return what the examples of a page print, run in an empty directory."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    out, here = io.StringIO(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        os.chdir(folder)
        try:
            exec(compile("\n".join(blocks), page.name, "exec"), {})  # noqa: S102 - our own page
        finally:
            os.chdir(here)
    return out.getvalue()


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
    """Return a text with ``{share:.0%}`` as *share*."""
    return re.sub(r"\{(\w+)[^}]*\}", lambda m: f"*{m[1].replace('_', ' ')}*", text)
