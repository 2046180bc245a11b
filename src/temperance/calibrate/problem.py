"""The problem: what was given, checked, and reduced to the rows and classes that matter.

Classes that cannot occur are left out of every computation, so that they change no answer: a class
that is masked in every row, or never predicted and either excluded by the prior or constant. A
masked logit (-inf, or 10,000 below the largest of its row) is a class that is impossible there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from temperance._core import checks
from temperance._core.arrays import Floats, as_array, as_numbers, softmax_at, to_numpy
from temperance._core.checks import InputError, NotIdentified
from temperance._core.stats import Z90
from temperance.calibrate.constants import NUMERICAL, POLICY
from temperance.data import as_rows, given
from temperance.data.given import LabelledSample
from temperance.data.types import FeaturesLike, LogitsLike, PriorLike, SourceLike

ROUNDING = 1e-12  # of the largest logit
HASHED = 256  # rows that are hashed at a time
FEATURES_ALONE = (
    "features are compared with those of a labelled source: give source=(logits, labels) too, or "
    "leave features out."
)


# ------------------------------------------------------------------------------ the class mix


@dataclass(frozen=True)
class Prior:
    """Class probabilities, how they are known ("given", "about" or "range"), and how well."""

    value: Floats
    kind: str
    low: Floats  # equal to the value when it is given exactly, as is high
    high: Floats
    rows: float = np.inf  # as reliable as a count of that many rows
    keys: tuple[str, ...] | None = None  # classes by which it was given, until it meets columns

    @property
    def exact(self) -> bool:
        """Return whether there is only one plausible prior."""
        return bool(np.array_equal(self.low, self.high))

    @property
    def equivalent_sample_size(self) -> float:
        """Return how many counted rows tell the mix as well; infinite when it is exact."""
        if self.exact or np.isfinite(self.rows):
            return self.rows
        variance = (self.high - self.low) ** 2 / 12  # of a uniform draw between the ends
        return float(np.sum(self.value * (1 - self.value)) / variance.sum())

    def restricted(self, classes: NDArray[np.intp]) -> Prior:
        """Return the mix of some classes only; what a count has not seen is not excluded.

        A count of so many rows that misses a class is no proof that the class never occurs: half a
        row is added to each class.
        """
        value, low, high = (part[classes] for part in (self.value, self.low, self.high))
        if np.isfinite(self.rows):
            value = value * self.rows + 0.5
        return replace(self, value=value / value.sum(), low=low, high=high)


def about(prior: object, rows: float = 100) -> Prior:
    """Say that a class mix is known about as well as from counting that many rows.

    Beside a source, a count that agrees with the class mix of the source confirms that mix.

    Parameters
    ----------
    prior : array of shape (K,), or dict or pandas Series by class name
        Class probabilities.
    rows : float
        As many as one would have to count to know them as well.

    Examples
    --------
    >>> import temperance as tp
    >>> mix = tp.about([0.7, 0.3], rows=50)
    >>> mix.low.round(2), mix.high.round(2)
    (array([0.59, 0.19]), array([0.81, 0.41]))
    """
    keys, plain = checks.class_keys(prior), checks.plain_numbers(prior)
    numbers = plain if keys is None else as_array(plain)  # in the order of the keys
    q = checks.check_prior(numbers, _length(numbers))
    n = checks.check_number(rows, "rows", low=1)
    error = Z90 * np.sqrt(q * (1 - q) / n)
    return Prior(q, "about", np.maximum(q - error, 0), np.minimum(q + error, 1), n, keys)


def as_prior(prior: object, n_classes: int, classes: Sequence[object] | None = None) -> Prior:
    """Return a class mix as stated: probabilities, a range for each class, or `about`."""
    prior = in_columns(prior, n_classes, classes)
    if isinstance(prior, Prior):
        return prior
    table = as_numbers(prior)
    if table is not None and tuple(table.shape) == (n_classes, 2):
        return _from_ranges(to_numpy(table).astype(np.float64))
    q = checks.check_prior(prior, n_classes)
    return Prior(q, "given", q, q)


def in_columns(prior: object, n_classes: int, classes: Sequence[object] | None) -> object:
    """Return what is known in the order of the columns, whatever it was given by."""
    if not isinstance(prior, Prior):
        return checks.by_column(prior, n_classes, classes)
    if prior.keys is None:
        checks.check_prior(prior.value, n_classes)
        return prior
    order = checks.class_order(prior.keys, n_classes, classes, "prior")
    value, low, high = (part[order] for part in (prior.value, prior.low, prior.high))
    return replace(prior, value=value, low=low, high=high, keys=None)


def _from_ranges(table: Floats) -> Prior:
    low, high = table[:, 0], table[:, 1]
    with np.errstate(over="ignore"):
        least, most = float(low.sum()), float(high.sum())
    good = (low >= 0).all() and (low <= high).all() and (high <= 1).all()
    if not (good and least <= 1 + 1e-9 and most >= 1 - 1e-9):
        raise InputError(
            f"prior ranges must satisfy 0 <= low <= high <= 1, sum of low <= 1 <= sum of high. Got "
            f"sums {least:.4g} and {most:.4g}; widen the ranges."
        )
    share = min(max((1 - least) / (most - least), 0.0), 1.0) if most > least else 0.0
    return Prior(low + (high - low) * share, "range", low, high)


def _length(prior: object) -> int:
    array = as_array(prior)
    return int(array.shape[0]) if array is not None and array.shape else 0


# ------------------------------------------------------------------------------ the rows


@dataclass(frozen=True, eq=False)
class Logits:
    """Unlabelled logits of the classes that can occur."""

    z: Floats  # less the mean of their row; -inf where a class is masked
    filled: Floats  # the same with 0 in the place of a mask
    predicted: NDArray[np.intp]
    features: NDArray[np.float32] | None = None  # the layer before the logits, of unit length

    @classmethod
    def of(cls, logits: NDArray[Any], features: NDArray[np.float32] | None = None) -> Logits:
        """Return centred logits, their masks and their predictions."""
        z = np.array(logits, dtype=np.float64)
        masked = is_masked(z)
        if not masked.any():
            predicted = z.argmax(axis=1)
            z -= z.mean(axis=1, keepdims=True)
            return cls(z, z, predicted, features)
        filled = np.where(masked, 0.0, z)
        filled -= filled.sum(axis=1, keepdims=True) / (~masked).sum(axis=1, keepdims=True)
        filled[masked] = 0.0
        predicted = np.where(masked, -np.inf, z).argmax(axis=1)
        return cls(np.where(masked, -np.inf, filled), filled, predicted, features)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.z)

    @property
    def n_classes(self) -> int:
        """Return the number of classes that can occur."""
        return self.z.shape[1]

    def probabilities(self, temperature: float, bias: Floats | float = 0.0) -> Floats:
        """Return softmax(z / T + b)."""
        return softmax_at(self.z, temperature, bias)

    def take(self, rows: NDArray[np.intp]) -> Logits:
        """Return some of the rows."""
        features = None if self.features is None else self.features[rows]
        z = self.z[rows]
        filled = z if self.filled is self.z else self.filled[rows]
        return Logits(z, filled, self.predicted[rows], features)

    @property
    def finite(self) -> Floats:
        """Return the logits with a very small number in the place of a mask."""
        if self.z is self.filled:
            return self.z
        return np.where(np.isneginf(self.z), -1e5 * (np.abs(self.filled).max() or 1.0), self.z)

    @cached_property
    def scale(self) -> float:
        """Return the root mean square distance of the rows from their mean."""
        return logit_scale(self.filled)


def is_masked(z: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a logit is a mask: 10,000 below the largest of its row, or -inf.

    Where the logits themselves are as large as masks, the margin between the two largest logits of
    a row tells so, and a mask has to be lower still.
    """
    if float(z.max()) - float(z.min()) <= NUMERICAL.mask:
        return np.zeros(z.shape, dtype=np.bool_)
    top = np.partition(z, -2, axis=1)[:, -2:].astype(np.float64)
    margin = float(np.median(top[:, 1] - np.maximum(top[:, 0], -1e100)))
    return z < top[:, 1:] - NUMERICAL.mask * max(1.0, margin / 100)


