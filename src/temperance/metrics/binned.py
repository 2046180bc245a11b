"""Calibration errors by binning: how far confidence is from accuracy, bin by bin.

Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning",
AAAI 2015; Guo et al., ICML 2017. With B_1 … B_M the bins and n_b, conf(b), acc(b) the number of
rows, mean confidence and accuracy in bin b:

    ECE = Σ_b (n_b / n) |acc(b) - conf(b)|

All of these are *not* proper scores: a model that always predicts the class mix has an error of 0
and is useless. They depend on the bins, and with few rows they are biased upward: noise in a bin
counts as error whatever its sign. Report them beside NLL or Brier, never alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats, softmax, to_numpy
from temperance._core.sums import bin_index, bin_sums, sums_at
from temperance.data import Block, as_labelled_rows
from temperance.data.types import LabelsLike, LogitsLike, WeightsLike
from temperance.metrics._outcomes import gather, labels_of, runs, sum_outcomes

N_BINS = 15  # unless others are asked for
LARGEST_CONFIDENCE = 1 + 1e-6  # a float32 softmax may exceed 1 by its rounding


@final
@dataclass(frozen=True, eq=False)
class Bins:
    """Confidence and accuracy, summed by bins of confidence; ``+`` adds the rows of another.

    Bin b holds the confidences in ``(edges[b], edges[b + 1]]``; the first holds ``edges[0]`` too.
    Sums are float64 and counts exact, so parts merge to the counts of the whole to the last bit.
    Arrays of shape (K, n_bins) hold the bins of K classes.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
    counts : array of shape (n_bins,)
        Rows in each bin, or the sum of their weights.
    confidence, correct : array of shape (n_bins,)
        Sum of the confidences, and number (or weight) of rows that are right.

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.array([0.2, 0.6, 1.0, 0.9])
    >>> bins = Bins.equal_width(confidence, np.array([0.0, 1.0, 1.0, 0.0]), n_bins=5)
    >>> bins.counts
    array([1, 0, 1, 0, 2])
    >>> round(bins.ece, 6)  # (|0 - .2| + |1 - .6| + |1 - 1.9|) / 4
    0.375
    >>> (bins + bins).counts
    array([2, 0, 2, 0, 4])
    """

    edges: Floats
    counts: NDArray[Any]
    confidence: NDArray[Any]
    correct: NDArray[Any]

    @classmethod
    def equal_width(
        cls,
        confidence: NDArray[Any],
        correct: NDArray[Any],
        weight: NDArray[Any] | None = None,
        *,
        n_bins: int = N_BINS,
    ) -> Bins:
        """Return the sums over bins of width ``1 / n_bins``."""
        confidence, correct, weight = _alike(confidence, correct, weight)
        edges = unit_edges(n_bins)
        sums = bin_sums(confidence, correct, weight, edges)
        return cls.from_sums(sums, edges, weighted=weight is not None)

    @classmethod
    def from_sums(cls, sums: Floats, edges: Floats, *, weighted: bool) -> Bins:
        """Return bins from their sums (3, n_bins); without weights the counts are integers."""
        counts, confidence, correct = sums
        return cls(edges, counts if weighted else counts.astype(np.int64), confidence, correct)

    @classmethod
    def equal_mass(
        cls,
        confidence: NDArray[Any],
        correct: NDArray[Any],
        weight: NDArray[Any] | None = None,
        *,
        n_bins: int = N_BINS,
    ) -> Bins:
        """Return the sums over bins of (nearly) equal weight; equal confidences stay together.

        Rows are ordered by confidence. A run of equal confidences that covers the ranks a to b of
        n goes as a whole into bin ``floor(n_bins (a + b) / 2n)``, where its middle falls.
        """
        confidence, correct, weight = _alike(confidence, correct, weight)
        w = np.ones(confidence.size) if weight is None else weight
        value, run = runs(confidence)
        mass, right = np.bincount(run, w), np.bincount(run, w * correct)
        end = np.cumsum(mass)
        place = np.floor((2 * end - mass) * n_bins / (2 * end[-1])).astype(np.intp)
        place = np.clip(place, 0, n_bins - 1)
        edges = np.zeros(n_bins + 1)
        np.maximum.at(edges, place + 1, value)
        return cls(
            np.maximum.accumulate(edges),
            np.bincount(place, mass, n_bins),
            np.bincount(place, mass * value, n_bins),
            np.bincount(place, right, n_bins),
        )

    def __add__(self, other: Bins) -> Bins:
        if not np.array_equal(self.edges, other.edges) or self.counts.shape != other.counts.shape:
            raise checks.InputError(
                f"bins to add must have the same edges. Got {self.counts.shape} and "
                f"{other.counts.shape} bins, or bins of equal mass, which fit one set of rows only."
            )
        return Bins(
            self.edges,
            self.counts + other.counts,
            self.confidence + other.confidence,
            self.correct + other.correct,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins):
            return NotImplemented
        return all(np.array_equal(a, vars(other)[name]) for name, a in vars(self).items())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @property
    def errors(self) -> Floats:
        """Calibration error of each set of bins: a scalar array, or one number a class."""
        gap = np.abs(self.correct - self.confidence).sum(axis=-1)
        return gap / self.counts.sum(axis=-1)

    @property
    def ece(self) -> float:
        """Expected calibration error, the mean over classes when there are several sets of bins."""
        return float(self.errors.mean())


def _alike(
    confidence: NDArray[Any], correct: NDArray[Any], weight: NDArray[Any] | None
) -> tuple[Floats, Floats, Floats | None]:
    """Return columns of one length, in float64."""
    for name, column in (("correct", correct), ("weight", weight)):
        if column is not None and np.shape(column) != np.shape(confidence):
            shapes = f"{np.shape(confidence)}. Got shape {np.shape(column)}"
            raise checks.InputError(f"{name} must have the shape of the confidences, {shapes}.")
    c, right = (np.asarray(column, np.float64) for column in (confidence, correct))
    if not np.all((c >= 0) & (c <= LARGEST_CONFIDENCE)):
        wrong = c[~((c >= 0) & (c <= LARGEST_CONFIDENCE))][0]
        raise checks.InputError(f"confidence must lie between 0 and 1. Got {wrong:g}.")
    return c, right, None if weight is None else np.asarray(weight, np.float64)


def unit_edges(n_bins: int) -> Floats:
    """Return the edges ``j / n_bins``, each rounded once."""
    return np.arange(n_bins + 1) / n_bins


def ece(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    n_bins: int = N_BINS,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the expected calibration error, bins of equal width. Lower is better; 0 is best.

    .. math:: \sum_{b=1}^{M} \frac{n_b}{n} \left| \mathrm{acc}(b) - \mathrm{conf}(b) \right|
       \qquad B_b = \left( \tfrac{b-1}{M}, \tfrac{b}{M} \right]

    The confidence of a row is its largest softmax probability. Bins are closed on the right; the
    first holds 0 as well, the last holds 1. Empty bins are skipped. Sums are float64.

    Not a proper score, and biased upward when rows are few: a perfectly calibrated model has an
    ECE of order ``sqrt(M / n)``. See `smooth_ece` for one without bins.

    Equals netcal's ``ECE(15)`` and, up to its float32 sums, torchmetrics'
    ``MulticlassCalibrationError(norm="l1")``, which closes bins on the left.

    ``n_bins`` is M; the other arguments are those of `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 4)  # four rows with confidence 3/4
    >>> round(tp.metrics.ece(z, [0, 0, 1, 1]), 6)  # |1/2 - 3/4|
    0.25
    """
    edges = unit_edges(checks.check_bins(n_bins))
    sums = sum_outcomes(as_labelled_rows(logits, labels, sample_weight, classes=classes), edges)
    return Bins.from_sums(sums.bins, edges, weighted=bool(sums.weighted)).ece


