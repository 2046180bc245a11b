"""temperance-lab: the experiments of the paper: shifts, data sets, networks, and what they give."""

from __future__ import annotations

from temperance_lab import datasets, networks, shifts

__all__ = ["datasets", "networks", "shifts"]
