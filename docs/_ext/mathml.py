"""Equations as MathML, which browsers draw themselves: no script, no font, no request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

TAG = re.compile(r"\\tag\{(.+?)\}")


def mathml(latex: str, display: str) -> str:
    r"""Return an equation as MathML; ``\arg`` and the space after ``\log`` are ours."""
    spaced = latex.replace(r"\arg", r"\text{arg}\,").replace(r"\log ", r"\log\, ")
    found = convert(spaced, display=display)
    if "\\" in found:
        raise ValueError(f"equations must use commands that latex2mathml knows. Got {latex!r}.")
    return found


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on lines of its own, its number at the right; a long one scrolls."""
    latex = node.astext()
    numbers = "".join(f"<span>({number})</span>" for number in TAG.findall(latex))
    equation = mathml(TAG.sub("", latex), "block")
    translator.body.append(f'<div class="equation">{equation}{numbers}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
