"""Count the bytes of the checkout and the untyped lines of the library; both have a limit.

With ``--table``, the lines of the library are shown by package and kind.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "temperance"
KINDS = ("code", "import", "docstring", "comment", "blank")
LIMITS = {"bytes of the checkout": 8_000_000, "untyped lines of the library": 600}


def untyped(text: str) -> int:
    """Return the number of lines that name ``Any``; all lines where pyright checks but basics."""
    if "# pyright: basic" in text:
        return text.count("\n")
    nodes = list(ast.walk(ast.parse(text)))
    names = [node.lineno for node in nodes if isinstance(node, ast.Name) and node.id == "Any"]
    casts = [
        node.lineno for node in nodes if isinstance(node, ast.Constant) and node.value == "Any"
    ]
    return len({*names, *casts})


def kinds(text: str) -> list[str]:
    """Return the kind of every line of a module."""
    lines = ["code" if line.strip() else "blank" for line in text.splitlines()]

    def mark(node: ast.stmt, kind: str) -> None:
        for number in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[number] = kind

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            mark(node, "import")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            mark(node, "docstring")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            lines[token.start[0] - 1] = "comment"
    return lines


def print_table(texts: dict[Path, str]) -> None:
    """Print the lines of the library by package and kind."""
    table: dict[str, Counter[str]] = {}
    for path, text in texts.items():
        table.setdefault(path.relative_to(LIBRARY).parts[0], Counter()).update(kinds(text))
    table["all"] = sum(table.values(), Counter())
    print(f"\n{'':16}" + "".join(f"{kind:>10}" for kind in (*KINDS, "all")))
    for package, counts in table.items():
        numbers = [*(counts[kind] for kind in KINDS), counts.total()]
        print(f"{package:16}" + "".join(f"{number:>10,}" for number in numbers))


def main() -> int:
    """Print the counts; return 1 where one is above its limit."""
    texts = {path: path.read_text("utf-8") for path in sorted(LIBRARY.rglob("*.py"))}
    found = {"untyped lines of the library": sum(map(untyped, texts.values()))}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)  # noqa: S607
    if listed.returncode == 0:  # else the files are no checkout
        files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
        found["bytes of the checkout"] = sum(p.stat().st_size for p in files if p.exists())
    for what, count in found.items():
        print(f"{what:30}{count:>10,} of at most {LIMITS[what]:,}")
    if "--table" in sys.argv:
        print_table(texts)
    return int(any(count > LIMITS[what] for what, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
