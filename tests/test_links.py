"""Every reference inside the repository leads somewhere: files, and headings within them."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from temperance.calibrate.findings import CODES

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "_generated"  # made by `make docs`, whose build checks references
PAGES = [
    page
    for pattern in ("*.md", "docs/*.md", "docs/[a-z]*/*.md", "lab/*.md", "apps/*/*.md")
    for page in sorted(ROOT.glob(pattern))
]


def without_code(text):
    """Return the prose of a page: neither blocks of code nor code within a line."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchor(heading):
    """Return the anchor of a heading, as GitHub and MyST make it."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    kept = "".join(c for c in words if c in " -_" or unicodedata.category(c)[0] in "LN")
    return kept.replace(" ", "-")


def anchors(page):
    """Return all anchors of a page."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = {anchor(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    return found | set(re.findall(r"^\((.+)\)=$", text, re.MULTILINE))


def links(page):
    """Return the links and pictures of a page that stay inside the repository."""
    found = re.findall(r"\]\(<?([^)\s>]+)>?\)", without_code(page.read_text("utf-8")))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def test_there_is_something_to_check():
    assert sum(len(links(page)) for page in PAGES) > 80
    assert anchor("What `apply` writes, and why") == "what-apply-writes-and-why"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_merge_was_left_half_done(page):
    assert not re.search(r"^[<>]{7} ", page.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    lost = []
    for link in links(page):
        name, _, place = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if GENERATED in target.parents:
            continue
        codes = {code.lower() for code in CODES}  # anchors of the page of codes
        if not target.exists() or (place and place not in anchors(target) | codes):
            lost.append(link)
    assert lost == []
