"""One record for every number: what the paper prints, what was measured, and from which bytes.

The records of an experiment are one JSON file: fields that all records share, and a line for every
group and degree, with the fields that its records share, the names of the other fields, and a short
list for each method. A line says only what differs from the line before it; before the first line,
every field has its default. A long text of several rows stands once, under ``texts``, and the rows
have its number. A cell that could not be run has ``reproduced`` null and says in
``needs`` which file or machine is missing and which command would fill it; the cell is never filled
otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from scipy import stats

from temperance import InputError, __version__

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
PRINTED_DRAWS = 20  # of the paper's means
AGREEMENT = 2.0  # standard errors of the difference of two means
DIGITS = 5  # significant digits of a stored mean
SPREAD_DIGITS = {"sd": 2, "sd_networks": 2}  # 20 draws know a spread to a sixth, 5 to a third
SHA_DIGITS = 16  # hexadecimal digits kept of a sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One cell of a table, or one point of a figure.

    Attributes
    ----------
    experiment, group, dataset, model, setting, x, method, metric
        Which number this is: ``x`` is the degree of a shift, the share of noise or a number of
        rows, ``setting`` the name of the shift.
    reported : dict or None
        ``mean`` and ``std`` that the paper prints.
    reproduced, sd, draws
        Mean and standard deviation over the draws, and their number.
    networks, sd_networks
        Number of training runs that the draws go through in turn, and the standard deviation of
        their means; one run has none.
    evidence
        A key of `EVIDENCE`.
    data, weights
        First digits of the sha256 of the logits, and of the network's weights where the network
        was trained here.
    core
        First digits of the sha256 of the label-free core's code, where the method is one of the
        core (`temperance_lab.reproduce.core`); None in records older than this field.
    caveat, note
        How the group departs from the paper; what stood for an answer of the method, in how many
        draws.
    """

    experiment: str
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
    draws: int = 0
    networks: int = 1
    sd_networks: float | None = None
    evidence: str = "missing"
    data: str | None = None
    weights: str | None = None
    seed: int = 0
    version: str = __version__
    core: str | None = None
    caveat: str = ""
    note: str = ""
    needs: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise InputError(f"evidence must be one of {list(EVIDENCE)}. Got {self.evidence!r}.")
        if (self.reproduced is None) != (self.needs is not None):
            msg = "a record must have either a reproduced number or what it needs. Got "
            raise InputError(f"{msg}{self.reproduced} and {self.needs} for {self.key}.")

    @property
    def key(self) -> tuple[Any, ...]:
        """Fields that make two records the same cell."""
        return (self.experiment, self.group, self.setting, self.x, self.method, self.metric)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % t-interval of the mean: over training runs where there are several, else draws.

        The mean of a training run has the noise of its draws in it, so that an interval over
        training runs covers both.
        """
        several = self.networks > 1
        sd, n = (self.sd_networks, self.networks) if several else (self.sd, self.draws)
        if self.reproduced is None or sd is None or n < 2:
            return None
        half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * sd / math.sqrt(n)
        return self.reproduced - half, self.reproduced + half

    @property
    def z(self) -> float | None:
        """Difference from the print, beyond its last digit, in standard errors of two means.

        Only where the logits are the authors' own: other weights have other numbers. Draws count
        as independent, which draws of a fifth of one test set are but roughly.
        """
        if self.reported is None or self.reproduced is None or self.evidence != "exact":
            return None
        half_digit = 0.5 * 10 ** -(2 if self.metric == "accuracy" else 4)
        off = max(abs(self.reproduced - self.reported["mean"]) - half_digit, 0.0)
        error = math.hypot(
            (self.sd or 0.0) / math.sqrt(self.draws),
            self.reported["std"] / math.sqrt(PRINTED_DRAWS),
        )
        return off / error if error else math.inf if off else 0.0

    @property
    def agrees(self) -> bool | None:
        """Whether the mean is the printed one: at most two standard errors apart."""
        return None if self.z is None else self.z <= AGREEMENT

    @property
    def answered(self) -> int:
        """Number of draws in which the method itself answered, not a stand-in for it."""
        stand_ins = re.findall(r"in (\d+) of \d+ draws", self.note)
        return self.draws - sum(map(int, stand_ins))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it, in digits that are more than noise."""
        facts = asdict(self)
        for name, digits in SPREAD_DIGITS.items():
            facts[name] = _rounded(facts[name], digits)
        return _rounded(facts)


FIELDS = tuple(field.name for field in fields(Record))
# The version is that of the code which measured; it has no default in a file.
DEFAULT = {f.name: f.default for f in fields(Record) if f.default is not MISSING} | {
    "version": None
}
REQUIRED = {name for name in FIELDS if DEFAULT.get(name, MISSING) is MISSING} | {"version"}
MEASURED = (
    "metric",
    "reported",
    "reproduced",
    "sd",
    "sd_networks",
)  # fields of one cell; others are a method's


