"""Bootstrap intervals of metrics, by row or by group.

Efron, 1979; by group (Field and Welsh, 2007) whole groups are drawn, because the rows of one
patient are not independent and intervals by row would be too narrow.

The library's own metrics are functions of sums over rows: ``metric = m(Σ_i c_i)``. The logits are
read once, the sums c of each row (or group) are kept, and a resample is a vector of counts times
that matrix. A mean of outcomes is one sum; a calibration error is the norm of a vector of signed
gaps, each of them a sum. Bins and bandwidths that depend on the data are those of the rows as they
are.

**Calibration errors need another interval.** They are norms of a vector of signed gaps,
``|v|`` with ``v_b = Σ_{i∈b} (correct_i - confidence_i) / n``: noise can only add. The resamples
lie above the estimate, which itself lies above the truth, and percentiles of them miss the truth
nearly always when calibration is good. Instead, a test is inverted. With ``ε* = v* - v`` the noise
of the resamples, the interval holds the errors ``λ|v|`` whose ray ``λv`` explains what was seen:

    { λ|v| :  the estimate |v| lies between the α/2 and 1 - α/2 quantiles of |λv + ε*| }

It starts at 0 when noise alone would do, and tends to the usual interval when gaps are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array

from temperance._core import checks
from temperance._core.arrays import Floats, as_array, namespace, to_numpy
from temperance._core.stats import Interval
from temperance.data import Block, Rows, Totals, as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics import binned, evaluation, selective, smooth
from temperance.metrics._outcomes import Outcomes, gather

DRAWS = 1 << 22  # counts drawn at once: 32 MB


def bootstrap(
    metric: Callable[..., float],
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    groups: LabelsLike | None = None,
    *,
    sample_weight: WeightsLike | None = None,
    classes: Sequence[object] | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> Interval:
    r"""Return a metric with its bootstrap interval.

    .. math:: m^* = m\Bigl( \sum_g N_g\, c_g \Bigr) \qquad
       N \sim \mathrm{Multinomial}(G;\ 1/G, \dots, 1/G)

    where :math:`c_g` are the sums over the rows of group g that the metric m is made of. The
    interval of a calibration error (`ece`, `adaptive_ece`, `classwise_ece`, `smooth_ece`) inverts
    a test, because percentiles would miss a small error nearly always; other metrics take the
    percentiles of m*. Either is widened, if need be, to hold the estimate.

    Give ``groups`` whenever rows share a patient, a lesion, a video or a site: intervals by row
    are too narrow then. Fewer than about 20 groups make any such interval too narrow. The same
    seed draws the same resamples for every metric and every map, so differences can be compared.

    Parameters
    ----------
    metric : callable
        A metric of this module; ``functools.partial(ece, n_bins=10)`` sets an option. Any other
        function of ``(logits, labels)`` works too, on resampled rows, and is called n_resamples
        times.
    logits, labels, sample_weight, classes
        Labelled rows, as of `accuracy`; the metric is handed them.
    groups : array of shape (n,), optional
        Names or numbers of the groups that are drawn as a whole. By default each row is drawn by
        itself.
    n_resamples : int
        Number of resamples.
    level : float
        Probability that the interval holds the true value.
    seed : int or numpy.random.Generator

    Returns
    -------
    Interval
        ``value`` is the metric of the rows as they are.

    Notes
    -----
    An error that was never seen cannot be resampled: when all rows are right, the interval of the
    accuracy is a point.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 400)
    >>> y = np.array([0, 0, 0, 1] * 100)  # three of four are right, with confidence 3/4
    >>> print(f"{tp.metrics.bootstrap(tp.metrics.accuracy, z, y):.2f}")
    0.75 [0.71, 0.79]
    >>> patient = np.arange(400) // 40  # ten patients
    >>> hard = np.where(patient < 5, 1, 0)  # and all errors in five of them
    >>> y = np.where(np.arange(400) % 2 == 0, hard, 0)
    >>> print(f"{tp.metrics.bootstrap(tp.metrics.accuracy, z, y):.2f}")
    0.75 [0.71, 0.79]
    >>> print(f"{tp.metrics.bootstrap(tp.metrics.accuracy, z, y, groups=patient):.2f}")
    0.75 [0.60, 0.90]
    """
    function, options = _split(metric)
    classes = options.pop("classes", classes)
    rows = as_labelled_rows(logits, labels, sample_weight, classes=classes)
    rng = checks.check_seed(seed)
    n_resamples = checks.check_integer(n_resamples, "n_resamples", low=1)
    level = checks.check_number(level, "level", low=0, high=1, open_low=True)
    units = group_numbers(groups, rows.n)
    draws = partial(draw_counts, int(units.max()) + 1, n_resamples, rng)
    if function in SUMS:
        value, sums = function(rows, **options), SUMS[function](rows, **options)
        low, high = _of_sums(sums, units, draws(), level)
    elif function in CURVES:
        value, o = function(rows), gather(rows)
        low, high = _percentiles([CURVES[function](o, w[units]) for n in draws() for w in n], level)
    else:
        table = _table(logits, labels, sample_weight)
        value = metric(*table)
        if np.ndim(value) or not isinstance(np.asarray(value).item(), (int, float)):
            msg = f"metric must return a number. Got {type(value).__name__} instead."
            raise checks.InputError(msg)
        each = (np.repeat(np.arange(rows.n), w[units]) for n in draws() for w in n)
        low, high = _percentiles([metric(*_take(table, i)) for i in each], level)
    value = float(value)
    return Interval(value, min(low, value), max(high, value))


def group_numbers(groups: object, n: int) -> NDArray[np.intp]:
    """Number of the group of each row; without groups each row is one."""
    if groups is None:
        units = np.arange(n)
    else:
        names = as_array(groups)
        if names is None or tuple(names.shape) != (n,):
            got = type(groups).__name__ if names is None else f"shape {tuple(names.shape)}"
            msg = f"groups must have shape ({n},), one name or number per row. Got {got} instead."
            raise checks.InputError(msg)
        units = _numbered(to_numpy(names))
    if units.max() == 0:
        what = "one row" if groups is None else "one group"
        msg = f"bootstrap needs at least two rows, or two groups, to draw from. Got {what}."
        raise checks.InputError(msg)
    return units


def _numbered(names: NDArray[Any]) -> NDArray[np.intp]:
    """Return the number of each name among the different ones."""
    try:
        return np.unique(names, return_inverse=True)[1]
    except TypeError:  # names of several types have no order
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(one), len(known)) for one in names.tolist()])


def _split(metric: Any) -> tuple[Any, dict[str, Any]]:
    """A metric and the options that ``functools.partial`` put on it."""
    if not callable(metric):
        raise checks.InputError(
            f"metric must be a function of (logits, labels), such as temperance.metrics.ece. Got "
            f"{checks.shown(metric)} instead."
        )
    function = cast("Any", metric)
    if isinstance(metric, partial) and not function.args:
        return function.func, function.keywords
    return function, {}


def draw_counts(n: int, n_resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Yield counts of n units drawn n times, with replacement, in blocks (resamples, n)."""
    at_once = max(1, DRAWS // n)
    for start in range(0, n_resamples, at_once):
        b = min(at_once, n_resamples - start)
        drawn = rng.integers(0, n, (b, n)) + n * np.arange(b)[:, None]
        yield np.bincount(drawn.ravel(), minlength=b * n).reshape(b, n)


def _percentiles(values: Any, level: float) -> tuple[float, float]:
    ends = np.quantile(np.asarray(values, np.float64), [(1 - level) / 2, (1 + level) / 2])
    return float(ends[0]), float(ends[1])


def _of_sums(
    sums: Sums, units: NDArray[np.intp], draws: Iterator[NDArray[np.intp]], level: float
) -> tuple[float, float]:
    """Interval of a metric made of sums: percentiles, or for a calibration error the ray."""
    member: Any = csr_array((np.ones(units.size), (units, np.arange(units.size))))
    columns, weight = member @ sums.columns, member @ sums.weight
    parts: list[Floats] = []
    for counts in draws:
        total = counts @ weight
        heavy = total > 0  # a resample of rows of weight 0 is left out
        parts.append((counts[heavy] @ columns) / total[heavy, None])
    means, mean = np.concatenate(parts), columns.sum(axis=0) / weight.sum()
    if sums.finish is not None:
        means, mean = sums.finish(means), sums.finish(mean)
    return _along_ray(mean, means - mean, level) if sums.norm else _percentiles(means, level)


def _along_ray(gaps: Floats, noise: Floats, level: float) -> tuple[float, float]:
    """Interval of ``λ|v|``: see the top of the file."""
    seen = float(np.abs(gaps).sum())
    if seen == 0:
        return 0.0, float(np.quantile(np.abs(noise).sum(axis=1), level))

    def end(q: float) -> float:
        def surplus(scale: float) -> float:
            return float(np.quantile(np.abs(scale * gaps + noise).sum(axis=1), q)) - seen

        if surplus(0.0) >= 0:
            return 0.0
        high = 1.0
        while surplus(high) < 0:  # ends: |λv + ε| ≥ λ|v| - |ε|
            high *= 2
        return seen * float(brentq(surplus, 0.0, high, xtol=1e-6))

    return end((1 + level) / 2), end((1 - level) / 2)


def _reweighted(o: Outcomes, counts: NDArray[np.intp]) -> selective.RiskCoverage:
    return selective.curve_of(o._replace(weight=o.mass * counts))


CURVES: dict[Any, Callable[[Outcomes, NDArray[np.intp]], float]] = {
    selective.aurc: lambda o, counts: selective.area(_reweighted(o, counts)),
    selective.excess_aurc: lambda o, counts: selective.excess(_reweighted(o, counts)),
}


def _table(*columns: object) -> tuple[Any, ...]:
    """Arguments of a metric that is not ours: arrays of the user's own kind."""
    if isinstance(columns[0], Rows):
        blocks = zip(*columns[0].blocks(), strict=True)
        given = (column for column in blocks if column[0] is not None)
        return tuple(np.concatenate([to_numpy(part) for part in column]) for column in given)
    return tuple(as_array(column) for column in columns if column is not None)


def _take(table: tuple[Any, ...], index: NDArray[np.intp]) -> tuple[Any, ...]:
    def rows_of(column: Any) -> Any:
        xp = namespace(column)
        return xp.take(column, xp.asarray(index, device=column.device), axis=0)

    return tuple(rows_of(column) for column in table)


# --------------------------------------------------------- metrics as functions of sums over rows


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


def of_ece(rows: Rows, *, n_bins: int = binned.N_BINS, adaptive: bool = False) -> Sums:
    """Return the gaps of bins of equal width, or of equal mass."""
    o = gather(rows)
    place = binned.bin_index(o.confidence, n_bins)
    if adaptive:
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

    def gaps(block: Block) -> Totals:
        p, place, truth = binned.class_bins(block, n_bins)
        weight = np.ones(len(p)) if block.weight is None else block.weight
        return [weight[:, None] * (truth - p) / p.shape[1]], [place], [weight]

    gap, place, weight = (np.concatenate(part) for part in rows.reduce(gaps))
    return Sums(_sparse(gap, place, rows.n_classes * n_bins), weight, finish=None, norm=True)


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
    binned.adaptive_ece: partial(of_ece, adaptive=True),
    binned.classwise_ece: of_classwise_ece,
    smooth.smooth_ece: of_smooth_ece,
}
