"""A thousand damaged files, each handed to a command; 20,000 of them in the nightly run."""

from __future__ import annotations

import pytest
from mutants import run_apart

SIZE = 250


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, SIZE))
def test_a_damaged_file_gives_a_result_or_one_sentence(first):
    assert run_apart(first, SIZE) == []
