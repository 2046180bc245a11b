"""What a pass costs, by where the rows lie: CPU time for each element, and resident memory.

    python benchmarks/scale.py --rows 4000000 --classes 100

Writes a file of float32 logits into a temporary directory, fits a temperature to it in each way,
and prints one JSON object. The memory is the growth of the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK_ROWS = 50_000
SMALL = 5_000


def blocks_of(path: Path, n: int, k: int):  # noqa: ANN201 - a generator of pairs
    """Yield the logits and labels of a file of float32, as any reader would."""
    y = np.memmap(path.with_suffix(".labels"), np.uint8, "r")
    for start in range(0, n, BLOCK_ROWS):
        z = np.fromfile(path, np.float32, BLOCK_ROWS * k, offset=4 * start * k).reshape(-1, k)
        yield z, np.array(y[start : start + BLOCK_ROWS])


def write(path: Path, n: int, k: int) -> None:
    """Write rows that repeat after 20,000, logits and labels."""
    rng = np.random.default_rng(0)
    z = 4 * rng.standard_normal((20_000, k), dtype=np.float32)
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.uint8)
    with path.open("wb") as file, path.with_suffix(".labels").open("wb") as labels:
        for start in range(0, n, len(z)):
            file.write(z[: n - start].data)
            labels.write(y[: n - start].data)


def write_parquet(path: Path, n: int, k: int) -> None:
    """Write the same rows as Parquet, 50,000 to a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for z, y in blocks_of(path, n, k):
        part = pa.table({f"logit_{c}": z[:, c] for c in range(k)} | {"label": y})
        target = path.with_suffix(".parquet")
        writer = writer or pq.ParquetWriter(
            target, part.schema, compression="none", use_dictionary=False
        )
        writer.write_table(part)
    if writer is not None:
        writer.close()


def given(kind: str, path: Path, n: int, k: int) -> tuple[object, object]:
    """Return logits and labels as the user of each kind holds them."""
    if kind == "blocks":
        return (lambda: blocks_of(path, n, k)), None
    if kind == "parquet":
        return path.with_suffix(".parquet"), None
    z = np.memmap(path, np.float32, "r", shape=(n, k))
    y = np.fromfile(path.with_suffix(".labels"), np.uint8)
    return (np.array(z), y) if kind == "memory" else (z, y)


def measure(kind: str, path: Path, n: int, k: int) -> dict[str, object]:
    """Fit in this process: seconds, passes and the growth of the peak."""
    import temperance as tp
    from temperance.data import as_rows
    from temperance.supervised.temperature import solve_temperature

    warm = list(blocks_of(path, SMALL, k))
    tp.fit_temperature(warm)
    tp.metrics.evaluate(warm)
    logits, labels = given(kind, path, n, k)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = as_rows(logits, labels)
    start = time.process_time()
    beta = solve_temperature(rows).x
    fitted = time.process_time()
    tp.metrics.evaluate(rows)
    end = time.process_time()
    return {
        "kind": kind,
        "temperature": 1 / beta,
        "passes": rows.passes - 1,
        "fit_ns_per_element_and_pass": 1e9 * (fitted - start) / (rows.passes - 1) / (n * k),
        "evaluate_ns_per_element": 1e9 * (end - fitted) / (n * k),
        "growth_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def main() -> None:
    """Measure every kind in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=["memory", "memmap", "blocks", "parquet"])
    parser.add_argument("--one", nargs=2, metavar=("KIND", "PATH"))
    options = parser.parse_args()
    n, k = options.rows, options.classes
    if options.one:
        kind, path = options.one
        print(json.dumps(measure(kind, Path(path), n, k)))
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "z"
        write(path, n, k)
        if "parquet" in options.kinds:
            write_parquet(path, n, k)
        found = []
        for kind in options.kinds:
            command = [sys.executable, __file__, "--rows", str(n), "--classes", str(k)]
            command += ["--one", kind, str(path)]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
            found.append(json.loads(out.stdout))
    print(json.dumps({"rows": n, "classes": k, "measured": found}, indent=2))


if __name__ == "__main__":
    main()
