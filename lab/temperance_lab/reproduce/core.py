"""Which label-free core a number was measured with: `temperance.calibrate` still changes.

Prior-matched scaling and `calibrate` give other numbers when the core changes; the methods of the
paper do not. So a record of theirs names the core, and a run with ``refresh`` measures again what
another core has measured.
"""

from __future__ import annotations

import ast
import hashlib
from importlib.resources import files

from temperance_lab.reproduce.record import SHA_DIGITS

__all__ = ["core_of", "core_of_today", "uses_core"]

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def uses_core(method: str) -> bool:
    """Return whether a method, alone or on top of an ensemble, is one of the core."""
    return "prior-matched" in method or method.startswith("calibrate")


def core_of(method: str) -> str | None:
    """Return the core that measures a method today; None for methods that do not use it."""
    return CORE if uses_core(method) else None


def core_of_today() -> str:
    """Return the first digits of the sha256 of the core's code, without comments and docstrings."""
    folder = files("temperance") / "calibrate"
    modules = sorted((f for f in folder.iterdir() if f.name.endswith(".py")), key=lambda f: f.name)
    total = hashlib.sha256()
    for module in modules:
        total.update(code_of(module.read_text(encoding="utf-8")).encode())
    return total.hexdigest()[:SHA_DIGITS]


def code_of(text: str) -> str:
    """Return the code of a module as Python would write it, without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


CORE = core_of_today()  # at import, with the code that is imported
