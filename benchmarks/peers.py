"""Speed beside other calibration libraries: one process, one thread, taking turns, ratios.

    python benchmarks/peers.py            # 10 minutes; writes benchmarks/records/peers.json
    python benchmarks/peers.py --quick    # a minute, small sizes, writes nothing
    python benchmarks/peers.py --only metrics threads   # these again, the rest as recorded

All contenders of a task get the same float32 logits and labels, in the form they like best, made
before the clock starts. They run in turn, round after round, so that whatever else the machine does
hits all alike; the fastest round of each counts. Time is CPU time of the process, which is the wall
time of a machine that does nothing else; the record has both. What two threads gain is told apart,
in wall time. `excess` is the mean NLL, summed in
float64, above the best that any contender of the task reached or, for a temperature, above its
optimum. Memory is the rise of the peak of the resident set during a call.

A peer that is not installed is named and left out. Install them with

    pip install probmetrics netcal abstention torchmetrics relplot
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from contenders import (
    Contender,
    Row,
    affine_contenders,
    metric_contenders,
    smooth_contenders,
    table,
    take_turns,
    temperature_contenders,
    use_numba,
    versions,
)
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax
from threadpoolctl import threadpool_limits

import temperance as tp
from temperance._core import kernels
from temperance._core.threads import THREADS_VARIABLE
from temperance.data import as_labelled_rows
from temperance.supervised.temperature import solve_temperature

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = Path(__file__).parent / "records" / "peers.json"
SEED = 0
TRUE_T = 2.0
SIZES = {(2_000, 10): 40, (10_000, 100): 20, (50_000, 1_000): 3}  # and rounds


def data(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are overconfident by the factor TRUE_T, and labels drawn accordingly."""
    rng = np.random.default_rng(SEED)
    z = 3 * rng.standard_normal((n, k), dtype=np.float32)
    y = np.empty(n, np.int64)
    for start in range(0, n, 5_000):
        part = z[start : start + 5_000]
        y[start : start + 5_000] = (part / TRUE_T + rng.gumbel(size=part.shape)).argmax(axis=1)
    return z, y


