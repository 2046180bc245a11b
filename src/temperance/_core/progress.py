"""Progress of a loop: a line on the terminal once it has taken a second, nothing elsewhere."""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE, PERIOD = 1.0, 0.1  # seconds before the first line, and between lines
WIDTH = 30


def tracked(items: Iterable[T], what: str, total: int = 0) -> Iterator[T]:
    """Yield ``items``; on a terminal, show ``what`` is counted, how far it is and the time left."""
    total = total or operator.length_hint(items)
    start = drawn = time.monotonic()
    console = sys.stderr  # None in a program without one
    terminal = console if console is not None and console.isatty() else None
    shown = False
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if terminal is not None and now - start > PATIENCE and now - drawn > PERIOD:
                terminal.write("\r\033[K" + _line(done, total, now - start, what))
                terminal.flush()
                drawn, shown = now, True
            yield item
    finally:
        if terminal is not None and shown:
            terminal.write("\r\033[K")
            terminal.flush()


def _line(done: int, total: int, seconds: float, what: str) -> str:
    if not total:
        return f"{done} {what}, {seconds:.0f} s"
    full = min(WIDTH, WIDTH * done // total)
    left = seconds / done * (total - done) if done else 0.0
    return f"[{'#' * full:<{WIDTH}}] {done}/{total} {what}, {left:.0f} s left"
