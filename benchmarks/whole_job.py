"""The whole job: `calibrate` in every setting, as a number of temperature fits of the same rows.

    python benchmarks/whole_job.py [--large]

One thread, CPU time, best of three for the fit and of two for `calibrate`. ``--large`` adds 50,000
rows of 1,000 classes, and the peak memory of 1,000 rows of 30,000 classes.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = Path(__file__).parent / "records" / "whole_job.json"


def rows(n: int, k: int, signal: float, seed: int) -> tuple[Any, Any]:
    """Return logits and labels of a model that is too sure of itself."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    z = rng.standard_normal((n, k), dtype=np.float32)
    z[np.arange(n), y] += signal
    return 2 * z, y


def best(work: Callable[[], Any], times: int) -> float:
    """Return the least CPU time of some runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measure(n: int, k: int) -> dict[str, float]:
    """Return each setting in temperature fits."""
    (z, y), source = rows(n, k, 3.0, 0), rows(min(n, 10_000), k, 4.0, 1)
    flat = np.full(k, 1 / k)
    settings: dict[str, dict[str, Any]] = {
        "exact mix": {"prior": flat, "source": source},
        "no mix": {"source": source},
        "no source": {"prior": flat},
        "30 labels": {"source": source, "labelled": (z[:30], y[:30])},
    }
    tp.fit_temperature(z, y)  # compiles
    unit = best(lambda: tp.fit_temperature(z, y), 3)
    found = {"fit_seconds": round(unit, 4)}
    for name, known in settings.items():
        found[name] = round(best(lambda known=known: tp.calibrate(z, **known), 2) / unit, 1)
    return found


def many_classes() -> dict[str, float]:
    """Return seconds and peak memory of a process that calibrates 1,000 rows of 30,000 classes."""
    (z, _), source = rows(1_000, 30_000, 6.0, 2), rows(1_000, 30_000, 6.0, 3)
    start = time.process_time()
    tp.calibrate(z, np.full(30_000, 1 / 30_000), source)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(time.process_time() - start, 1), "peak_mb": round(peak)}


def main() -> None:
    """Print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    record: dict[str, Any] = {"10,000 x 100": measure(10_000, 100)}
    if large:
        record["50,000 x 1,000"] = measure(50_000, 1_000)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            record["1,000 x 30,000"] = pool.submit(many_classes).result()
    print(json.dumps(record, indent=1))
    if large:
        RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
