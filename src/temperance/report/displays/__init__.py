"""Figures (extra: ``report``): each is first a table of numbers, and then a drawing of them.

``display.frame()`` gives the numbers as columns of equal length, a dict that
``pandas.DataFrame`` and ``polars.DataFrame`` take as it is; ``display.plot(ax=None)`` draws
them with matplotlib; ``display.to_svg(path=None)`` makes an SVG for light and dark pages, and a
notebook shows that for a display on the last line of a cell.
"""

from __future__ import annotations

from temperance.report.displays.class_mix import ClassMixDisplay
from temperance.report.displays.confidence import ConfidenceDisplay
from temperance.report.displays.objective import ObjectiveDisplay
from temperance.report.displays.reliability import ReliabilityDisplay
from temperance.report.displays.risk_coverage import RiskCoverageDisplay
from temperance.report.displays.shift_curve import ShiftCurveDisplay
from temperance.report.displays.temperature import TemperatureDisplay

__all__ = [
    "ClassMixDisplay",
    "ConfidenceDisplay",
    "ObjectiveDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "ShiftCurveDisplay",
    "TemperatureDisplay",
]


def __dir__() -> list[str]:
    """Return the displays, without the modules they live in."""
    return __all__
