"""The paper's protocol: a fifth of the test rows to calibrate on, the others to judge, 20 times.

Where several networks were trained alike, the 20 draws go through them in turn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance.metrics import evaluate
from temperance_lab.progress import tracked
from temperance_lab.reproduce.core import core_of
from temperance_lab.reproduce.methods import FitInput, fit
from temperance_lab.reproduce.record import Record, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from temperance_lab.reproduce.methods import Fitted

    Judged = tuple[NDArray[np.float64], NDArray[np.int64]]
    Draw = Callable[[np.random.Generator], tuple[FitInput, Judged]]

__all__ = ["Draws", "Logits", "draw_fifth", "draw_shifted", "over_draws"]

METRICS = ("accuracy", "nll", "ece", "brier", "temperature")
SHARE = 5  # a fifth
ROWS = 2_000  # of the source at most: as many as a fifth of ten thousand


@dataclass(frozen=True, slots=True)
class Logits:
    """Logits and labels of a test set, its class prior, and where they come from."""

    z: NDArray[np.float64]
    y: NDArray[np.int64]
    prior: NDArray[np.float64]
    data: str
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """Values of every metric and draw by method, and what stood for an answer how often."""

    values: dict[str, dict[str, list[float]]]
    notes: dict[str, Counter[str]]
    networks: int = 1

    def records(
        self,
        metrics: Iterable[str],
        reported: Callable[[str, str], dict[str, float] | None] = lambda *_: None,
        **shared: Any,
    ) -> list[Record]:
        """Return a record for every method and metric; ``shared`` are their common fields."""
        caveat, evidence = shared.pop("caveat", ""), shared.pop("evidence")
        out = []
        for method, values in self.values.items():
            n = len(values["nll"])
            notes = [f"{note}, in {k} of {n} draws" for note, k in self.notes[method].items()]
            for metric in metrics:
                if np.isnan(values[metric]).any():
                    continue  # no temperature in a vector or a matrix
                printed = reported(method, metric)
                facts = measured(values[metric], printed, evidence, self.networks)
                facts |= {
                    "method": method,
                    "metric": metric,
                    "core": core_of(method),
                    "caveat": caveat,
                    "note": "; ".join(notes),
                }
                out.append(Record(**shared, **facts))
        return out


def over_draws(
    draws: Draw | Sequence[Draw], methods: Iterable[str], n_draws: int, seed: int = 0
) -> Draws:
    """Fit every method on every draw. A draw depends on its number and the seed alone.

    Of several networks each has its own function to draw, and they take turns.
    """
    methods, turns = list(methods), [draws] if callable(draws) else list(draws)
    values = {m: {metric: [] for metric in METRICS} for m in methods}
    notes: dict[str, Counter[str]] = {m: Counter() for m in methods}
    for i in tracked(range(n_draws), "draws"):
        given, judged = turns[i % len(turns)](np.random.default_rng([seed, i]))
        for method in methods:
            fitted, note = fit(method, given)
            if note:
                notes[method][note] += 1
            for metric, value in judge(fitted, *judged).items():
                values[method][metric].append(value)
    return Draws(values, notes, len(turns))


def judge(fitted: Fitted, z: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, float]:
    """Return the metrics of a map on labelled rows; accuracy in per cent."""
    result = evaluate(np.asarray(fitted(z)), y)
    t = getattr(fitted, "temperature", None)
    return {
        "accuracy": 100 * result.accuracy,
        "nll": result.nll,
        "ece": result.ece,
        "brier": result.brier,
        "temperature": float("nan") if t is None else float(t),
    }


def draw_fifth(logits: Logits, *, noise: float = 0.0, n: int | None = None) -> Draw:
    """Draw rows of one domain; a share ``noise`` of their labels is replaced by others.

    A fifth is drawn by class, as the authors' code draws: every class has the share of the test
    set. Labels wrong at a small noise are wrong at a larger one. ``n`` rows, drawn at random in
    place of a fifth, are judged on all rows, so that every number of rows is judged on the same.
    """

    def draw(rng: np.random.Generator) -> tuple[FitInput, Judged]:
        z, y = logits.z, logits.y
        order = rng.permutation(len(y))
        here = order[:n] if n is not None else stratified(y[order], order, len(y) // SHARE)
        there = order if n is not None else np.setdiff1d(order, here)
        wrong = (y[here] + rng.integers(1, z.shape[1], len(here))) % z.shape[1]
        labels = np.where(rng.random(len(here)) < noise, wrong, y[here])
        return FitInput(z[here], labels, logits.prior), (z[there], y[there])

    return draw


def stratified(classes: NDArray[np.int64], rows: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return ``n`` of the rows, of each class its share; the largest remainders get one more."""
    counts = np.bincount(classes)
    wanted = counts * n / len(rows)
    take = wanted.astype(np.intp)
    more = np.argsort(take - wanted, kind="stable")[: n - take.sum()]
    take[more] += 1
    rank = np.empty(len(rows), np.intp)  # place of each row among those of its class
    for label, count in enumerate(counts):
        rank[classes == label] = np.arange(count)
    return rows[rank < take[classes]]


def draw_shifted(source: Logits, target: Logits, *, n: int | None = None) -> Draw:
    """Draw rows of a shifted domain, and as many labelled rows from before the shift, at random.

    Without ``n``, 2,000 rows, which are a fifth of the paper's test sets, or half of a small one.
    """
    here = min(ROWS, len(target.y) // 2) if n is None else n

    def draw(rng: np.random.Generator) -> tuple[FitInput, Judged]:
        given, (z, y) = draw_fifth(target, n=here)(rng)
        few = rng.permutation(len(source.y))[:here]
        given = replace(given, source=(source.z[few], source.y[few]))
        return given, (z, y) if n is not None else (z[here:], y[here:])

    return draw
