"""Beyond shift, the paper's future work: pictures of no class, and pictures made to fool.

Neither keeps what UTS and prior-matched scaling suppose. Among foreign pictures no class is right,
so that the class mix of all rows is not the known one; an attack (Madry et al., ICLR 2018) moves
each row to the class that fools best. Measured on all rows, of which foreign ones are never right:
accuracy and mean confidence, whose difference is the error of the confidence; the Brier score of
the rows that have a class; the confidence in foreign rows; and the verdicts of `calibrate`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from temperance import calibrate
from temperance.metrics import brier
from temperance_lab.progress import tracked
from temperance_lab.reproduce.core import core_of
from temperance_lab.reproduce.experiment_data import pooled
from temperance_lab.reproduce.methods import FitInput, fit
from temperance_lab.reproduce.record import Record, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.methods import Fitted
    from temperance_lab.reproduce.networks import Task
    from temperance_lab.reproduce.protocol import Logits

    Numbers = dict[str, float]

EXPERIMENT = "foreign"
METHODS = ("uncalibrated", "TS", "UTS", "prior-matched, T only", "prior-matched", "calibrate")
SHARES = (0.0, 0.1, 0.25, 0.5)
LEVELS = {"mnist": (0, 13, 26, 51), "cifar10": (0, 2, 8)}  # radius of an attack, grey levels
STEPS = {"mnist": 10, "cifar10": 5}
ROWS = 2_000  # to fit, and as many others to judge
GROUPS = {
    f"{name}-{what}": (task, what)
    for task, name in (("mnist", "MNIST"), ("cifar10", "CIFAR10"))
    for what in ("foreign", "attacked")
}
FOREIGN = {
    "mnist": "foreign: CIFAR-10 in grey, 28 x 28 pixels",
    "cifar10": "foreign: digits in three equal channels, on 32 x 32 pixels",
    "mnist-5k": "foreign: digits whose pixels are in another order",
}


def groups(data: ExperimentData) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return foreign pictures and attacks, on each data set."""
    return {name: partial(_group, data, name, *group) for name, group in GROUPS.items()}


def _group(
    data: ExperimentData, group: str, task_name: str, what: str, methods: Sequence[str]
) -> list[Record]:
    task = data.task(task_name)
    foreign = what == "foreign"
    sources = [data.source(task, kind) for kind in data.runs]
    records = []
    for x in SHARES if foreign else LEVELS[task_name]:
        level, steps = (0, 0) if foreign else (int(x), STEPS[task_name])
        own = [_attacked(data, task, kind, level, steps) for kind in data.runs]
        other = [_foreign(data, task, kind) for kind in data.runs] if foreign else own
        found: dict[str, list[tuple[Numbers, str]]] = {m: [] for m in methods}
        for i in tracked(range(data.n_draws), "draws"):
            source, rows, others = (some[i % len(own)] for some in (sources, own, other))
            share = x if foreign else 0.0
            given, judged = _draw(source, rows, others, share, np.random.default_rng([0, i]))
            for method in methods:
                found[method].append(_judged(method, given, *judged))
        fields = task.fields(pooled([*own, *other] if foreign else own))
        fields |= {"experiment": EXPERIMENT, "group": group, "setting": what, "x": x}
        fields |= {"caveat": FOREIGN[task.name] if foreign else f"an attack of {steps} steps"}
        evidence = fields.pop("evidence")
        facts: dict[str, Any]
        for method, answers in found.items():
            stood = Counter(note for _, note in answers if note)
            note = "; ".join(f"{n}, in {k} of {len(answers)} draws" for n, k in stood.items())
            for metric in answers[0][0]:
                values = [numbers[metric] for numbers, _ in answers]
                facts = measured(values, None, evidence, len(own))
                facts |= {"note": note, "core": core_of(method)}
                records.append(Record(**fields, **facts, method=method, metric=metric))
    return records


def _draw(
    source: Logits, own: Logits, other: Logits, share: float, rng: np.random.Generator
) -> tuple[FitInput, tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]]:
    """Draw rows to fit and as many to judge, a share of them foreign."""
    n = min(ROWS, len(own.y) // 2)
    foreign = round(share * n)
    mine, theirs = rng.permutation(len(own.y)), rng.permutation(len(other.y))
    here, there = mine[: n - foreign], mine[n - foreign : 2 * (n - foreign)]
    target = np.concatenate([own.z[here], other.z[theirs[:foreign]]])
    few = rng.permutation(len(source.y))[:n]
    given = FitInput(target, own.y[here], own.prior, (source.z[few], source.y[few]))
    return given, (own.z[there], own.y[there], other.z[theirs[foreign : 2 * foreign]])


def _judged(
    method: str,
    given: FitInput,
    z: NDArray[np.float64],
    y: NDArray[np.int64],
    foreign: NDArray[np.float64],
) -> tuple[Numbers, str]:
    """Return what a method makes of rows with a class and of foreign ones, and a stand-in."""
    extra, note = {}, ""
    fitted: Fitted
    if method == "calibrate":
        calibration = calibrate(given.target, given.prior, given.source)
        fitted = calibration.map
        extra = {v: 100.0 * (calibration.verdict == v) for v in ("improved", "refused")}
    else:
        fitted, note = fit(method, given)
    calibrated = np.asarray(fitted(np.concatenate([z, foreign])))
    p = softmax(calibrated, axis=1)
    right = p[: len(y)].argmax(axis=1) == y
    numbers = {
        "accuracy": 100 * right.sum() / len(p),
        "confidence": 100 * p.max(axis=1).mean(),
        "brier": brier(calibrated[: len(y)], y),
    }
    if len(foreign):
        numbers["foreign confidence"] = 100 * p[len(y) :].max(axis=1).mean()
    return numbers | extra, note


def _attacked(data: ExperimentData, task: Task, kind: str, level: int, steps: int) -> Logits:
    """Logits of test images that were attacked by a number of grey levels."""

    def images() -> tuple[NDArray[np.uint8], NDArray[np.generic]]:
        from temperance_lab.networks import attack

        given = data.dataset(task)
        x, y = given.x_test[: 2 * ROWS], given.y_test[: 2 * ROWS]
        return attack(data.network(task, kind), x, y, level / 255, steps) if level else x, y

    return data.predicted(task, kind, f"attack_{level}_{steps if level else 0}", images)


def _foreign(data: ExperimentData, task: Task, kind: str) -> Logits:
    """Logits of pictures that show none of the classes; their labels say nothing."""

    def images() -> tuple[NDArray[np.uint8], NDArray[np.generic]]:
        if task.name == "mnist-5k":
            x = data.dataset(task).x_test[: 2 * ROWS]
            order = np.random.default_rng(0).permutation(x[0].size)
            other = x.reshape(len(x), -1)[:, order].reshape(x.shape)
        elif task.name == "mnist":
            colour = data.dataset(data.task("cifar10")).x_test[: 2 * ROWS, 2:30, 2:30]
            other = colour.mean(axis=3).round().astype(np.uint8)
        else:
            grey = data.dataset(data.task("mnist")).x_test[: 2 * ROWS]
            grey = grey.reshape(len(grey), 28, 28, 1)
            other = np.repeat(np.pad(grey, ((0, 0), (2, 2), (2, 2), (0, 0))), 3, axis=3)
        return other, np.zeros(len(other), np.int64)

    return data.predicted(task, kind, "foreign", images)
