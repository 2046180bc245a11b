"""The built manual, as a reader meets it."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

DOCS = Path(__file__).parents[1] / "docs"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    built = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, str(DOCS.parent / "lab" / "pages" / "build.py")], check=True)
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(DOCS), str(built)],
        check=True,
    )
    return built


def test_search_finds_a_public_name(chromium, manual):
    page = chromium.new_page()
    page.goto((manual / "search.html").as_uri() + "?q=fit_temperature")
    page.wait_for_selector("ul.search li a:has-text('fit_temperature')")
    page.close()


@pytest.mark.parametrize(
    "name", ["index.html", "api/index.html", "api/generated/temperance.fit_temperature.html"]
)
def test_a_page_asks_nothing_of_the_network_and_fits_a_phone(chromium, manual, name):
    page = chromium.new_page(viewport={"width": 360, "height": 740})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((manual / name).as_uri())
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_equations_are_drawn(chromium, manual):
    page = chromium.new_page()
    page.goto((manual / "api/generated/temperance.fit_temperature.html").as_uri())
    assert page.locator("math").count() > 0
    assert "\\frac" not in page.inner_text("article")
    page.close()


def test_names_in_docstrings_are_links(manual):
    text = "".join(page.read_text("utf-8") for page in (manual / "api").rglob("*.html"))
    named = re.findall(r'(<a [^>]*>)?<code class="xref py py-obj', text)
    assert sum(map(bool, named)) > 150
    assert "<cite>" not in text


def test_no_equation_shows_its_source(manual):
    """The converter writes a command that it does not know as text."""
    shown = {
        path.name: [one for one in re.findall(r"<math.*?</math>", text, re.DOTALL) if "\\" in one]
        for path in manual.rglob("*.html")
        for text in [path.read_text("utf-8")]
    }
    assert {name: found for name, found in shown.items() if found} == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("start", "accuracy: estimated "),
        ("guides/monitoring", "within the limits: "),
        ("torch", "T = "),
    ],
)
def test_what_an_example_prints_stands_below_it(manual, name, words):
    text = (manual / f"{name}.html").read_text("utf-8")
    printed = re.findall(r'<div class="highlight-text.*?</pre>', text, re.DOTALL)
    assert any(words in one for one in printed)


class Places(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, _tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links += [given[name] for name in ("href", "src") if given.get(name)]


def test_every_link_of_the_manual_leads_to_a_place(manual):
    pages = {path: Places(path.read_text("utf-8")) for path in manual.rglob("*.html")}
    lost, seen = [], 0
    for path, page in pages.items():
        for link in page.links:
            name, _, place = unquote(link).partition("#")
            if ":" in name or not (name or place):
                continue
            seen += 1
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            # Pages of source code link back by the full name of a module.
            loose = "_modules" in path.parts or not place or target not in pages
            if not target.exists() or not (loose or place in pages[target].anchors):
                lost.append((path.name, link))
    assert seen > 1_000
    assert lost == []


WIDER = """() => [...document.querySelectorAll('.table-wrapper, .equation, pre')]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => box.innerText.slice(0, 80))"""


def test_nothing_is_cut_off_on_a_desktop(chromium, manual):
    """Tables, equations and code are seen whole at 1280 pixels."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    cut = {}
    for file in manual.rglob("*.html"):
        if not {"api", "_modules"} & set(file.relative_to(manual).parts):
            page.goto(file.as_uri())
            cut[file.name] = page.evaluate(WIDER)
    page.close()
    assert len(cut) > 30
    assert {name: found for name, found in cut.items() if found} == {}


BEYOND = """() => [...document.querySelectorAll('article table')].filter(table => {
    const scrolls = getComputedStyle(table.parentElement).overflowX === 'auto';
    return !scrolls && table.getBoundingClientRect().right > innerWidth;
}).length"""


@pytest.mark.parametrize("width", [390, 820, 1024, 1440])
def test_no_page_is_wider_than_its_window(chromium, manual, width):
    """Wide tables and code scroll inside themselves."""
    page = chromium.new_page(viewport={"width": width, "height": 900})
    wide = []
    for file in manual.rglob("*.html"):
        if {"generated", "_modules"} & set(file.relative_to(manual).parts):
            continue
        page.goto(file.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > width or page.evaluate(BEYOND):
            wide.append(file.name)
    page.close()
    assert wide == []


def test_every_page_has_a_title(manual):
    """Parts of other pages are not pages of their own."""
    pages = [path for path in manual.rglob("*.html") if path.name != "search.html"]
    assert [path.name for path in pages if "<h1" not in path.read_text("utf-8")] == []
