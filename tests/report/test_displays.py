"""Figures say what the numbers say, and the numbers are right."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

import temperance as tp
from temperance.report import displays

mpl.use("agg")
RNG = np.random.default_rng(0)
Y = RNG.integers(4, size=3000)
Z = 3 * (1.5 * np.eye(4)[Y] + RNG.normal(size=(3000, 4)))  # logits three times too large
PRIOR = np.full(4, 0.25)
MAP = tp.Temperature(3.0)
CALIBRATION = tp.calibrate(Z[:2000], PRIOR, (Z[2000:] / 2, Y[2000:]), classes=list("abcd"))
WITHOUT_PRIOR = tp.calibrate(Z[:2000], source=(Z[2000:] / 2, Y[2000:]))

DISPLAYS = {
    "reliability": displays.ReliabilityDisplay.from_logits(Z, Y, MAP, n_resamples=20),
    "confidence": displays.ConfidenceDisplay.from_calibration(CALIBRATION),
    "class mix": displays.ClassMixDisplay.from_calibration(CALIBRATION),
    "class mix without a prior": displays.ClassMixDisplay.from_calibration(WITHOUT_PRIOR),
    "risk": displays.RiskCoverageDisplay.from_logits(Z, Y, MAP),
    "risk of a calibration": displays.RiskCoverageDisplay.from_calibration(CALIBRATION),
}


@pytest.fixture(params=DISPLAYS)
def shown(request):
    yield DISPLAYS[request.param]
    plt.close("all")


def test_the_numbers_make_a_frame_in_any_library(shown):
    columns = shown.frame()
    assert pd.DataFrame(columns).shape == pl.DataFrame(columns).shape
    assert pd.DataFrame(columns).shape[0] > 1


def test_it_draws_on_axes_of_ones_own_or_on_new_ones(shown):
    _, ax = plt.subplots()
    assert shown.plot(ax=ax) is ax
    new = shown.plot()
    assert new is not ax
    assert new.get_xlabel()


def test_svg_follows_the_ink_of_the_page(shown, tmp_path):
    inline = shown.to_svg()
    ET.fromstring(inline)  # noqa: S314 - our own text
    assert "currentColor" in inline
    assert not re.search(r"#000000|#1f2328|fill: ?#ffffff|<style>:root", inline)
    assert shown.to_svg() == inline
    shown.to_svg(tmp_path / "figure.svg")
    alone = (tmp_path / "figure.svg").read_text("utf-8")
    ET.fromstring(alone)  # noqa: S314
    assert "prefers-color-scheme" in alone
    assert len(alone) < 100_000
    assert plt.get_fignums() == []


def test_text_is_legible_in_a_column(shown):
    ax = shown.plot()
    texts = [t for t in ax.figure.findobj(Text) if t.get_text() and t.get_visible()]
    assert min(t.get_fontsize() for t in texts) >= 7
    assert not [
        t.get_text() for t in texts if "$" in t.get_text()
    ]  # a formula is drawn as its code
    assert ax.figure.get_figwidth() <= 3.5


def test_the_style_of_a_figure_stays_inside():
    before = dict(mpl.rcParams)
    DISPLAYS["risk"].to_svg()
    assert dict(mpl.rcParams) == before


def test_reliability_is_the_accuracy_at_each_confidence():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1, 40_000)
    z = tp.binary_logits(np.log(p / (1 - p)))
    y = rng.random(40_000) < p**2  # right less often than said, by a known curve
    curve = displays.ReliabilityDisplay.from_logits(z, y.astype(int), n_resamples=50).frame()
    confidence = curve["confidence"]
    inside = (confidence > 0.6) & (confidence < 0.95)
    np.testing.assert_allclose(curve["accuracy"][inside], confidence[inside] ** 2, atol=0.03)
    covered = (curve["low"] <= confidence**2) & (confidence**2 <= curve["high"])
    assert covered[inside].mean() > 0.7
    assert np.isnan(curve["accuracy"][confidence < 0.4]).all()  # no rows, no curve
    assert curve["density"].mean() == pytest.approx(1, rel=1e-6)


def test_bands_by_group_are_wider():
    rng = np.random.default_rng(2)
    groups = np.arange(2000) // 100
    y = np.where(rng.random(20)[groups] < 0.5, Y[:2000], (Y[:2000] + 1) % 4)
    by_row, by_group = (
        displays.ReliabilityDisplay.from_logits(Z[:2000], y, groups=g, n_resamples=100).frame()
        for g in (None, groups)
    )
    width_by_group, width_by_row = ((c["high"] - c["low"])[-1] for c in (by_group, by_row))
    assert width_by_group > 3 * width_by_row


def test_confidence_counts_as_numpy_does():
    frame = DISPLAYS["confidence"].frame()
    z = Z[:2000]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    edges = np.append(frame["from"], frame["to"][-1])
    counts, _ = np.histogram((p / p.sum(axis=1, keepdims=True)).max(axis=1), edges)
    np.testing.assert_allclose(frame["target"], counts / 2000)


def test_class_mix_is_what_is_predicted():
    frame = DISPLAYS["class mix"].frame()
    np.testing.assert_allclose(frame["predicted"], np.bincount(Z[:2000].argmax(1)) / 2000)
    after = CALIBRATION.predict_proba(Z[:2000]).mean(axis=0)
    np.testing.assert_allclose(frame["calibrated"], after, atol=1e-3)
    assert "prior" not in DISPLAYS["class mix without a prior"].frame()


def test_of_many_classes_the_most_different_are_drawn():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5000, 300))
    z[:, 7] += 3
    many = displays.ClassMixDisplay.from_calibration(tp.calibrate(z, np.full(300, 1 / 300)))
    labels = [tick.get_text() for tick in many.plot().get_yticklabels()]
    plt.close("all")
    assert len(labels) == 12
    assert "7" in labels
    assert len(many.frame()["class"]) == 300


def test_risk_falls_where_fewer_rows_are_answered():
    frame = DISPLAYS["risk"].frame()
    assert frame["before"][-1] == pytest.approx(1 - tp.metrics.accuracy(Z, Y))
    assert frame["before"][20] < frame["before"][-1] / 2


def test_the_risk_of_a_calibration_has_its_band():
    frame = DISPLAYS["risk of a calibration"].frame()
    assert (frame["after_low"] <= frame["after"]).all()
    assert (frame["after"] <= frame["after_high"]).all()
    ax = DISPLAYS["risk of a calibration"].plot()
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(frame["after_high"].max())
    plt.close("all")


def test_a_refused_calibration_has_no_risk_to_draw():
    with pytest.raises(tp.InputError, match=r"must not be refused"):
        displays.RiskCoverageDisplay.from_calibration(tp.calibrate(Z[:10], PRIOR))


@pytest.mark.parametrize("name", ["<script>", "$\\frac{1}", "x" * 10_000, "line\nbreak", "&amp;"])
def test_a_strange_class_name_is_only_a_name(name):
    named = tp.calibrate(Z, PRIOR, classes=[name, "b", "c", "d"])
    svg = displays.ClassMixDisplay.from_calibration(named).to_svg()
    ET.fromstring(svg)  # noqa: S314
    assert "<script" not in svg
    assert len(svg) < 40_000
