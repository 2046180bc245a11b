"""Blocks of large arrays in several threads, their sums added in the order of the blocks.

Compiled passes and most of NumPy's release the interpreter lock. As every block is summed alone and
blocks are added in turn, no number of threads changes a bit of the answer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

THREADED_ELEMENTS = 1 << 22  # elements above which threads are started
THREADS_VARIABLE = "OMP_NUM_THREADS"


def n_threads() -> int:
    """Return the number of processors this process may use, or what OMP_NUM_THREADS allows."""
    usable = getattr(os, "sched_getaffinity", None)
    n = len(usable(0)) if usable is not None else os.cpu_count() or 1
    limit = os.environ.get(THREADS_VARIABLE, "").split(",")[0].strip()
    return max(1, min(n, int(limit))) if limit.isdigit() else n


def in_threads(function: Callable[[S], T], items: Iterable[S], n: int) -> Iterator[T]:
    """Yield ``function`` of the items, in their order, n at a time and few ahead."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n) as pool:
        for item in items:
            waiting.append(pool.submit(copy_context().run, function, item))
            if len(waiting) > 2 * n:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
