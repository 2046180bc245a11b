"""Batches that several tests of shifts look at."""

from __future__ import annotations

import pytest
from pictures import pictures


@pytest.fixture(scope="session")
def small():
    return pictures(170, 32, 32)


@pytest.fixture(scope="session")
def large():
    return pictures(2, 224, 224)
