"""temperance-lab: image shifts, data sets, networks, and the paper's experiments.

Its modules load when they are first used: `networks` needs torch, `shifts` OpenCV.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from temperance_lab import datasets, networks, reproduce, shifts

__all__ = ["datasets", "networks", "reproduce", "shifts"]


def __getattr__(name: str) -> Any:
    """Load a module of the lab on its first use."""
    if name in __all__:
        return import_module(f"temperance_lab.{name}")
    raise AttributeError(f"module 'temperance_lab' has no attribute {name!r}")
