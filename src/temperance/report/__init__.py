"""The report of a calibration: one HTML file that needs nothing else (extra: ``report``).

``to_html`` writes the page and ``summary_html`` the few lines that a notebook shows. Both are made
of the facts of a `Calibration` alone: nothing is computed from the data again, so the page stays
small whatever their size. It runs no script; the facts stand in it once more as JSON.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from temperance._core.checks import InputError, check_number
from temperance.calibrate.result import Audit, Calibration
from temperance.io.atomic import write_bytes
from temperance.report import texts
from temperance.report.context import MAX_ERROR, page_facts

if TYPE_CHECKING:
    import jinja2

__all__ = ["summary_html", "to_html"]


def to_html(
    calibration: Calibration,
    path: str | os.PathLike[str] | None = None,
    *,
    audit: Audit | None = None,
    title: str | None = None,
    model: str | None = None,
    date: str | None = None,
    max_error: float | None = None,
) -> str:
    """Return the report as one self-contained page, and write it when a path is given.

    An ``audit``, what labelled rows say, is set beside what was estimated without them.
    ``max_error``, 0.05 by default, is the share of wrong answers that may be accepted: the page
    says how many rows may be answered. The other arguments are those of `Calibration.to_html`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(5, size=1000)
    >>> z = 9 * (np.eye(5)[y] + rng.normal(size=(1000, 5)))
    >>> page = tp.calibrate(z, prior=np.full(5, 0.2)).to_html()
    >>> page[:15], "<script src" in page
    ('<!doctype html>', False)
    """
    page = template("report.html.jinja")  # before any drawing, which needs what templates need
    check_words(title=title, model=model, date=date)
    share = MAX_ERROR if max_error is None else check_number(max_error, "max_error", low=0, high=1)
    text = page.render(page_facts(calibration, audit, title, model, date, share))
    if path is not None:
        write_bytes(path, text.encode())
    return text


def check_words(**words: object) -> None:
    """Raise unless what a page is called is text."""
    for name, text in words.items():
        if not isinstance(text, str | None):
            raise InputError(f"{name} must be text. Got {type(text).__name__} instead.")


def summary_html(calibration: Calibration) -> str:
    """Return the verdict, the estimates and the findings as a fragment for a notebook."""
    return template("summary.html.jinja").render(page_facts(calibration, None))


def template(name: str) -> jinja2.Template:
    """Return a template of the pages."""
    try:
        import jinja2
    except ImportError as error:
        msg = "reports need the package jinja2: pip install temperance[report]."
        raise InputError(msg) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("temperance.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    for words in ("between", "cut", "evidence_text", "percent", "tenths"):
        environment.filters[words] = getattr(texts, words)
    return environment.get_template(name)