LONG = 16  # characters of a text that stands once
TEXTS = (
    "method",
    "note",
    "caveat",
    "data",
    "weights",
    "core",
    "dataset",
    "model",
    "evidence",
    "setting",
)
LAYOUT = ("columns", "measured", "metrics")  # how a row of a file is read


def measured(
    values: ArrayLike, reported: dict[str, float] | None, evidence: str, networks: int = 1
) -> dict[str, Any]:
    """Return the fields that follow from the values of the draws; draw i is of network i mod n."""
    v = np.round(np.asarray(values, np.float64), 12)  # sums in another order differ beyond
    means = [v[i::networks].mean() for i in range(networks)]
    return {
        "reported": reported,
        "reproduced": float(v.mean()),
        "sd": float(v.std(ddof=1)),
        "draws": len(v),
        "networks": networks,
        "sd_networks": float(np.std(means, ddof=1)) if networks > 1 else None,
        "evidence": evidence,
    }


def _rounded(value: Any, digits: int = DIGITS) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    return (
        {key: _rounded(part) for key, part in value.items()} if isinstance(value, dict) else value
    )


def write(path: Path, records: list[Record]) -> None:
    """Write the records of an experiment, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [record.to_dict() for record in records]
    everywhere = _shared(rows)
    tables = [_table(list(some)) for _, some in groupby(rows, key=lambda r: (r["group"], r["x"]))]
    long = Counter(cell for *_, table in tables for row in table for cell in row if _is_long(cell))
    place = {text: i for i, text in enumerate(text for text, times in long.items() if times > 1)}
    fields, layout = DEFAULT | everywhere, {}
    lines = []
    for line_fields, line_layout, table in tables:
        changed = {"fields": _changed(line_fields, fields)} | _changed(line_layout, layout)
        cells = [[place.get(c, c) if isinstance(c, str) else c for c in row] for row in table]
        lines.append(_json(changed | {"rows": cells}))
        fields, layout = fields | line_fields, line_layout
    partial = path.with_name(f"{path.name}.partial")
    text = ",\n".join(lines)
    head = f'{{"shared":{_json(everywhere)},"texts":{_json(list(place))},"tables":[\n'
    text = f"{head}{text}\n]}}\n"
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _shared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields that are the same in all records."""
    return {k: v for k, v in rows[0].items() if all(row[k] == v for row in rows)} if rows else {}


def _is_long(cell: object) -> TypeGuard[str]:
    return isinstance(cell, str) and len(cell) >= LONG


def _changed(facts: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in facts.items() if before.get(k, MISSING) != v}


def _table(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any], list[list[Any]]]:
    """Return records of one group and degree: shared fields, names of the others, and rows.

    A row is a method: its own fields, and then the measured fields of each metric.
    """
    shared = _shared(rows)
    columns = [name for name in FIELDS if name not in shared and name not in MEASURED]
    measured = [name for name in MEASURED[1:] if name not in shared]
    metrics, table = [], []
    for own, some in groupby(rows, key=lambda r: [r[c] for c in columns]):
        cells = list(some)
        metrics.append([cell["metric"] for cell in cells])
        table.append(own + [cell[name] for cell in cells for name in measured])
    if all(names == metrics[0] for names in metrics):
        metrics = metrics[0]
    return shared, {"columns": columns, "measured": measured, "metrics": metrics}, table


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read(path: Path) -> list[Record]:
    """Read the records of an experiment back."""
    records = []
    file = json.loads(path.read_text(encoding="utf-8"))
    fields, layout, texts = file["shared"], {}, file.get("texts", ())
    for table in file["tables"]:
        fields |= table["fields"]
        layout |= {name: table[name] for name in LAYOUT if name in table}
        columns, measured, metrics = (layout[name] for name in LAYOUT)
        alike = not metrics or isinstance(metrics[0], str)
        for number, row in enumerate(table["rows"]):
            own = dict(zip(columns, row[: len(columns)], strict=True))
            named = {n: texts[v] for n, v in own.items() if n in TEXTS and isinstance(v, int)}
            own = fields | own | named
            values = iter(row[len(columns) :])
            for metric in metrics if alike else metrics[number]:
                facts = own | {"metric": metric} | {name: next(values) for name in measured}
                odd = sorted(set(facts) - set(FIELDS) | REQUIRED - set(facts))
                if odd:
                    raise InputError(f"{path.name} must hold records. Fields differ: {odd}.")
                records.append(Record(**facts))
    return records
