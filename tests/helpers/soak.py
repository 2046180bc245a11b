"""Thousands of mixed calls in one process: memory stays flat, and no file handle is lost.

``python tests/helpers/soak.py 24000`` calls fits, metrics, `calibrate`, files, artefacts, reports
and commands in turn, with good and with bad input, and prints memory and open files as it goes.
The run fails where memory grows by more than 32 MB after the first quarter, or a file stays open.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import temperance as tp
from temperance.cli import main
from temperance.io import formats

GROWTH = 32 << 20  # bytes that memory may grow after the first quarter
K = 4


def resident():
    """Return the bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def n_open():
    """Return the number of open files."""
    return len(list(Path("/proc/self/fd").iterdir()))


def calls(folder):  # noqa: C901 - a list of small functions
    """Return the calls of a soak, as functions of a generator; each is cheap."""
    data = np.random.default_rng(0)
    y = data.integers(K, size=400)
    z = 2 * (1.2 * np.eye(K)[y] + data.normal(size=(400, K)))
    table = formats.Table(z, y, ["a", "b", "c", "d"])
    for suffix in formats.FORMATS:
        formats.write(folder / f"t{suffix}", table)
    (folder / "days").mkdir()
    for day in "ab":
        formats.write(folder / "days" / f"{day}.parquet", table)
    (folder / "bad.npz").write_bytes((folder / "t.npz").read_bytes()[:500])
    prior = np.full(K, 1 / K)
    cal = tp.calibrate(z, prior, (z, y))
    model = LogisticRegression().fit(z, y)
    cal.save(folder / "cal.json")
    tp.save(tp.MatrixMap(np.eye(K), np.zeros(K)), folder / "map.safetensors")

    def quietly(*arguments):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main([str(argument) for argument in arguments])
        assert code in (0, 1, 2), arguments

    def written(rng):
        suffix = rng.choice(list(formats.FORMATS))
        formats.write(folder / f"out{suffix}", formats.read(folder / f"t{suffix}"))

    def command(rng):
        file = folder / f"t{rng.choice(['.npz', '.csv', '.parquet', '.safetensors'])}"
        ways = [
            ["apply", file, "--map", folder / "cal.json", "--out", folder / "o.csv"],
            ["apply", file, "--map", folder / "map.safetensors", "--out", folder / "o.parquet",
             "--probabilities"],
            ["fit", file, "--out", folder / "m.json"],
            ["inspect", folder / "cal.json", "--json"],
            ["evaluate", folder / "bad.npz"],
            ["apply", folder / "days", "--map", folder / "cal.json", "--out", folder / "o.npz"],
            ["calibrate", folder / "nowhere.npz"],
        ]  # fmt: skip
        quietly(*ways[rng.integers(len(ways))])

    def labels(rng):
        rows = rng.permutation(400)[:40]
        more = cal.update(z[rows], y[rows])
        more.threshold(max_error=0.2)
        more.label_next(300)

    def monitored(_):
        (folder / "m.jsonl").unlink(missing_ok=True)  # a state grows with its windows
        monitor = tp.Monitor(source=(z, y))
        monitor.add(z[:200], at="2026-11-01")
        monitor.add(z[200:], at="2026-11-02", labelled=(z[:30], y[:30]))
        monitor.save(folder / "m.jsonl")
        tp.Monitor.load(folder / "m.jsonl").frame()

    def wrapped(_):
        known = np.where(np.arange(400) < 20, y, -1)
        tp.LabelFreeClassifier(model, source=(z[200:], y[200:])).fit(z, known).predict_proba(z)

    def refused(_):
        for bad in (np.full((5, 3), np.nan), np.zeros((0, 3)), "nowhere.parquet", [[1, 2], [3]]):
            with contextlib.suppress(tp.InputError):
                tp.fit_temperature(bad, [0])

    def threaded(_):
        work = [threading.Thread(target=tp.metrics.ece, args=(z, y)) for _ in range(4)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()

    return [
        lambda _: tp.fit_temperature(z, y),
        lambda _: tp.fit_biased_temperature(z, y),
        lambda _: tp.metrics.ece(z, y),
        lambda _: tp.metrics.smooth_ece(z, y),
        lambda rng: tp.calibrate(z, prior, (z, y), seed=int(rng.integers(9))),
        lambda _: tp.calibrate(z, prior).to_html(folder / "r.html"),
        lambda _: tp.load(folder / "cal.json").to_dict(),
        lambda _: tp.save(tp.Temperature(2.0), folder / "s.json"),
        lambda _: tp.metrics.nll(folder / "days"),
        lambda _: tp.metrics.nll(lambda: iter([(z[:200], y[:200]), (z[200:], y[200:])])),
        lambda _: tp.estimate_accuracy(z, prior, (z, y)),
        lambda _: (cal.expected().auc, cal.expected(z[:50]).cost(1 - np.eye(K))),
        lambda _: cal.labels_needed(0.2),
        labels,
        monitored,
        wrapped,
        written,
        command,
        refused,
        threaded,
    ]


def soak(n):
    """Make so many calls; return memory and open files at forty places, and the seconds."""
    marks, start = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = calls(Path(folder))
        for i in range(n):
            work[i % len(work)](np.random.default_rng(i))
            if (i + 1) % max(1, n // 40) == 0:
                gc.collect()
                marks.append({"calls": i + 1, "bytes": resident(), "files": n_open()})
                print(json.dumps(marks[-1]), file=sys.stderr, flush=True)  # noqa: T201
        left = sorted(p.name for p in Path(folder).iterdir() if p.name.endswith(".tmp"))
    return marks, time.monotonic() - start, left


def _main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", type=int, nargs="?", default=24_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    marks, seconds, left = soak(given.calls)
    settled = marks[len(marks) // 4]
    facts = {
        "calls": given.calls,
        "seconds": round(seconds),
        "megabytes_after_a_quarter": settled["bytes"] >> 20,
        "megabytes_at_the_end": marks[-1]["bytes"] >> 20,
        "files_after_a_quarter": settled["files"],
        "files_at_the_end": marks[-1]["files"],
        "temporary_files_left": len(left),
    }
    text = json.dumps(facts, indent=1)
    print(text)  # noqa: T201
    if given.out is not None:
        given.out.write_text(text + "\n")
    grown = marks[-1]["bytes"] - settled["bytes"]
    return int(grown > GROWTH or marks[-1]["files"] > settled["files"] or bool(left))


if __name__ == "__main__":
    sys.exit(_main())
