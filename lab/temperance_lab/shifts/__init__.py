"""Shifts of the paper's experiments, on whole batches of images.

Images are ``uint8``, (N, H, W, C) or grey (N, H, W), from 28 × 28 to 224 × 224 pixels and beyond;
the answer has the same shape and type.
"""

from __future__ import annotations

from temperance_lab.shifts.geometry import roll, rotate
from temperance_lab.shifts.registry import CORRUPTIONS, corrupt

__all__ = ["CORRUPTIONS", "corrupt", "roll", "rotate"]
