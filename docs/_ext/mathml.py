"""Equations as MathML, which browsers draw themselves: no script, no font, no request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def drawn(latex: str, display: str) -> str:
    r"""Return MathML; the converter knows no ``\arg`` and leaves no room before a ``\tag``."""
    known = re.sub(r"\\arg\\(max|min)", r"\\mathrm{arg\1}", latex)
    return convert(known, display=display).replace("<mtext>(", '<mspace width="2em" /><mtext>(')


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a line."""
    translator.body.append(drawn(node.astext(), "inline"))
    raise nodes.SkipNode


def display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on lines of its own; a long one scrolls inside its box."""
    translator.body.append('<div class="equation">')
    translator.body.append(drawn(node.astext(), "block"))
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
