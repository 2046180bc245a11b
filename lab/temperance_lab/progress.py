"""A line on the terminal that shows how far a loop is, once the loop has taken a second."""

from __future__ import annotations

import operator
import sys
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    T = TypeVar("T")


def tracked(items: Iterable[T], what: str, total: int = 0) -> Iterator[T]:
    """Yield ``items``; on a terminal, show how many of ``what`` are done, ten times a second."""
    total = total or operator.length_hint(items)
    start = drawn = time.monotonic()
    shown = False
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if sys.stderr.isatty() and now - start > 1 and now - drawn > 0.1:
                left = (
                    f", {(now - start) / done * (total - done):.0f} s left"
                    if total and done
                    else ""
                )
                sys.stderr.write(f"\r\033[K{done}{f'/{total}' if total else ''} {what}{left}")
                sys.stderr.flush()
                drawn, shown = now, True
            yield item
    finally:
        if shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
