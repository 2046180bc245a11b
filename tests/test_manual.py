"""The built manual, as a reader meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    page.wait_for_selector("ul.search li a")
    assert "fit_temperature" in page.inner_text("ul.search")
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
