"""A calibration measured on a few labelled rows of its target."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import to_numpy
from temperance._core.checks import InputError, check_same_classes, names_for
from temperance._core.stats import Interval
from temperance.data import as_labelled_rows
from temperance.io.artefact import fingerprint
from temperance.metrics.binned import ece
from temperance.metrics.bootstrap import bootstrap, group_numbers
from temperance.metrics.proper import accuracy, nll

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from temperance.calibrate.result import Calibration
    from temperance.data.types import LabelsLike

LEVEL, Z90 = 0.9, 1.645  # as of the estimates of a calibration


@dataclass(frozen=True)
class Audit:
    """What labels say about a calibration: the answer of `Calibration.audit`.

    Attributes
    ----------
    n : int
        Labelled rows.
    accuracy, nll_before, nll_after, ece_before, ece_after : Interval
        Measured, with 90 % bootstrap intervals; before is the model's own confidence, after the
        map's. ``accuracy`` is that of the predictions of the map.
    agrees : bool
        Whether the measured and the estimated interval of the accuracy overlap.
    label_next : list of int
        Rows of the fitted target that were not among these, most useful first.
    """

    n: int
    accuracy: Interval
    nll_before: Interval
    nll_after: Interval
    ece_before: Interval
    ece_after: Interval
    agrees: bool
    label_next: list[int]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able facts."""
        return {k: list(v) if isinstance(v, Interval) else v for k, v in asdict(self).items()}


def audit(cal: Calibration, logits: object, labels: object, groups: LabelsLike | None) -> Audit:
    """Measure a calibration; see `Calibration.audit`."""
    rows = as_labelled_rows(logits, labels, classes=names_for(labels, cal.facts["classes"]))
    check_same_classes(rows.n_classes, int(cal.facts["n_classes"]), "logits")
    block = rows.take(np.arange(rows.n))
    if fingerprint(block.logits, block.labels) == cal.facts["fitted_on"]["source"]:
        raise InputError(
            "logits must be labelled rows of the target. These are the source that the calibration "
            "was fitted with, and say nothing about the shift; measure a map on them with "
            "temperance.metrics."
        )
    z, y = to_numpy(block.logits).astype(np.float64), block.labels
    mapped = np.asarray(cal.map(z))

    def measure(metric: Callable[..., float], u: NDArray[np.float64]) -> Interval:
        return bootstrap(metric, u, y, groups, level=LEVEL)

    right = measure(accuracy, mapped)
    if right.low == right.high:  # no error, or no success, to draw again
        right = _wilson(right.value, int(group_numbers(groups, rows.n).max()) + 1)
    seen = set(row_keys(z))
    keyed = zip(cal.facts["label_next"], cal.facts["label_next_keys"], strict=True)
    return Audit(
        n=rows.n,
        accuracy=right,
        nll_before=measure(nll, z),
        nll_after=measure(nll, mapped),
        ece_before=measure(ece, z),
        ece_after=measure(ece, mapped),
        agrees=right.low <= cal.accuracy.high and cal.accuracy.low <= right.high,
        label_next=[int(row) for row, key in keyed if key not in seen],
    )


def row_keys(z: NDArray[Any]) -> list[int]:
    """Return a checksum of each row, by which labelled rows are known again."""
    return [zlib.crc32(row.tobytes()) for row in np.ascontiguousarray(z, dtype=np.float32)]


def _wilson(share: float, n: int) -> Interval:
    """Interval of a share of n independent rows (Wilson, 1927); it has a width at 0 and 1."""
    middle = (share + Z90**2 / (2 * n)) / (1 + Z90**2 / n)
    half = Z90 / (1 + Z90**2 / n) * np.sqrt(share * (1 - share) / n + (Z90 / (2 * n)) ** 2)
    return Interval(share, float(max(0.0, middle - half)), float(min(1.0, middle + half)))
