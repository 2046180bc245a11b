"""The page of a monitor: one file, every number on it that of the monitor."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streams_of_windows import window

import temperance as tp
from temperance.report.texts import between

SIZES = {"desktop": (1200, 900), "tablet": (768, 1024), "phone": (360, 740)}


@pytest.fixture(scope="module")
def monitor():
    names = ["<b>ash</b>", "beech", "cedar", "date"]
    mon = tp.Monitor(
        source=window(1000, seed=1), classes=names, limits=tp.Limits(accuracy=0.9, ece=0.1)
    )
    for week in range(6):
        z = window(12 if week == 2 else 400, signal=2.5 - 0.4 * week, seed=week + 2)[0]
        site = np.array(["north & south", "a-very-long-name-" * 6] * 200)[: len(z)]
        mon.add(z, at=f"2026-11-{1 + 5 * week:02}", segments={"site": site})
    mon.accept(mon.propose())
    return mon


@pytest.fixture(scope="module")
def page(monitor, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "monitor.html"
    monitor.to_html(path, title="Trees <1>", model="resnet")
    return path


def test_the_page_has_the_numbers_of_the_monitor(monitor, page):
    text = page.read_text("utf-8")
    for one in monitor.windows:
        assert one.at in text
        assert between(one.accuracy) in text
    assert monitor.windows[-1].alarms[0].severity in text
    assert "Trees &lt;1&gt;" in text
    assert "<b>ash" not in text
    assert "<script" not in text
    assert not re.search(r'(src|href)="?http', text)
    assert len(text) < 120_000


def test_a_window_that_is_not_known_leaves_a_gap(monitor, page):
    first = re.search(r"<h3>Accuracy.*?</figure>", page.read_text("utf-8"), re.DOTALL).group()
    assert first.count("<polyline") == 2
    assert first.count('class="dot"') == len(monitor.windows) - 1


def test_a_monitor_without_windows_has_a_page():
    assert "No window yet." in tp.Monitor(source=window(500)).to_html()


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_cut_off_in_a_browser(chromium, page, size):
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height})
    tab = context.new_page()
    said = []
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    apart = """() => [...document.querySelectorAll('.axis')].every(axis => {
      const boxes = [...axis.children].map(e => e.getBoundingClientRect()).filter(b => b.width);
      return boxes.every((b, i) => i == 0 || boxes[i - 1].right <= b.left);
    })"""
    assert tab.evaluate(apart)
    assert said == []
    context.close()


def test_a_window_that_is_not_known_hides_no_alarm():
    mon = tp.Monitor(source=window(1000, seed=1), limits=tp.Limits(accuracy=0.9))
    loud = mon.add(window(400, signal=0.5, seed=2)[0], at="2026-11-01")
    mon.add(window(12, seed=3)[0], at="2026-11-02")
    assert mon.windows[-1].accuracy is None
    text = mon.to_html()
    assert "Nothing is known of the last window, 2026-11-02." in text
    assert f"The last window that was estimated, 2026-11-01: {loud.severity} alarm." in text
    assert f'temperance_alarms{{severity="{loud.severity}"}} 0' not in mon.prometheus()
