"""Who takes part in `peers.py`, and how they take turns."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

import temperance as tp
from temperance._core import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW = 2.0  # seconds
PACKAGES = (
    "numba",
    "numpy",
    "scipy",
    "torch",
    "scikit-learn",
    "probmetrics",
    "netcal",
    "abstention",
    "torchmetrics",
    "relplot",
    "torch-uncertainty",
)
Row = dict[str, Any]


def versions() -> dict[str, str | None]:
    """Versions of what takes part; None where it is not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


# ------------------------------------------------------------------------------------- clock


@dataclass
class Contender:
    """Something that can be run: ``prepare`` is not timed, ``run`` is."""

    name: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    compiled: bool = True  # whether temperance may use Numba
    seconds: list[tuple[float, float]] = field(default_factory=list)
    memory: float = float("nan")
    result: Any = None

    @property
    def ours(self) -> bool:
        """Whether this is temperance."""
        return self.name.startswith("temperance")


def peak_memory() -> float:
    """Peak of the resident set in MB since `forget_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1024


def forget_peak() -> float:
    """Let the peak start from what is resident now, which is returned, in MB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory()


def use_numba(allowed: bool) -> None:
    """Let temperance use Numba, or not."""
    os.environ[kernels.SWITCH] = "1" if allowed else "0"
    kernels.choose()


def take_turns(contenders: list[Contender], rounds: int) -> list[Contender]:
    """Run all contenders in turn, after a round that does not count: it compiles and allocates.

    What takes seconds needs no such round.
    """
    live = list(contenders)
    for turn in range(rounds + 1):
        for one in list(live):
            if turn == rounds and one.seconds and one.seconds[0][0] > SLOW:
                continue
            use_numba(one.compiled)
            given = one.prepare()
            before = forget_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                one.result = one.run(given)
            except Exception as error:  # noqa: BLE001 - a peer that fails is named, and left out
                print(f"    {one.name} fails: {type(error).__name__}: {error}")
                live.remove(one)
                continue
            took = time.perf_counter() - wall, time.process_time() - cpu
            if turn or took[0] > SLOW:
                one.seconds.append(took)
                one.memory = peak_memory() - before
    use_numba(allowed=True)
    return live


def table(title: str, contenders: list[Contender], extra: dict[str, Row] | None = None) -> Row:
    """Print and return rows; the ratio is the time of the fastest correct peer over that of ours.

    For a peer it is its own time over that of the fastest peer.
    """
    extra = extra or {}
    rows: Row = {}
    for one in contenders:
        wall, cpu = (min(column) for column in zip(*one.seconds, strict=True))
        rows[one.name] = {
            "cpu_ms": 1e3 * cpu,
            "wall_ms": 1e3 * wall,
            "memory_mb": max(0.0, one.memory),
        }
        rows[one.name] |= extra.get(one.name, {})
    rivals = [
        row["cpu_ms"]
        for name, row in rows.items()
        if not name.startswith(("temperance", "plain")) and row.get("correct", True)
    ]
    best = min(rivals, default=None)
    print(f"\n{title}")
    for name, row in rows.items():
        row["ratio"] = None if best is None else best / row["cpu_ms"]
        facts = "".join(
            f"  {key} {row[key]:.2g}" for key in ("excess", "passes", "error") if key in row
        )
        ratio = "        " if row["ratio"] is None else f"{row['ratio']:7.2f}x"
        print(
            f"  {name:34s}{ratio} {row['cpu_ms']:11.2f} ms {row['memory_mb']:7.1f} MB{facts}",
            flush=True,
        )
    return rows


# ------------------------------------------------------------------------------- contenders


def ours(name: str, run: Callable[[], Any], **options: Any) -> list[Contender]:
    """Return temperance twice: with Numba and without."""
    kinds = {"temperance": True, "temperance, NumPy": False}
    return [
        Contender(f"{kind}{name}", lambda _: run(), compiled=compiled, **options)
        for kind, compiled in kinds.items()
    ]


def installed(*names: str) -> bool:
    """Return whether all of these packages are there."""
    return all(versions()[name] for name in names)


