"""One look for all figures: colours that every reader tells apart, ink that follows the page.

Okabe and Ito, "Color universal design", 2008. A figure made here has no background, and in an SVG
its ink is ``currentColor``, so that it can be read on a light page and on a dark one. Colour is
never the only difference: lines differ in their dashes, markers or filling too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from temperance._core.checks import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, AFTER, SOURCE = "#D55E00", "#0072B2", "#009E73"
INK = "#1f2328"  # replaced by currentColor in an SVG
COLUMN = 3.4  # inches: one column of a two-column paper, where 8 point is still legible
MAX_LABEL_LENGTH = 24  # characters of a class name in a figure

LOOK = files("temperance.report") / "templates" / "figures.mplstyle"
STANDALONE = (
    "<style>:root{color:#1f2328}@media (prefers-color-scheme:dark){:root{color:#e6edf3}}</style>"
)


def pyplot() -> Any:
    """Return matplotlib.pyplot, or say which extra brings it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        msg = "figures need the package matplotlib: pip install temperance[report]."
        raise InputError(msg) from error
    return plt


@contextmanager
def styled() -> Iterator[None]:
    """Return a context in which figures have the look of this library."""
    plt = pyplot()
    with as_file(LOOK) as look, plt.style.context(look):
        yield
        interactive = plt.isinteractive()
    # A notebook's backend turns interactive drawing on when the first figure is made; were it
    # turned off again with the rest of the style, later figures would not be shown.
    plt.matplotlib.interactive(interactive)


def ink() -> str:
    """Return the colour of text, which lines of reference share."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def short(name: object) -> str:
    """Return a class name, cut to the length that fits a figure."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def svg_of(figure: Figure, *, standalone: bool) -> str:
    """Return a figure as SVG whose ink follows the page; the same figure gives the same text."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Names of the parts of two figures on one page must differ.
    salt = "".join(f"{ax.get_title()}{ax.get_xlabel()}{ax.get_ylabel()}" for ax in figure.axes)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    # Text without a colour of its own is black in SVG, whatever the page.
    text = text.replace("<svg ", '<svg fill="currentColor" ', 1)
    text = re.sub(r"(<text style=\")", r"\1fill: currentColor; ", text)
    if standalone:
        text = re.sub(r"(<svg[^>]*>)", lambda m: m[1] + STANDALONE, text, count=1)
    return text
