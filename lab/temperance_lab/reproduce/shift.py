"""Figure 2 and appendix C.2: accuracy and Brier score as a shift grows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from temperance_lab.reproduce.experiment_data import Shift
from temperance_lab.reproduce.protocol import over_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.record import Record

METRICS = ("accuracy", "brier", "ece", "temperature")
METHODS = ("uncalibrated", "TS", "UTS", "prior-matched, T only", "prior-matched", "TS-Target")
SEVERITIES = (0, 1, 2, 3, 4, 5)
SHIFTS = {
    "MNIST-rotation": ("mnist", "rotation", tuple(range(0, 181, 15))),
    "MNIST-rolling": ("mnist", "rolling", tuple(range(0, 15, 2))),
    "CIFAR10-gaussian_noise": ("cifar10", "gaussian_noise", SEVERITIES),
}
CORRUPTIONS = (
    "brightness",
    "contrast",
    "defocus_blur",
    "elastic_transform",
    "fog",
    "frost",
    "gaussian_blur",
    "glass_blur",
    "impulse_noise",
    "pixelate",
    "saturate",
    "shot_noise",
    "spatter",
    "speckle_noise",
)
CORRUPTED = {f"CIFAR10-{name}": ("cifar10", name, SEVERITIES) for name in CORRUPTIONS} | {
    "CIFAR10-rolling": ("cifar10", "rolling", (0, 2, 4, 8, 12, 16))
}


def groups(
    experiment: str, data: ExperimentData
) -> dict[str, Callable[[Sequence[str]], list[Record]]]:
    """Return the panels of ``figure-shift`` or of ``figure-corruptions``."""
    panels = SHIFTS if experiment == "figure-shift" else CORRUPTED
    return {name: partial(_panel, experiment, data, name, *panel) for name, panel in panels.items()}


def _panel(
    experiment: str,
    data: ExperimentData,
    group: str,
    task_name: str,
    shift: str,
    degrees: Sequence[int],
    methods: Sequence[str],
) -> list[Record]:
    task = data.task(task_name)
    records = []
    for degree in degrees:
        turns, fields = data.draws(task, data.runs, Shift(shift, degree))
        draws = over_draws(turns, methods, data.n_draws)
        records += draws.records(
            METRICS,
            experiment=experiment,
            group=group,
            setting=shift,
            x=degree,
            caveat="networks trained here; the paper prints no numbers for its figures",
            **fields,
        )
    return records