def temperature_contenders(z: np.ndarray, y: np.ndarray) -> list[Contender]:
    """Return every way here to fit one temperature; all return T."""
    found = ours("", lambda: tp.fit_temperature(z, y).temperature)
    if installed("torch"):
        import torch

        tensor = torch.from_numpy(z).to(torch.float32)
        fit = tp.fit_temperature
        found.append(Contender("temperance, torch tensor", lambda _: fit(tensor, y).temperature))

    from sklearn.calibration import _TemperatureScaling

    found.append(Contender("scikit-learn", lambda _: 1 / _TemperatureScaling().fit(z, y).beta_))
    if installed("probmetrics", "torch"):
        import torch
        from probmetrics.calibrators import TemperatureScalingCalibrator
        from probmetrics.distributions import CategoricalLogits

        def probmetrics(given: Any) -> float:
            fitted = TemperatureScalingCalibrator()
            fitted.fit_torch(*given)
            return 1 / fitted.invtemp_

        given = CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y)
        found.append(Contender("probmetrics", probmetrics, lambda: given))
    if installed("netcal"):
        from netcal.scaling import TemperatureScaling

        found.append(
            Contender(
                "netcal, float64",
                lambda p: 1 / float(TemperatureScaling().fit(p, y).temperature[0]),
                lambda: softmax(z.astype(np.float64), axis=1),
            )
        )
    return found


def affine_contenders(kind: str, z: np.ndarray, y: np.ndarray) -> list[Contender]:
    """Return every way here to fit vector or matrix scaling; all return mapped logits."""
    fit = {"vector": tp.fit_vector, "matrix": tp.fit_matrix}[kind]
    found = ours("", lambda: fit(z, y))
    for one in found:
        one.run = lambda _: fit(z, y)(z)
    if installed("probmetrics", "torch"):
        import torch
        from probmetrics.calibrators import MatrixScalingCalibrator, VectorScalingCalibrator
        from probmetrics.distributions import CategoricalLogits

        chosen = {"vector": VectorScalingCalibrator, "matrix": MatrixScalingCalibrator}[kind]

        def probmetrics(given: Any) -> np.ndarray:
            fitted = chosen()
            fitted.fit_torch(*given)
            return fitted.predict_proba_torch(given[0]).get_logits().numpy()

        given = CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y)
        found.append(Contender("probmetrics", probmetrics, lambda: given))
    if kind == "vector" and installed("abstention"):
        from abstention.calibration import VectorScaling

        def abstention(given: Any) -> np.ndarray:
            return np.log(VectorScaling()(valid_preacts=given[0], valid_labels=given[1])(given[0]))

        onehot = z.astype(np.float64), np.eye(z.shape[1])[y]
        found.append(Contender("abstention", abstention, lambda: onehot))
    if kind == "matrix":
        from sklearn.linear_model import LogisticRegression

        def regression(_: Any) -> np.ndarray:
            return LogisticRegression(C=np.inf, max_iter=1_000).fit(z, y).decision_function(z)

        found.append(Contender("scikit-learn, logistic", regression))
    return found


def metric_contenders(z: np.ndarray, y: np.ndarray) -> list[Contender]:
    """Return ECE by peers, from probabilities and from logits, and ECE, NLL and Brier by ours."""
    found = ours(": ECE, NLL, Brier", lambda: tp.metrics.evaluate(z, y).ece)
    p = softmax(z, axis=1)
    if installed("torchmetrics", "torch"):
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error

        k, labels = z.shape[1], torch.from_numpy(y)
        for given, name in ((z, "logits"), (p, "probabilities")):
            tensor = torch.from_numpy(given)
            found.append(
                Contender(
                    f"torchmetrics: ECE of {name}",
                    lambda t: float(multiclass_calibration_error(t, labels, k, n_bins=15)),
                    lambda tensor=tensor: tensor,
                )
            )
    if installed("netcal"):
        from netcal.metrics import ECE

        found.append(
            Contender("netcal: ECE of probabilities", lambda _: float(ECE(15).measure(p, y)))
        )
    return found


def smooth_contenders(z: np.ndarray, y: np.ndarray) -> list[Contender]:
    """Return smooth ECE of ours, from logits, and of relplot, from confidences."""
    found = ours(": smooth ECE", lambda: tp.metrics.smooth_ece(z, y))
    if installed("relplot"):
        import relplot

        p = softmax(z.astype(np.float64), axis=1)
        f, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
        found.append(Contender("relplot: smooth ECE", lambda _: float(relplot.smECE(f, right))))
    return found
