"""Configuration of the manual: Sphinx, MyST Markdown, numpydoc docstrings."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "temperance"
author = "temperance developers"
project_copyright = "2026, temperance developers"
release = version = installed("temperance")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"temperance {release}"
html_copy_source = False