def logit_scale(filled: Floats, weight: Floats | None = None) -> float:
    """Return the root mean square distance of centred rows from their mean, at any scale."""
    largest = float(np.abs(filled).max()) or 1.0
    rows = filled / largest
    share = np.full(len(rows), 1 / len(rows)) if weight is None else weight / weight.sum()
    rows -= share @ rows
    scale = float(np.sqrt(share @ np.einsum("ij,ij->i", rows, rows)))
    if scale <= ROUNDING:
        what = "one sample has" if len(rows) == 1 else "rows that are all the same have"
        msg = f"logits must vary from row to row: {what} no scale, so no temperature fits."
        raise NotIdentified(msg)
    return largest * scale


@dataclass(frozen=True, eq=False)
class Problem:
    """Target, class mix, source and labelled rows, of the classes that can occur."""

    n: int  # rows of the target as given
    names: list[str]  # of all classes as given
    active: NDArray[np.intp]  # classes that can occur; arrays below have these columns
    target: Logits  # rows that the fit reads, at most `sample_size`
    numbers: NDArray[np.int64]  # their row numbers in the target as given
    prior: Prior | None  # stated class mix
    source: LabelledSample | None
    labelled: LabelledSample | None
    source_features: NDArray[np.float32] | None  # the layer before the logits of the source rows
    raw: NDArray[Any]  # logits of all classes as given, for fingerprints
    bias: bool
    seed: int | None

    @property
    def n_classes(self) -> int:
        """Return the number of classes that can occur."""
        return len(self.active)

    @cached_property
    def sample(self) -> Logits:
        """Return the rows on which maps are solved."""
        return self.target.take(thin(self.target))

    @cached_property
    def predicted_mix(self) -> Floats:
        """Return the share of predictions of each class."""
        return np.bincount(self.target.predicted, minlength=self.n_classes) / len(self.target)

    def widen(self, values: Floats, fill: float) -> Floats:
        """Return values of the active classes as values of all classes."""
        full = np.full(len(self.names), fill)
        full[self.active] = values
        return full

    def with_labels(self, labelled: LabelledSample) -> Problem:
        """Return the problem with more labelled rows, given in the active classes."""
        if self.labelled is not None:
            labelled = LabelledSample(
                *(np.concatenate(pair) for pair in zip(self.labelled, labelled, strict=True))
            )
        return replace(self, labelled=labelled)


