"""The whole of the reproduction on five thousand digits; run by `make test-reproduce`."""

from __future__ import annotations

import time

import pytest

from temperance.cli import main
from temperance_lab.reproduce import ITEMS, Bench, read

pytestmark = pytest.mark.reproduce
MINUTES = 10


def test_everything_runs_on_digits(tmp_path):
    start = time.monotonic()
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path)]) == 0
    assert time.monotonic() - start < 60 * MINUTES
    bench = Bench(tmp_path / "quick", quick=True)
    for name, item in ITEMS.items():
        groups = item.groups(bench)
        paths = {p.stem: p for p in (tmp_path / "quick" / "records" / name).glob("*.json")}
        assert set(paths) == set(groups)
        for path in paths.values():
            records = read(path)
            assert {r.method for r in records} <= set(item.methods)
            assert all(r.reproduced is not None for r in records)
        assert (tmp_path / "quick" / f"{name}.png").stat().st_size > 10_000
