"""The examples in the manual run as they stand, page by page, in an empty directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
ELSEWHERE = {"torch.md", "tracking.md"}  # test_torch_export, test_tracking
SLOW = {"experiments.md"}  # trains a network


def examples(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))


PAGES = [page for page in sorted(DOCS.glob("*.md")) if examples(page)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW else ())
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(examples(page), page.name, "exec"), {})  # noqa: S102 - our own pages
    assert {page.name for page in PAGES} >= ELSEWHERE | SLOW