def read_problem(
    target_logits: LogitsLike,
    prior: PriorLike | None,
    source: SourceLike | None,
    labelled: SourceLike | None,
    classes: Any,
    *,
    features: FeaturesLike | None = None,
    bias: bool,
    seed: int | np.random.Generator,
) -> Problem:
    """Check what was given, draw a sample of bounded size, and leave out impossible classes."""
    generator = checks.check_seed(seed)
    checks.check_flag(bias, "bias")
    rows = as_rows(target_logits, name="target_logits")
    k = rows.n_classes
    called = None if classes is None else checks.check_classes(classes, k, as_text=True)
    checks.check_order(target_logits, called or checks.header_of(source), "target_logits")
    home = None if source is None else given.as_source_rows(source, k, called)
    drawn = None if home is None else home.draw(given.sample_size(home), generator)
    pair = None if home is None or drawn is None else given.take_labelled(home, drawn)
    few = (
        None if labelled is None else given.read_source(labelled, k, called, generator, "labelled")
    )
    mix = None if prior is None else as_prior(prior, k, called)
    numbers, z = given.draw_rows(rows, generator)
    active = _active(z, mix, few)
    if mix is not None:
        mix = mix.restricted(active)
    here, there = None, None
    if features is not None:
        if home is None or drawn is None or pair is None:
            raise InputError(FEATURES_ALONE)
        kept = drawn[np.isin(pair.labels, active)]
        pair_of = given.read_features(features, (rows.n, home.n), (numbers, kept))
        here, there = map(_unit_length, pair_of)
    return Problem(
        n=rows.n,
        names=[str(c) for c in called or range(k)],
        active=active,
        target=Logits.of(z[:, active], here),
        numbers=numbers,
        prior=mix,
        source=None if pair is None else restrict(pair, active),
        labelled=None if few is None else restrict(few, active),
        source_features=there,
        raw=z,
        bias=bias,
        seed=None if isinstance(seed, np.random.Generator) else int(seed),
    )


def _unit_length(rows: Floats) -> NDArray[np.float32]:
    """Return each row divided by its length; a row of zeros stays."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)  # its square may be infinite
    np.divide(rows, largest, where=largest > 0, out=rows)
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.divide(rows, length, where=length > 0, out=rows).astype(np.float32)


def _active(
    z: NDArray[Any], prior: Prior | None, labelled: LabelledSample | None
) -> NDArray[np.intp]:
    """Return the classes that can occur; at least two."""
    k = z.shape[1]
    masked = is_masked(z)
    seen = np.bincount(z.argmax(axis=1), minlength=k) > 0
    if labelled is not None:
        seen |= np.bincount(labelled.labels, minlength=k) > 0
    absent = masked.all(axis=0) | (np.ptp(np.where(masked, 0, z), axis=0) == 0)
    if prior is not None:
        absent |= prior.value <= POLICY.excluded
    active = np.flatnonzero(cast("NDArray[np.bool_]", seen | ~absent))
    return active if len(active) > 1 else np.arange(k, dtype=np.intp)


def restrict(pair: LabelledSample, active: NDArray[np.intp]) -> LabelledSample:
    """Return labelled rows of the active classes, their labels counted among these."""
    place = np.full(pair.logits.shape[1], -1)
    place[active] = np.arange(len(active))
    labels = place[pair.labels]
    return LabelledSample(pair.logits[labels >= 0][:, active], labels[labels >= 0])


def thin(target: Logits) -> NDArray[np.intp]:
    """Return row numbers of a sample whose size is bounded, spread evenly over the margins.

    The margin is that between the two largest logits over their distance from the mean, so that
    neither the order of the rows, nor that of the classes, nor the scale changes the sample.
    """
    n, k = target.z.shape
    size = min(NUMERICAL.max_rows, max(NUMERICAL.min_rows, NUMERICAL.max_elements // k))
    if n <= size:
        return np.arange(n, dtype=np.intp)
    top = np.partition(target.filled, -2, axis=1)[:, -2:]
    first, second = top[:, 1], top[:, 0]
    margin = (first - second) / np.where(first > 0, first, 1.0)
    order = np.argsort(margin, kind="stable")
    places = ((np.arange(size) + 0.5) * n / size).astype(np.intp)
    return np.sort(order[places])


def row_keys(z: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each row: the same for the same float32 numbers, else hardly ever."""
    with np.errstate(over="ignore"):  # rows that overflow alike count as the same
        rows = np.ascontiguousarray(z, dtype=np.float32)
        factors = np.frombuffer(np.random.default_rng(0).bytes(8 * rows.shape[1]), dtype=np.int64)
        keys = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), HASHED):
            part = slice(start, start + HASHED)
            keys[part] = rows[part].view(np.int32).astype(np.int64) @ factors
    return keys
