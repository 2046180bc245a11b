"""The pages say what the records say, and the records what the code measures."""

from __future__ import annotations

import os
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from temperance_lab.reproduce import ITEMS, Bench, run, stored
from temperance_lab.reproduce.figures import FIGURES
from temperance_lab.reproduce.lookup import Lookup

ROOT = Path(__file__).parents[2]
DATA = os.environ.get("TEMPERANCE_DATA")
EXACT = "CIFAR100-DenseNet40"
CHEAP = ["uncalibrated", "TS", "UTS", "UTS, mix of the draw", "prior-matched"]

pytestmark = pytest.mark.skipif(
    not (ROOT / "experiments").is_dir(), reason="a source distribution has no experiments/"
)


@pytest.fixture(scope="module")
def pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        made = runpy.run_path(str(ROOT / "docs" / "make_reproduction.py"))
    records = made["records"]()
    return {
        "reproduction.md": made["reproduction"](records),
        "what-we-found.md": made["what_we_found"](records),
    }


@pytest.mark.parametrize("name", ["reproduction.md", "what-we-found.md"])
def test_pages_are_those_of_the_records(pages, name):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == pages[name]


def test_every_item_has_its_figure_and_its_command_on_both_pages(pages):
    for item in ITEMS:
        folder = item.replace("-", "_")
        assert (ROOT / "experiments" / folder / f"{folder}.png").stat().st_size > 10_000
        for text in pages.values():
            assert f"../experiments/{folder}/{folder}.png" in text
            assert f"temperance reproduce {item} --data DIR" in text


@pytest.mark.parametrize("item", ["label-noise", "probabilistic"])
def test_names_beside_a_panel_do_not_overlap(item):
    folder = ROOT / "experiments" / item.replace("-", "_") / "records"
    figure = FIGURES[item](Lookup(stored(item, folder)))
    figure.canvas.draw()
    named = [ax for ax in figure.axes if ax.texts]
    assert named
    for ax in named:
        # Of the words alone: an annotation's own extent has its line in it.
        boxes = sorted((Text.get_window_extent(t) for t in ax.texts), key=lambda box: box.y0)
        assert len({text.get_text() for text in ax.texts}) == len(boxes)
        assert all(low.y1 < high.y0 + 1 for low, high in pairwise(boxes))
    plt.close(figure)


@pytest.mark.skipif(DATA is None, reason="TEMPERANCE_DATA must name the directory of the logits")
def test_the_authors_row_is_measured_again(tmp_path):
    bench = Bench(tmp_path, Path(DATA or ""))
    (_, now), *_ = run("table-1", bench, tmp_path / "new", cells=EXACT, methods=CHEAP)
    committed = stored("table-1", ROOT / "experiments" / "table_1" / "records")
    then = {(r.method, r.metric): r for r in committed if r.group == EXACT}
    assert len(now) == 4 * len(CHEAP)
    for record in now:
        before = then[record.method, record.metric]
        assert record.data == before.data
        # A solver that ends elsewhere within its tolerance moves a row or two between bins of ECE.
        assert record.reproduced == pytest.approx(before.reproduced, abs=before.sd / 50)
