"""Figures are legible, and pages follow the committed records."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from temperance_lab.reproduce import EXPERIMENTS, stored
from temperance_lab.reproduce.figures import FIGURES
from temperance_lab.reproduce.record_table import RecordTable

RECORDS = Path(__file__).parents[2] / "experiments" / "paper"

pytestmark = pytest.mark.skipif(
    not RECORDS.is_dir(), reason="a source distribution has no experiments/"
)


@pytest.mark.parametrize("name", ["label-noise", "probabilistic"])
def test_names_beside_a_panel_do_not_overlap(name):
    figure = FIGURES[name](RecordTable(stored(name, RECORDS)))
    figure.canvas.draw()
    beside = [[t for t in ax.texts if t.get_position()[0] > 1] for ax in figure.axes]
    named = [texts for texts in beside if texts]
    assert named
    for texts in named:
        # Of the words alone: an annotation's own extent has its line in it.
        boxes = sorted((Text.get_window_extent(t) for t in texts), key=lambda box: box.y0)
        assert len({text.get_text() for text in texts}) == len(boxes)
        assert all(low.y1 < high.y0 + 1 for low, high in pairwise(boxes))
    plt.close(figure)


@pytest.fixture(scope="module")
def what_we_found():
    sys.path.insert(0, str(RECORDS.parents[1] / "pages"))
    try:
        import what_we_found as module
    finally:
        sys.path.pop(0)
    return module


def test_no_measured_number_of_the_page_is_typed_by_hand(what_we_found):
    """A decimal fraction or a share in a template would not follow its record."""
    templates = [text for name, text in vars(what_we_found).items() if name.isupper()]
    texts = [text for text in templates if isinstance(text, str)]
    assert len(texts) > 8
    for text in texts:
        assert not re.findall(r"(?<![A-Z\d:])\d*\.\d+|\b\d+ (?:%|of \d+)", text)


@pytest.mark.parametrize("name", ["table-1", "figure-shift", "sample-size"])
def test_the_page_follows_the_records(what_we_found, name):
    """Other numbers in the records of an experiment, another page."""
    records = {item: stored(item, RECORDS) for item in EXPERIMENTS}
    page = what_we_found.what_we_found(records)
    changed = [
        replace(r, reproduced=1.5 * r.reproduced) if r.method == "UTS" and r.reproduced else r
        for r in records[name]
    ]
    assert what_we_found.what_we_found(records | {name: changed}) != page