def skewed(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose classes have gains, biases and neighbours that they are mixed with."""
    rng = np.random.default_rng(SEED)
    true = 2 * rng.standard_normal((n, k))
    y = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    mixed = true + 0.3 * np.roll(true, 1, axis=1)
    return (mixed * rng.uniform(0.7, 1.5, k) + 0.5 * rng.normal(size=k)).astype(np.float32), y


# ------------------------------------------------------------------------------------- truth


def mean_nll(z: np.ndarray, y: np.ndarray, beta: float = 1.0) -> float:
    """Mean NLL of softmax(beta z) in float64, a few rows at a time."""
    total = 0.0
    for start in range(0, len(z), 1_000):
        part = log_softmax(beta * z[start : start + 1_000].astype(np.float64), axis=1)
        total -= float(part[np.arange(len(part)), y[start : start + 1_000]].sum())
    return total / len(z)


def optimum(z: np.ndarray, y: np.ndarray) -> float:
    """1/T where the float64 slope of the NLL is zero, by bracketing: slow, and owes us nothing."""

    def slope(beta: float) -> float:
        total = 0.0
        for start in range(0, len(z), 1_000):
            part = z[start : start + 1_000].astype(np.float64)
            own = part[np.arange(len(part)), y[start : start + 1_000]]
            total += float((softmax(beta * part, axis=1) * part).sum() - own.sum())
        return total

    return brentq(slope, 0.8 / TRUE_T, 1.25 / TRUE_T, xtol=1e-13)


def passes(z: np.ndarray, y: np.ndarray) -> float:
    """Full passes over the rows that temperance makes; a sample counts by its share."""
    rows = as_labelled_rows(z, y)
    solve_temperature(rows)
    return rows.passes


# ------------------------------------------------------------------------------------- tasks


def temperature(n: int, k: int, rounds: int) -> Row:
    """One temperature, by everybody."""
    z, y = data(n, k)
    plain = Contender("plain read, two passes", lambda _: float(z.sum()) + float(z.sum()))
    live = take_turns([*temperature_contenders(z, y), plain], rounds)
    beta = optimum(z, y)
    best = mean_nll(z, y, beta)
    extra: dict[str, Row] = {}
    for one in live:
        if one is not plain:
            t = float(one.result)
            excess = mean_nll(z, y, 1 / t) - best
            extra[one.name] = {"excess": excess, "correct": bool(excess < 1e-5), "T": t}
            extra[one.name]["error"] = abs(t * beta - 1)
            if one.ours:
                use_numba(one.compiled)
                extra[one.name]["passes"] = passes(z, y)
    use_numba(allowed=True)
    return table(f"temperature, {n} x {k} float32: ratio to the fastest peer", live, extra)


def affine(kind: str, n: int, k: int, rounds: int) -> Row:
    """Vector or matrix scaling without a penalty, by everybody."""
    z, y = skewed(n, k)
    live = take_turns(affine_contenders(kind, z, y), rounds)
    fit = {"vector": tp.fit_vector, "matrix": tp.fit_matrix}[kind]
    for one in live:
        if one.ours:  # float32 logits tell a loss to 1e-9, and this is nearer to the optimum
            use_numba(one.compiled)
            one.result = fit(z, y)(z.astype(np.float64))
    use_numba(allowed=True)
    losses = {one.name: mean_nll(np.asarray(one.result), y) for one in live}
    extra = {name: {"excess": loss - min(losses.values())} for name, loss in losses.items()}
    return table(f"{kind} scaling, {n} x {k} float32", live, extra)


def label_free(n: int, k: int, rounds: int) -> Row:
    """What the label-free fits cost, in units of a temperature with labels."""
    z, y = data(n, k)
    source, labels = z[: n // 2], y[: n // 2]
    target = z[n // 2 :] + np.linspace(0, 2, k, dtype=np.float32)  # leans to the last classes
    everything, all_labels = np.concatenate([target, source]), np.concatenate([y[n // 2 :], labels])
    q = np.full(k, 1 / k)
    tasks = {
        "temperance: temperature": lambda: tp.fit_temperature(everything, all_labels),
        "temperance: UTS": lambda: tp.fit_uts(everything, q),
        "temperance: prior-matched": lambda: tp.fit_prior_matched(
            everything, q, source=(source, labels)
        ),
    }
    live = take_turns([Contender(name, lambda _, f=f: f()) for name, f in tasks.items()], rounds)
    rows = table(f"label-free fits, {n} x {k} float32", live)
    unit = rows["temperance: temperature"]["cpu_ms"]
    for name, row in rows.items():
        row["times_temperature"] = row["cpu_ms"] / unit
        print(f"    {name:30s} {row['times_temperature']:7.1f} times a temperature")
    return rows


def two_threads(n: int, k: int, n_rows: int, rounds: int) -> Row:
    """Return how much less wall time two threads take than one: a temperature, and the metrics."""
    z, y = data(n, k)
    long, labels = data(n_rows, 10)
    tasks = {
        f"temperature, {n}x{k}": lambda: tp.fit_temperature(z, y),
        f"metrics, {n_rows}x10": lambda: tp.metrics.evaluate(long, labels),
    }
    result: Row = {}
    for name, task in tasks.items():
        both = [Contender(f"{name}, {count}", lambda _, f=task: f()) for count in (1, 2)]
        for one, count in zip(both, (1, 2), strict=True):
            one.prepare = lambda count=count: os.environ.update({THREADS_VARIABLE: str(count)})
        take_turns(both, rounds)
        one, two = (min(wall for wall, _ in each.seconds) for each in both)
        result[name] = {"one_ms": 1e3 * one, "two_ms": 1e3 * two, "gain": one / two}
        print(f"  two threads, {name}: {one / two:.2f} times as fast")
    os.environ[THREADS_VARIABLE] = "1"
    return result


def growth(rounds: int, *, quick: bool) -> Row:
    """How the cost of a temperature grows: exponent of n at K = 100, of K at n = 5,000."""
    steps = (1, 2, 4) if quick else (1, 4, 16)
    kinds = {"n": [(5_000 * s, 100) for s in steps], "K": [(5_000, 32 * s) for s in steps]}
    result: Row = {}
    for name, shapes in kinds.items():
        times = []
        for n, k in shapes:
            z, y = data(n, k)
            one = Contender("temperance", lambda _, z=z, y=y: tp.fit_temperature(z, y))
            take_turns([one], rounds)
            times.append(1e3 * min(cpu for _, cpu in one.seconds))
        slope = float(np.polyfit(np.log(steps), np.log(times), 1)[0])
        result[name] = {"shapes": shapes, "cpu_ms": times, "exponent": slope}
        print(f"  temperature grows with {name}^{slope:.2f}")
    return result


FIRST = """
import time
import numpy as np, temperance as tp
rng = np.random.default_rng(0)
z = rng.normal(size=(2000, {k})).astype(np.float32)
y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
start = time.process_time()
tp.fit_temperature(z, y)
print(time.process_time() - start)
"""


def first_use() -> Row:
    """CPU seconds of the first fit in a new process: code compiled, then read from the cache."""
    result: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for k in (10, 100, 1_000):
            command = [sys.executable, "-c", FIRST.format(k=k)]
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            for state in ("compiled", "cached"):
                out = subprocess.run(  # noqa: S603
                    command, env=environment, check=True, capture_output=True
                )
                result[f"K={k}, {state}"] = float(out.stdout)
    print("\nfirst fit of a process, CPU seconds:", {k: round(v, 2) for k, v in result.items()})
    return result


def floor(n: int, k: int, rounds: int) -> Row:
    """Return what the parts of a fit cost, in units of two plain reads of the array."""
    z, y = data(n, k)
    parts = {
        "two plain reads": lambda: float(z.sum()) + float(z.sum()),
        "one pass": lambda: kernels.temperature_moments(z, y, None, 1 / TRUE_T),
        "the fit": lambda: tp.fit_temperature(z, y),
    }
    live = take_turns([Contender(name, lambda _, f=f: f()) for name, f in parts.items()], rounds)
    times = {one.name: min(cpu for _, cpu in one.seconds) for one in live}
    result = {name: t / times["two plain reads"] for name, t in times.items()}
    print(f"\nin plain reads, {n} x {k}:", {name: round(r, 2) for name, r in result.items()})
    return {f"{n}x{k}": result}


def of_rows(contenders: Callable[..., list[Contender]], n: int, rounds: int) -> Row:
    """Metrics of n rows of 10 classes, by everybody."""
    z, y = data(n, 10)
    live = take_turns(contenders(z, y), rounds)
    extra = {one.name: {"value": one.result} for one in live}
    return table(f"metrics of {n} x 10 float32", live, extra)


def parts(*, quick: bool) -> dict[str, Callable[[], Row]]:
    """Return what there is to measure, by name."""
    sizes = {(500, 10): 1, (2_000, 100): 1} if quick else SIZES
    small, large, n = list(sizes)[:2], list(sizes)[-1], 20_000 if quick else 1_000_000
    rounds = 1 if quick else 12  # a busy neighbour spoils some
    return {
        "temperature": lambda: {f"{n}x{k}": temperature(n, k, r) for (n, k), r in sizes.items()},
        "affine": lambda: {
            f"{kind}, {n}x{k}": affine(kind, n, k, 1 if quick else 7)
            for (n, k) in small
            for kind in ("vector", "matrix")
        },
        "label_free": lambda: {f"{n}x{k}": label_free(n, k, rounds) for n, k in sizes},
        "metrics": lambda: of_rows(metric_contenders, n, rounds),
        "smooth": lambda: of_rows(smooth_contenders, n, rounds),
        "threads": lambda: two_threads(*large, n, rounds),
        "floor": lambda: floor(*large, rounds),
        "growth": lambda: growth(2 if quick else 7, quick=quick),
        "first_use": first_use,
    }


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, no record")
    names = list(parts(quick=True))
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="measure again")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of peers
    os.environ[THREADS_VARIABLE] = "1"
    found = versions()
    print("not here:", ", ".join(name for name, v in found.items() if v is None) or "nothing")
    if found["torch"]:
        import torch

        torch.set_num_threads(1)
    record: Row = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record |= {
        "what": "CPU time of the fastest round, one thread, contenders in turn",
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "seed": SEED,
        # A peer that is not here now was there when the parts that are kept were measured.
        "versions": record.get("versions", {}) | {k: v for k, v in found.items() if v is not None},
    }
    with threadpool_limits(1):
        for name, measure in parts(quick=asked.quick).items():
            if name in asked.only:
                record[name] = measure()
    if not asked.quick:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
