"""The manual's table of speeds is that of the record."""

from __future__ import annotations

import runpy
from pathlib import Path

from temperance import shifts

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_the_manual_is_that_of_the_record():
    table = runpy.run_path(str(DOCS / "make_shifts_table.py"))["table"]()
    assert (DOCS / "tables" / "shifts.md").read_text(encoding="utf-8") == table
    assert table.count("\n") == 2 + len(shifts.CORRUPTIONS)
