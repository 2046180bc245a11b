"""Count the checkout, the library's lines and its untyped lines, and refuse more than the limits.

python .ci/sizes.py            the counts and their limits
python .ci/sizes.py --table    lines of the library by package and kind
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
LIMITS = {"bytes of the checkout": 8_000_000, "lines of the library": 22_500, "untyped lines": 600}


def kinds(text: str) -> list[str]:
    """Return the kind of every line of a module."""
    lines = ["code" if line.strip() else "blank" for line in text.splitlines()]

    def mark(node: ast.stmt, kind: str) -> None:
        lines[node.lineno - 1 : node.end_lineno] = [kind] * (node.end_lineno - node.lineno + 1)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            mark(node, "import")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            mark(node, "docstring")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            lines[token.start[0] - 1] = "comment"
    return lines


def untyped(text: str) -> int:
    """Return the number of lines that name ``Any``; all lines where pyright checks but basics."""
    if "# pyright: basic" in text:
        return text.count("\n")
    names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
    quoted = {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value == "Any"  # cast("Any", …)
    }
    return len(quoted | {name.lineno for name in names if name.id == "Any"})


def main() -> int:
    """Print the counts; return 1 where one is above its limit."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = {path: path.read_text("utf-8") for path in sorted(LIBRARY.rglob("*.py"))}
    found = {
        "bytes of the checkout": sum(path.stat().st_size for path in files if path.exists()),
        "lines of the library": sum(text.count("\n") for text in texts.values()),
        "untyped lines": sum(map(untyped, texts.values())),
    }
    for what, limit in LIMITS.items():
        print(f"{what:22} {found[what]:>10,} of at most {limit:,}")
    if "--table" in sys.argv:
        table: dict[str, Counter[str]] = {}
        for path, text in texts.items():
            package = path.relative_to(LIBRARY).parts[0]
            table.setdefault(package, Counter()).update(kinds(text))
        table["all"] = sum(table.values(), Counter())
        print(f"\n{'':16}" + "".join(f"{kind:>10}" for kind in (*KINDS, "all")))
        for package, counts in table.items():
            numbers = [*(counts[kind] for kind in KINDS), counts.total()]
            print(f"{package:16}" + "".join(f"{number:>10,}" for number in numbers))
    return int(any(found[what] > limit for what, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
