"""Displays of studies: numbers that make a frame, an SVG for any page, a minimum in its place."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import temperance as tp
from temperance_lab import displays

mpl.use("agg")
RNG = np.random.default_rng(0)
Y = RNG.integers(4, size=3000)
Z = 3 * (1.5 * np.eye(4)[Y] + RNG.normal(size=(3000, 4)))  # logits three times too large
PRIOR = np.full(4, 0.25)
DISPLAYS = {
    "shift": displays.ShiftCurveDisplay(
        [0, 30, 60], {"TS": [0.1, 0.4, 2.6], "UTS": [tp.Interval(0.2, 0.1, 0.3)] * 3}, "NLL"
    ),
    "named shift": displays.ShiftCurveDisplay(["fog", "snow"], {"TS": [1, 2]}, "NLL"),
    "temperature": displays.TemperatureDisplay({"a": 1.2, "b": tp.Interval(2.0, 1.5, 30.0)}),
    "objective": displays.ObjectiveDisplay.from_logits(Z, PRIOR),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_the_numbers_are_columns_and_the_figure_follows_the_page(name):
    shown = DISPLAYS[name]
    (length,) = {len(column) for column in shown.frame().values()}
    assert length > 1
    assert shown.plot().get_xlabel()
    plt.close("all")
    svg = shown.to_svg()
    ET.fromstring(svg)  # noqa: S314 - our own text
    assert "currentColor" in svg
    assert "#1f2328" not in svg


def test_the_objective_has_its_minimum_where_uts_finds_it():
    from temperance.data import as_rows
    from temperance.methods.uts import Shortfall, fit_weight_exponent, log_odds

    rows = as_rows(Z)
    best = fit_weight_exponent(rows, log_odds(rows), Shortfall.of(rows, PRIOR, None), "reference")
    frame = DISPLAYS["objective"].frame()
    found = frame["inverse_w"][np.nanargmin(frame["objective"])]
    assert found == pytest.approx(best, rel=0.15)  # a grid of ten points a decade


def test_a_curve_of_the_wrong_length_is_refused():
    with pytest.raises(tp.InputError, match=r"must have 2 values, one per severity\. Got 3"):
        displays.ShiftCurveDisplay([0, 1], {"TS": [1, 2, 3]}, "NLL")