def adaptive_ece(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    n_bins: int = N_BINS,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the expected calibration error, bins of equal mass. Lower is better; 0 is best.

    .. math:: \sum_{b=1}^{M} \frac{n_b}{n} \left| \mathrm{acc}(b) - \mathrm{conf}(b) \right|
       \qquad n_b \approx n / M

    Rows are sorted by confidence and cut into M runs whose sizes differ by at most one, as long as
    confidences differ. Equal confidences stay in one bin, the one where the middle of their run
    falls, so that the order of rows is irrelevant; with many ties bins can be uneven, and empty
    ones are skipped. Every bin has enough rows where `ece` has nearly empty ones.

    Nixon et al., "Measuring calibration in deep learning", 2019. Needs all confidences at once: 40
    bytes for each row.

    ``n_bins`` is M; the other arguments are those of `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> p = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]])
    >>> z = tp.from_probabilities(p)
    >>> round(tp.metrics.adaptive_ece(z, [1, 0, 0, 0], n_bins=2), 6)  # (|1 - 1.3| + |2 - 1.7|) / 4
    0.15
    """
    n_bins = checks.check_bins(n_bins)
    o = gather(as_labelled_rows(logits, labels, sample_weight, classes=classes))
    return Bins.equal_mass(o.confidence, o.correct, o.weight, n_bins=n_bins).ece


def classwise_ece(
    logits: LogitsLike,
    labels: LabelsLike | None = None,
    sample_weight: WeightsLike | None = None,
    *,
    n_bins: int = N_BINS,
    classes: Sequence[object] | None = None,
) -> float:
    r"""Return the calibration error of class probabilities, mean over classes. Lower is better.

    .. math:: \frac{1}{K} \sum_k \sum_{b=1}^{M} \frac{n_{bk}}{n}
       \left| \mathrm{freq}_k(b) - \overline{p}_k(b) \right|

    with ``B_b`` as in `ece`, applied to the probabilities of class k, and ``freq_k(b)`` the share
    of rows of bin b that have the label k. It sees what `ece` does not: probabilities below the
    largest. All K columns count, classes without rows too; with many classes most probabilities
    are near 0, and so is this number.

    Kull et al., "Beyond temperature scaling", NeurIPS 2019; the static calibration error of Nixon
    et al., 2019.

    ``n_bins`` is M; the other arguments are those of `accuracy`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[np.log(3.0), 0.0]] * 4)  # probabilities 3/4 and 1/4
    >>> round(tp.metrics.classwise_ece(z, [0, 0, 1, 1]), 6)  # (|2/4 - 3/4| + |2/4 - 1/4|) / 2
    0.25
    """
    n_bins = checks.check_bins(n_bins)
    rows = as_labelled_rows(logits, labels, sample_weight, classes=classes)

    def bins_of_classes(block: Block) -> Bins:
        p, place, truth = class_bins(block, n_bins)
        weight = None if block.weight is None else np.repeat(block.weight, p.shape[1])
        sums = sums_at(place.ravel(), p.ravel(), truth.ravel(), weight, p.shape[1] * n_bins)
        sums = sums.reshape(3, -1, n_bins)
        return Bins.from_sums(sums, unit_edges(n_bins), weighted=weight is not None)

    return rows.reduce(bins_of_classes).ece


def class_bins(block: Block, n_bins: int) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Return softmax, bin (class k has the numbers ``k n_bins …``) and one-hot label: (n, K)."""
    p, y = softmax(to_numpy(block.logits).astype(np.float64)), labels_of(block)
    classes = np.arange(p.shape[1], dtype=np.intp)
    place = bin_index(p.ravel(), n_bins).reshape(p.shape) + n_bins * classes
    truth = y if y.ndim == 2 else classes == y[:, None]
    return p, place, truth.astype(np.float64)
