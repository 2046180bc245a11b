"""One record for every number: what the paper prints, what was measured, and from which bytes.

A record is a JSON object on a line of its own in a file of its group. Numbers are numbers. A cell
that could not be run has ``reproduced`` null and says in ``needs`` which file or machine is missing
and which command would fill it; it is never filled otherwise.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from temperance._core.checks import InputError
from temperance._version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

__all__ = ["EVIDENCE", "Record", "read", "write"]

EVIDENCE = {
    "exact": "the authors' own logits",
    "other weights": "the same architecture, trained by others or here",
    "nearest": "the nearest network that is available",
    "missing": "not run here",
}
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One cell of a table, or one point of a figure.

    Attributes
    ----------
    item, group, dataset, model, setting, x, method, metric
        Which number this is: ``x`` is the degree of a shift, the share of noise or a number of
        rows, ``setting`` the name of the shift.
    reported : dict or None
        ``mean`` and ``std`` that the paper prints.
    reproduced, sd, interval, draws
        Mean and standard deviation over the draws, and the 95 % t-interval of that mean.
    tolerance, agrees
        Largest difference that counts as agreement, and whether it is kept: two of the printed
        standard deviations and half of the last printed digit. Only where the logits
        are the authors' own, for other weights have other numbers.
    evidence
        A key of `EVIDENCE`.
    data, weights
        sha256 of the logits, and of the network that made them where it was trained here.
    """

    item: str
    group: str
    dataset: str
    model: str
    method: str
    metric: str
    setting: str = ""
    x: float | None = None
    reported: dict[str, float] | None = None
    reproduced: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    draws: int = 0
    tolerance: float | None = None
    agrees: bool | None = None
    evidence: str = "missing"
    data: str | None = None
    weights: str | None = None
    seed: int = 0
    version: str = __version__
    caveat: str = ""
    needs: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise InputError(f"evidence must be one of {list(EVIDENCE)}. Got {self.evidence!r}.")
        if (self.reproduced is None) != (self.needs is not None):
            msg = "a record must have either a reproduced number or what it needs. Got "
            raise InputError(f"{msg}{self.reproduced} and {self.needs} for {self.key}.")

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two records the same cell."""
        return (self.item, self.group, self.setting, self.x, self.method, self.metric)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it, with six digits: more would be noise."""
        return _rounded(asdict(self))


def measured(values: ArrayLike, reported: dict[str, float] | None, evidence: str) -> dict[str, Any]:
    """Return the fields that follow from the values of the draws."""
    v = np.asarray(values, np.float64)
    mean, sd = float(v.mean()), float(v.std(ddof=1))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(v) - 1)) * sd / np.sqrt(len(v))
    out: dict[str, Any] = {
        "reported": reported,
        "reproduced": mean,
        "sd": sd,
        "interval": (mean - half, mean + half),
        "draws": len(v),
        "evidence": evidence,
    }
    if reported is not None and evidence == "exact":
        out["tolerance"] = 2 * reported["std"] + 0.5 * 10 ** -_digits(reported["mean"])
        out["agrees"] = abs(mean - reported["mean"]) <= out["tolerance"]
    return out


def _digits(value: float) -> int:
    """Return the decimals that the paper prints: two for percent, four for the rest."""
    return 2 if value > 10 else 4


def write(path: Path, records: list[Record]) -> None:
    """Write the records of a group, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(r.to_dict(), ensure_ascii=False) for r in records)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    partial.replace(path)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, tuple | list) else value


def read(path: Path) -> list[Record]:
    """Read the records of a group back."""
    known = {field.name for field in fields(Record)}
    records = []
    for facts in json.loads(path.read_text(encoding="utf-8")):
        if not isinstance(facts, dict) or set(facts) != known:
            msg = f"{path.name} must hold records. Fields differ: {sorted(set(facts) ^ known)}."
            raise InputError(msg)
        interval = facts["interval"]
        records.append(
            Record(**{**facts, "interval": None if interval is None else tuple(interval)})
        )
    return records
