"""The page as a reader meets it, in Chromium."""

from __future__ import annotations

from itertools import pairwise

import pytest
from report_cases import KINDS, calibration, simulated

from temperance import report

pytestmark = pytest.mark.browser

SECTIONS = (
    "how-sure",
    "rests-on",
    "confidence",
    "findings",
    "class-mix",
    "estimates",
    "assumptions",
    "what-next",
    "model-card",
)
SIZES = {"desktop": (1200, 900), "phone": (360, 740), "small phone": (320, 568)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    paths = {kind: folder / f"{kind.replace(' ', '-')}.html" for kind in KINDS}
    for kind, path in paths.items():
        calibration(kind).to_html(path)
    cal = calibration("improved")
    paths["with labels"] = folder / "audit.html"
    logits, labels = simulated(2000, seed=1)
    report.to_html(cal, paths["with labels"], audit=cal.audit(logits, labels))
    paths["contradicted"] = folder / "contradicted.html"
    report.to_html(cal, paths["contradicted"], audit=cal.audit(logits, (labels + 1) % 5))
    return paths


@pytest.fixture(params=[*KINDS, "with labels", "contradicted"])
def path(request, pages):
    return pages[request.param]


@pytest.fixture
def opened(chromium):
    """Open a page in a fresh context, and note whatever it says or asks for."""
    contexts = []

    def open_page(path, **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("size", SIZES)
def test_silent_alone_and_no_wider_than_the_screen(opened, path, size):
    width, height = SIZES[size]
    page = opened(path, viewport={"width": width, "height": height})
    assert page.said == []
    assert page.asked == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for section in SECTIONS:
        assert page.locator(f"#{section}").bounding_box()["height"] > 40


# Every tick label: its text, and where its centre stands on its axis.
TICKS = """() => [...document.querySelectorAll('svg.axis text, .plot .y text')].map(text => {
  const label = text.getBoundingClientRect();
  const across = text.parentElement.classList.contains('axis');
  const plot = text.closest('.plot');
  const drawn = plot ? plot.querySelector('.canvas')
    : text.closest('figure, section').querySelector('.hist, .span');
  const box = drawn.getBoundingClientRect();
  const share = across
    ? (label.left + label.width / 2 - box.left) / box.width
    : (box.bottom - label.top - label.height / 2) / box.height;
  const texts = [...text.parentElement.children].map(one => parseFloat(one.textContent));
  const limit = Math.max(...texts);
  return {text: text.textContent, share, value: parseFloat(text.textContent) / limit,
          left: label.left, right: label.right, across};
})"""


@pytest.mark.parametrize("size", SIZES)
def test_tick_labels_stand_where_their_values_are(opened, path, size):
    width, height = SIZES[size]
    page = opened(path, viewport={"width": width, "height": height})
    ticks = page.evaluate(TICKS)
    assert len(ticks) >= 5
    for tick in ticks:
        assert tick["share"] == pytest.approx(tick["value"], abs=0.01), tick
        assert tick["left"] >= 0, tick
        assert tick["right"] <= width, tick
    for one, after in pairwise(tick for tick in ticks if tick["across"]):
        if after["value"] > one["value"]:  # on the same axis: they do not touch
            assert after["left"] > one["right"], (one, after)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_page(opened, path, scheme, worst_contrast):
    ratio, text = worst_contrast(opened(path, color_scheme=scheme))
    assert ratio >= 4.5, text


def test_nothing_is_missing_without_scripts(opened, path):
    with_scripts, without = opened(path), opened(path, java_script_enabled=False)
    # Without scripts nothing can be evaluated in the page: compare what is drawn.
    assert without.said == []
    assert without.screenshot(full_page=True) == with_scripts.screenshot(full_page=True)


def test_hostile_names_run_nothing(opened, pages):
    page = opened(pages["hostile"])
    assert page.said == []
    assert page.locator("img").count() == 0
    verdict = page.evaluate("JSON.parse(document.getElementById('facts').textContent).verdict")
    assert verdict in {"improved", "no-evidence"}
    assert page.title() == f"Calibration report: {verdict}"


def test_the_facts_can_be_read_by_a_program(opened, path):
    page = opened(path)
    facts = page.evaluate("JSON.parse(document.getElementById('facts').textContent)")
    assert facts["verdict"] in page.inner_text("header")


def test_it_prints(opened, pages):
    page = opened(pages["with labels"])
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") <= 8
    page.set_viewport_size({"width": 718, "height": 1000})  # of A4 between its margins
    page.emulate_media(media="print")
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < 0 || box.right > innerWidth;
        }).length"""
    )
    assert outside == 0


def test_headings_lead_through_the_page_by_keyboard(opened, pages):
    page = opened(pages["improved"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "How sure"
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("#how-sure"))  # the browser tells a moment later
