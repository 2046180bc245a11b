"""Fits on a Dask cluster whose workers are killed under them: the same bits, or one sentence.

``python tests/helpers/worker_kills.py 50`` starts two worker processes and runs fits, metrics and
`calibrate` in turn. In each of them one worker is ended with SIGKILL while it works on a task of
that fit. Every answer is compared with that of an undisturbed run, bit by bit. A fit that takes
longer than its limit is a failure: the stacks of all threads and the tasks of the scheduler are
printed.

A `LocalCluster` gives up a worker that needs more than 15 seconds to come back, and a fit on a
cluster without any worker waits for ever. Both are settings of Dask: see `PATIENCE`.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, KilledWorker, LocalCluster, Status
from distributed.scheduler import NoWorkerError

import temperance as tp

K, PARTS, ROWS = 5, 6, 2_000
PATIENCE = {
    "distributed.deploy.lost-worker-timeout": "10 minutes",  # for a restart on a busy machine
    "distributed.scheduler.no-workers-timeout": "2 minutes",  # before a fit without workers fails
}
PAUSE = 0.05  # seconds that a read takes at least, so that a kill finds work under way


def read(directory, i, key):
    """Return logits or labels of one part."""
    time.sleep(PAUSE)
    with np.load(Path(directory) / f"{i}.npz") as held:
        return held[key]


def write(directory):
    """Write parts of logits and labels."""
    rng = np.random.default_rng(0)
    for i in range(PARTS):
        y = rng.integers(K, size=ROWS + i)
        z = 3 * (1.5 * np.eye(K)[y] + rng.normal(size=(len(y), K)))
        np.savez(directory / f"{i}.npz", z=z.astype(np.float32), y=y)


def collections_of(directory):
    """Return logits and labels as Dask arrays, read anew by every task."""
    load = dask.delayed(read)
    z = [da.from_delayed(load(str(directory), i, "z"), (ROWS + i, K), "f4") for i in range(PARTS)]
    y = [da.from_delayed(load(str(directory), i, "y"), (ROWS + i,), "i8") for i in range(PARTS)]
    return da.concatenate(z), da.concatenate(y)


FITS = {
    "fit_temperature": tp.fit_temperature,
    "fit_biased_temperature": tp.fit_biased_temperature,
    "calibrate": lambda z, y: tp.calibrate(z, np.full(K, 1 / K), (z, y)).to_dict(),
    "fit_vector": tp.fit_vector,
    "evaluate": lambda z, y: tp.metrics.evaluate(z, y).to_dict(),
}


def bits(answer):
    """Return an answer as text that differs where a bit does."""
    if isinstance(answer, dict):
        return json.dumps(answer, default=repr, sort_keys=True)
    return repr({k: np.asarray(v).tobytes() for k, v in answer.parameters().items()})


class Fit(threading.Thread):
    """One fit in a thread of its own, so that its time can be limited."""

    def __init__(self, name, rows):
        super().__init__(daemon=True)
        self.what, self.rows, self.answer, self.error = name, rows, None, None
        self.seconds = 0.0

    def run(self):
        """Keep the answer or the error."""
        start = time.monotonic()
        try:
            self.answer = bits(FITS[self.what](*self.rows))
        except Exception as error:  # noqa: BLE001 - it is looked at by the caller
            self.error = error
        self.seconds = time.monotonic() - start


def kill_one(cluster, fit, rng, after):
    """End a worker that works on a task of the fit; return whether one was found in time."""
    time.sleep(after)
    while fit.is_alive():
        busy = [
            worker
            for worker in cluster.workers.values()
            if worker.status == Status.running  # a nanny does not restart what dies as it starts
            and (state := cluster.scheduler.workers.get(worker.worker_address)) is not None
            and state.processing
        ]
        if busy:
            os.kill(busy[rng.integers(len(busy))].process.pid, signal.SIGKILL)
            return True
        time.sleep(0.002)
    return False


def explain(cluster):
    """Print what every thread does, and where the tasks of the scheduler are."""
    faulthandler.dump_traceback(all_threads=True)
    scheduler = cluster.scheduler
    states = collections.Counter(task.state for task in scheduler.tasks.values())
    print("tasks", dict(states), file=sys.stderr)  # noqa: T201
    for worker in scheduler.workers.values():
        print(worker, list(worker.processing), file=sys.stderr)  # noqa: T201
    for nanny in cluster.workers.values():
        print(nanny, nanny.status, nanny.process, file=sys.stderr)  # noqa: T201


def run(n, limit):
    """Make fits until n of them have lost a worker; return what happened."""
    rng, counts, times = np.random.default_rng(0), collections.Counter(), []
    with dask.config.set(PATIENCE), tempfile.TemporaryDirectory() as directory:
        write(Path(directory))
        rows = collections_of(Path(directory))
        while counts["kills"] < n:  # a cluster that has lost all of its workers is given up
            with (
                LocalCluster(
                    n_workers=2,
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs="CRITICAL",
                ) as cluster,
                Client(cluster),
            ):
                counts["clusters"] += 1
                _kill_in_turn(cluster, rows, n, limit, rng, counts, times)
    return {
        "kills": counts["kills"],
        "same_bits": counts["same bits"],
        "one_sentence": counts["sentence"],
        "fits_over_before_the_kill": counts["missed"],
        "clusters": counts["clusters"],
        "longest_seconds": round(max(times), 1),
    }


def _kill_in_turn(cluster, rows, n, limit, rng, counts, times):
    """Kill workers of one cluster until n were killed in all, or it has none left."""
    undisturbed = {}
    for name in [*FITS, *FITS]:  # the second time is that of a fit without compilation
        undisturbed[name] = fit = Fit(name, rows)
        fit.start()
        fit.join(limit)
        if fit.answer is None:
            raise RuntimeError(f"{name} fails without any kill: {fit.error}")
    while counts["kills"] < n:
        name = list(FITS)[(counts["kills"] + counts["missed"]) % len(FITS)]
        fit = Fit(name, rows)
        fit.start()
        killed = kill_one(cluster, fit, rng, rng.random() * undisturbed[name].seconds)
        fit.join(limit)
        if fit.is_alive():
            explain(cluster)
            raise RuntimeError(f"{name} did not come back within {limit} seconds of a kill.")
        times.append(fit.seconds)
        counts["kills" if killed else "missed"] += 1
        print(name, killed, f"{fit.seconds:.1f} s", fit.error or "", file=sys.stderr)  # noqa: T201
        if isinstance(fit.error, (KilledWorker, NoWorkerError)):
            counts["sentence"] += 1
            if isinstance(fit.error, NoWorkerError):
                return
        elif fit.error is not None:
            raise fit.error
        elif fit.answer != undisturbed[name].answer:
            raise RuntimeError(f"{name} has another answer after a kill.")
        else:
            counts["same bits"] += killed


def _main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--limit", type=float, default=180, help="seconds that a fit may take")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = json.dumps(run(given.kills, given.limit), indent=1)
    print(text)  # noqa: T201
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    _main()
