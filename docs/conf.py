"""Configuration of the manual: Sphinx, MyST Markdown, numpydoc docstrings."""

from __future__ import annotations

import inspect
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "temperance"
author = "temperance developers"
project_copyright = "2026, temperance developers"
release = version = installed("temperance")

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "tables",
]
PARTS = ("few_labels_*", "labelfree_*", "shifts", "skin_lesion_*", "speed-*")
INCLUDED = ("codes", "constants", *PARTS)  # parts of other pages
exclude_patterns = ["_build", *(f"_generated/{name}.md" for name in INCLUDED)]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"  # `fit_uts` in a docstring is a link
autodoc_mock_imports = ["safetensors.torch", "torch"]  # a gigabyte that the manual can do without
autodoc_typehints = "none"  # the docstrings say it, in a reader's words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False  # "array of shape (n, K)" is prose, not a reference to some n
napoleon_use_rtype = False

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_title = f"temperance {release}"
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Leave out what scikit-learn adds to estimators and explains itself; see through mocks."""
    app.connect("autodoc-skip-member", _is_routing)
    app.connect("autodoc-process-signature", _signature)


def _is_routing(_app: Sphinx, _what: str, name: str, _obj: object, skip: bool, *_: object) -> bool:
    return skip or (name.startswith("set_") and name.endswith("_request"))


def _signature(
    _app: Sphinx, what: str, _name: str, obj: Any, _options: object, given: str | None, *_: object
) -> tuple[str, None] | None:
    """Return how a class is made whose base, a module of torch, is mocked and takes anything."""
    if what != "class" or given != "(*args, **kwargs)":
        return None
    _, *parameters = inspect.signature(obj.__init__).parameters.values()  # without self
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain)), None
