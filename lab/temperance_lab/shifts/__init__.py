"""Shifts of the paper's experiments, on batches of images.

Images are ``uint8``, (N, H, W, C) or grey (N, H, W), from 8 pixels a side; results have the shape
and the type of the input. Blurs, warps, colour spaces and JPEG are those of OpenCV and Pillow.
"""

from __future__ import annotations

from temperance_lab.shifts.geometry import roll, rotate
from temperance_lab.shifts.registry import CORRUPTIONS, corrupt

__all__ = ["CORRUPTIONS", "corrupt", "roll", "rotate"]
