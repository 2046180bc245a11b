"""Metrics as functions of sums over rows, for the bootstrap.

A mean of outcomes is one sum. A calibration error is the norm of a vector of signed gaps, each of
them a sum: ``v_b = Σ_{i∈b} w_i (correct_i - confidence_i) / Σ_i w_i``. Bins and bandwidths that
depend on the data are those of the rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from temperance._core.arrays import Floats
from temperance.data import Block, Rows, Totals
from temperance.metrics import binned, evaluation, smooth
from temperance.metrics._outcomes import Outcomes, gather


class Sums(NamedTuple):
    """A metric made of sums: ``finish(Σ columns / Σ weight)``."""

    columns: Any  # (n, d), sparse or not: what each row adds, times its weight
    weight: Floats  # (n,)
    finish: Callable[[Floats], Floats] | None  # linear, along the last axis; None does nothing
    norm: bool  # a calibration error: the sum of absolute values, not the value itself


def of_mean(rows: Rows, column: str, scale: float = 1.0) -> Sums:
    """Return the mean of one column of the outcomes."""
    o = gather(rows)
    total = o.mass * getattr(o, column) * scale
    return Sums(total[:, None], o.mass, finish=None, norm=False)


def of_brier(rows: Rows, *, per_class: bool = True) -> Sums:
    """Return the Brier score, by either convention."""
    return of_mean(rows, "brier", 1 / rows.n_classes if per_class else 1.0)


def of_ece(rows: Rows, *, n_bins: int = binned.N_BINS) -> Sums:
    """Return the gaps of bins of equal width."""
    o = gather(rows)
    return _gaps(o, binned.bin_index(o.confidence, n_bins)[:, None], np.ones((o.n, 1)), n_bins)


def of_adaptive_ece(rows: Rows, *, n_bins: int = binned.N_BINS) -> Sums:
    """Return the gaps of bins of equal mass."""
    o = gather(rows)
    edges = binned.Bins.equal_mass(o.confidence, o.correct, o.weight, n_bins=n_bins).edges
    place = np.searchsorted(edges[1:-1], o.confidence)
    return _gaps(o, place[:, None], np.ones((o.n, 1)), n_bins)


def of_smooth_ece(rows: Rows) -> Sums:
    """Return the gaps on a grid that has 16 cells to the bandwidth."""
    o, sigma = gather(rows), smooth.smooth_ece(rows)
    cells = int(np.clip(16 / max(sigma, 1e-9), 256, 4096))
    place, share = smooth.split_between_cells(o.confidence, cells)
    smoothing = partial(smooth.smoothed, sigma=sigma)
    return _gaps(o, place.T, share.T, cells)._replace(finish=smoothing)


def _gaps(o: Outcomes, place: NDArray[np.intp], share: Floats, n_bins: int) -> Sums:
    """Gaps of rows that each give shares (n, m) of their own gap to some bins (n, m)."""
    gap = (o.mass * (o.correct - o.confidence))[:, None]
    return Sums(_sparse(gap * share, place, n_bins), o.mass, finish=None, norm=True)


def of_classwise_ece(rows: Rows, *, n_bins: int = binned.N_BINS) -> Sums:
    """Return the gaps of the bins of all classes, divided by their number."""
    parts = rows.reduce(partial(_class_gaps, n_bins=n_bins))
    gap, place, weight = (np.concatenate(part) for part in parts)
    return Sums(_sparse(gap, place, rows.n_classes * n_bins), weight, finish=None, norm=True)


def _class_gaps(block: Block, *, n_bins: int) -> Totals:
    p, place, truth = binned.class_bins(block, n_bins)
    n, k = p.shape
    weight = np.ones(n) if block.weight is None else block.weight
    return [weight[:, None] * (truth - p) / k], [place], [weight]


def _sparse(data: Floats, place: NDArray[np.intp], width: int) -> Any:
    """The (n, width) array whose row i holds ``data[i]`` in the columns ``place[i]``."""
    n, m = data.shape
    starts = m * np.arange(n + 1, dtype=np.intp)
    return csr_array((data.ravel(), place.ravel(), starts), shape=(n, width))


SUMS: dict[Any, Callable[..., Sums]] = {
    evaluation.accuracy: partial(of_mean, column="correct"),
    evaluation.nll: partial(of_mean, column="nll"),
    evaluation.brier: of_brier,
    binned.ece: of_ece,
    binned.adaptive_ece: of_adaptive_ece,
    binned.classwise_ece: of_classwise_ece,
    smooth.smooth_ece: of_smooth_ece,
}
