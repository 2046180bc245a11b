"""Figure 3, and the paper's future work: baselines that are probabilistic, alone and calibrated."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.experiment_data import Shift
from temperance_lab.reproduce.protocol import draw_shifted, over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.record import Record

METRICS = ("accuracy", "brier", "nll", "ece")
POSTHOC = ("uncalibrated", "TS", "UTS", "prior-matched, T only", "prior-matched", "TS-Target")
BASELINES = {"ll-Dropout": "ll_dropout", "SVI": "svi", "ensemble": "ensemble"}
COMBINED = ("UTS", "prior-matched, T only", "prior-matched", "TS", "TS-Target")
SETTINGS = {
    "CIFAR10-contrast-5": ("cifar10", Shift("contrast", 5)),
    "CIFAR10-pixelate-5": ("cifar10", Shift("pixelate", 5)),
    "CIFAR10-shot_noise-3": ("cifar10", Shift("shot_noise", 3)),
    "CIFAR10-speckle_noise-3": ("cifar10", Shift("speckle_noise", 3)),
    "MNIST-rolling-8": ("mnist", Shift("rolling", 8)),
    "MNIST-rolling-12": ("mnist", Shift("rolling", 12)),
    "MNIST-rotation-105": ("mnist", Shift("rotation", 105)),
    "MNIST-rotation-120": ("mnist", Shift("rotation", 120)),
}


def groups(
    experiment: str, data: ExperimentData
) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the settings of ``probabilistic`` or of ``combination``."""
    run = _compared if experiment == "probabilistic" else _combined
    return {name: partial(run, data, name) for name in SETTINGS}


def _compared(data: ExperimentData, group: str, methods: Sequence[str]) -> list[Record]:
    """Single network with every method, and the baselines as they come; the same draws for all."""
    own = [m for m in methods if m not in BASELINES]
    records = _measured(data, "probabilistic", group, "member_00", own, str)
    for name, kind in BASELINES.items():
        if name in methods:
            records += _measured(
                data, "probabilistic", group, kind, ["uncalibrated"], lambda _, name=name: name
            )
    return records


def _combined(data: ExperimentData, group: str, methods: Sequence[str]) -> list[Record]:
    """Every method on top of the ensemble and of ll-Dropout."""
    records = []
    for name, kind in BASELINES.items():
        asked = [m for m in COMBINED if f"{name} + {m}" in methods]
        asked += ["uncalibrated"] if name in methods else []
        records += _measured(
            data,
            "combination",
            group,
            kind,
            asked,
            lambda m, name=name: name if m == "uncalibrated" else f"{name} + {m}",
        )
    return records


def combinations() -> tuple[str, ...]:
    """Return the names of all methods of ``combination``."""
    names = [n for n in BASELINES if n != "SVI"]
    return tuple(f"{n}{m}" for n in names for m in ("", *(f" + {m}" for m in COMBINED)))


def _measured(
    data: ExperimentData,
    experiment: str,
    group: str,
    kind: str,
    methods: Sequence[str],
    named: Callable[[str], str],
) -> list[Record]:
    if not methods:
        return []
    task_name, shift = SETTINGS[group]
    task = data.task(task_name)
    source, target = data.source(task, kind), data.shifted(task, kind, shift)
    draws = over_draws(draw_shifted(source, target), methods, data.n_draws)
    records = draws.records(
        METRICS,
        experiment=experiment,
        group=group,
        setting=shift.name,
        x=shift.degree,
        caveat=f"networks trained here, {task.compared_epochs} epochs each",
        **task.fields(target),
    )
    return [replace(r, method=named(r.method)) for r in records]
