"""Checks of input that several functions need: single arguments, logits, labels, class mixes.

A message is one sentence: the argument, what it must be, what came, and the way out.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from temperance._core import arrays
from temperance._core.arrays import Array, Floats, as_array, detached, is_numpy, namespace, to_numpy

SIMPLEX_TOLERANCE = 2e-3  # float16 probabilities over 1,000 classes sum to 1 within this
COARSEST = 2**-7  # bfloat16 probabilities, float32 to NumPy, sum to 1 within this
EXACT, NEARLY, PERCENTAGES = "probabilities", "rounded probabilities", "percentages"
NO_LOGITS = frozenset({EXACT, NEARLY, PERCENTAGES})  # of rows that are no logits
DECIMALS = (2, 3, 4, 5)  # to which probabilities are rounded; with more, the tolerance holds
MAX_ROUNDING = 0.1  # rounding moves the sum of a row up by less
KEPT_SHARE = 0.5  # of many small probabilities most are rounded to 0; half the rows keep half
ALIKE_ROWS = 5  # rows that all look like probabilities by chance are fewer
MAX_WHOLE_CLASSES = 20  # classes; of more than these, small whole logits sum to about 100 as well
LARGEST = 1e100  # logit, and one over the smallest scale: their cubes stay inside float64
SHOWN = 200  # characters of a value in a message
MASK = -1e30  # stands for -inf: no softmax tells it from a class that is impossible
MOST_BINS = 100_000  # of confidence: their sums, by class too, stay small
LOOKED_UP = 1 << 16  # labels at a time
SORTED_ROWS = 20  # rows that are all sorted by chance are fewer
NEAR_SCORES = 100  # the largest gap of sorted scores is at least so many times the smallest

PRIOR_TOLERANCE = 1e-6
NOTHING = 1e-15  # a class share below the rounding of their sum is none
NO_ARRAY = "an array-like of numbers or names. Got {}."
NO_PRIOR = (
    "class probabilities, in the order of the columns or by class name. Got {}; labelled rows "
    "belong in source=."
)
ONE_LABEL = (
    ", as those of a multi-label model do: calibrate each label k as two classes, with "
    "temperance.from_probabilities(numpy.stack([1 - p[:, k], p[:, k]], axis=1))."
)
MULTI_LABEL = ": multi-label targets are not supported; calibrate each label as two classes"
LIKE_LABELS = ": labels belong in labelled= or source=, and a prior is the share of each class"


class InputError(ValueError):
    """An argument does not keep the input contract; the message says which and the way out."""


class NotIdentified(ValueError):
    """The data do not determine the parameter: the optimum runs to the edge or is not unique."""


# --------------------------------------------------------------------------------- single arguments


def shown(value: object) -> str:
    """Return any value as a message shows it: a text in quotes, and of what is long the beginning.

    >>> shown("melanoma"), shown("a" * 70_000) == repr("a" * 40) + "…", shown(10**5000)
    ("'melanoma'", True, 'int')
    """
    try:
        text = repr(value[:40] if isinstance(value, str) else value)
    except Exception:  # noqa: BLE001 - Python writes no integer of 5,000 digits, others nothing at all
        return type(value).__name__
    cut = isinstance(value, str) and len(value) > 40
    return f"{text[:SHOWN]}…" if cut or len(text) > SHOWN else text


def check_flag(value: object, name: str) -> None:
    """Raise where a value is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False. Got {type(value).__name__}.")


def check_choice(value: object, choices: Iterable[str], name: str) -> str:
    """Return ``value`` when it is one of ``choices``; otherwise say what it is closest to."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(repr(option) for option in options)
    raise InputError(f"{name} must be one of {listed}. Got {shown(value)} instead.{hint}")


def check_number(
    value: object,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
) -> float:
    """Return a finite number inside ``[low, high]`` (or ``(low, high]``) as a float."""
    boolean = isinstance(value, (bool, np.bool_))
    try:
        number = float(value) if isinstance(value, numbers.Real) and not boolean else np.nan
    except OverflowError:  # an integer of more than 308 digits
        number = np.inf
    inside = (number > low if open_low else number >= low) and number <= high
    if not (math.isfinite(number) and inside):
        demand = f"a finite number in {'(' if open_low else '['}{low:g}, {high:g}]"
        raise InputError(f"{name} must be {demand}. Got {shown(value)} instead.")
    return number


def check_integer(value: object, name: str, *, low: int = 0, high: float = sys.maxsize) -> int:
    """Return ``value`` as an int that is at least ``low``; ``high`` keeps it inside 64 bits."""
    integral = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    number = int(value) if integral else low - 1  # pyright: ignore[reportArgumentType]
    if not low <= number <= high:
        most = f" and at most {high:,}" if low <= high < sys.maxsize else ""
        raise InputError(
            f"{name} must be an integer of at least {low}{most}. Got {shown(value)} instead."
        )
    return number


def check_bins(n_bins: object) -> int:
    """Return a number of bins, whose sums fit in memory."""
    return check_integer(n_bins, "n_bins", low=1, high=MOST_BINS)


def check_seed(seed: object) -> np.random.Generator:
    """Return a NumPy generator from an integer seed or a generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_integer(seed, "seed", high=np.inf))


# ------------------------------------------------------------------------------------------- logits


def check_logits(logits: object, name: str = "logits") -> Array:
    """Return ``logits`` as a two-dimensional floating array of its own kind.

    Values are not read here: rows are checked for NaN, infinity, probabilities and sorted scores
    block by block, in the first pass that reads them.
    """
    check_header(logits, name)
    array = as_array(logits)
    z = None if array is None else arrays.as_floating(array)
    if z is None:
        raise InputError(f"{name} must be an array of real numbers. Got {_kind_of(logits, array)}")
    shape: tuple[int, ...] = tuple(int(s) for s in z.shape)
    ndim = len(shape)
    if ndim == 1:
        raise InputError(
            f"{name} must have shape (n, K), one column per class. Got one-dimensional scores of "
            f"shape {shape}. Reshape your data, or for a binary one-logit head use "
            f"temperance.binary_logits(scores)."
        )
    if ndim > 2:
        k = shape[1]
        raise InputError(
            f"{name} must have shape (n, K). Got shape {shape}; for dense predictions move the "
            f"classes last and flatten, numpy.moveaxis(z, 1, -1).reshape(-1, {k}), or use "
            f"temperance.interop.torch.dense_logits."
        )
    if ndim == 0 or shape[0] == 0:
        raise InputError(f"{name} must have at least one row. Got shape {shape} instead.")
    if shape[1] < 2:
        raise InputError(
            f"{name} must have at least two columns, one per class. Got {shape[1]} feature(s) "
            f"(shape={shape}) while a minimum of 2 is required; for a binary one-logit head use "
            f"temperance.binary_logits(scores)."
        )
    return z


def check_header(table: object, name: str) -> None:
    """Raise when a frame names its columns as files do, and they are not those, in order."""
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):
        msg = f"{name} must be a data frame that holds its rows. Got {type(table).__name__}: pass"
        raise InputError(f"{msg} its .collect().")
    names = header_of(table)
    if names is None:
        return
    k = sum(re.fullmatch(r"logit_\d{1,9}", column) is not None for column in names)
    wanted = [f"logit_{i}" for i in range(k)]
    if k and names != wanted:
        others = [column for column in names if column not in wanted]
        shown = ", ".join(repr(column) for column in (others or names)[:6])
        raise InputError(
            f"{name} must have the columns logit_0 to logit_{k - 1} in this order and no others. "
            f"Got {shown}{', …' if len(others or names) > 6 else ''}"
            f"{' too' if others else ''}; select the columns by name first."
        )


def header_of(table: object) -> list[str] | None:
    """Return the columns of a data frame, or of a pair that begins with one; None for an array."""
    if isinstance(table, tuple):
        table = next(iter(cast("tuple[object, ...]", table)), None)
    header = getattr(table, "column_names", getattr(table, "columns", None))
    if not isinstance(header, Iterable):
        return None
    return [_text(column) for column in cast("Iterable[object]", header)]


def check_order(table: object, classes: Sequence[object] | None, name: str) -> None:
    """Raise when the columns of a data frame are called like the classes, in another order."""
    header, wanted = header_of(table), [str(one) for one in classes or ()]
    if header is not None and header != wanted and sorted(header) == sorted(wanted):
        first = next(i for i, column in enumerate(wanted) if header[i] != column)
        raise InputError(
            f"{name} must have columns in the order of the classes. Got {header[first]!r} "
            f"where {wanted[first]!r} is due; select the columns in that order first."
        )


def _kind_of(values: object, array: Array | None) -> str:
    """Say what came where an array of real numbers was due, and the way out where there is one."""
    if hasattr(values, "toarray"):
        return f"{type(values).__name__}: sparse input is not supported, use its .toarray()."
    if isinstance(values, np.ma.MaskedArray):
        return "a masked array with missing values: drop those rows."
    if array is None and arrays.is_torch(values):
        return "a sparse, quantised, nested or meta tensor: pass one that holds its numbers."
    if array is None:
        return f"{type(values).__name__} instead."
    if "complex" in str(array.dtype):
        return f"an array of {array.dtype}: Complex data not supported."
    if str(array.dtype) == "object":
        for column, held in zip(header_of(values) or (), np.atleast_1d(array).T, strict=False):
            if any(isinstance(one, str) for one in held):
                return f"words in the column {column!r}: select the columns of the scores first."
        return "an array of objects: some values are missing or no numbers; drop those rows."
    return f"an array of dtype {array.dtype} instead."


@dataclass(frozen=True)
class Look:
    """What the first pass sees of the form of logits; ``+`` adds the rows of another block."""

    rows: int = 0
    forms: frozenset[str] = NO_LOGITS
    falling: bool = True
    rising: bool = True
    least: float = math.inf  # gap between neighbouring columns, halved
    largest: float = 0.0

    @classmethod
    def at(cls, block: Array) -> Look:
        """Look at one block, where it lives."""
        falling = _in_order(block[:, :-1], block[:, 1:])
        rising = _in_order(block[:, 1:], block[:, :-1])
        least, largest, xp = math.inf, 0.0, namespace(block)
        if falling or rising:
            with np.errstate(invalid="ignore"):  # infinities are told elsewhere
                gaps = xp.abs(block[:, :-1] * 0.5 - block[:, 1:] * 0.5)
            least = float(xp.min(xp.where(gaps > 0, gaps, math.inf)))
            largest = float(xp.max(gaps))
        return cls(int(block.shape[0]), _forms(block), falling, rising, least, largest)

    def __add__(self, other: Look) -> Look:
        return Look(
            self.rows + other.rows,
            self.forms & other.forms,
            self.falling and other.falling,
            self.rising and other.rising,
            min(self.least, other.least),
            max(self.largest, other.largest),
        )

    def check(self, name: str, n_classes: int) -> None:
        """Raise where all rows look like probabilities, or like sorted scores.

        A model that predicts one class in every row may rank all classes alike. Its columns keep a
        distance; sorted scores come very near to each other.
        """
        _check_forms(self.forms, name, self.rows)
        many = self.rows >= SORTED_ROWS and n_classes > 2
        near = self.least * min(self.rows * (n_classes - 1), NEAR_SCORES) <= self.largest
        if many and near and self.falling != self.rising:  # constant rows do both
            raise InputError(
                f"{name} must have one column per class in a fixed order, but all {self.rows} "
                f"rows of shape ({self.rows}, {n_classes}) {'fall' if self.falling else 'rise'} "
                f"from the first column to the last: these are sorted or top-k scores. Export "
                f"every class in class order (with timm: --topk 0 --output-type logit "
                f"--results-separate-col)."
            )


def check_values(logits: Array, name: str = "logits") -> Array:
    """Return logits that a map may be applied to, -inf as a mask; raise at what is no logits."""
    if not are_sound(detached(logits)):
        logits = masked(logits, name)
        check_finite(detached(logits), name, 0)
    z = detached(logits)  # gradients flow through the map, not through its checks
    _check_forms(_forms(z), name, int(z.shape[0]))
    return logits


def masked(logits: Array, name: str = "logits", start: int = 0) -> Array:
    """Return logits with -inf, a class that is impossible in its row, as a large finite number."""
    xp = namespace(logits)
    infinite = logits == -np.inf
    if not bool(xp.any(infinite)):
        return logits
    none = to_numpy(xp.all(infinite, axis=1))
    if none.any():
        row = start + int(np.argmax(none))
        msg = f"{name} must leave a class possible. Row {row} is -inf in every class; drop it."
        raise InputError(msg)
    least = max(MASK, float(xp.finfo(logits.dtype).min) / 2)
    return xp.where(infinite, xp.full_like(logits[:1, :1], least), logits)


def check_scale(scale: float, name: str = "logits") -> None:
    """Raise unless powers of the logits, and of 1/T, stay inside float64; 0 is allowed."""
    if not (scale == 0 or 1 / LARGEST <= scale <= LARGEST):
        raise InputError(
            f"{name} must have a scale between {1 / LARGEST:g} and {LARGEST:g}. Their typical "
            f"margin is {scale:g}; multiply them by a constant, and T by the same."
        )


def check_range(calibrated: Array) -> None:
    """Raise when a map has carried finite logits out of the range of their dtype."""
    place = _first_beyond(detached(calibrated), np.inf)
    if place is not None:
        raise InputError(
            f"logits must stay finite under the map. Row {place[0]}, class {place[1]} overflows "
            f"{calibrated.dtype}; pass logits of a wider dtype or a smaller scale."
        )


def check_mapped(given: Array, mapped: Array) -> None:
    """Raise unless a function has made finite logits of logits, for the same rows and classes."""
    shape, got = tuple(given.shape), tuple(mapped.shape)
    if got != shape or not are_sound(mapped):
        what = f"shape {got}" if got != shape else "NaN, infinity or a value beyond 1e100"
        msg = f"function must return finite logits of the shape it is given, {shape}. Got {what}."
        raise InputError(msg)


def check_finite(block: Array, name: str, start: int = 0) -> None:
    """Raise at the first NaN, infinity or value too large to compute with."""
    place = _first_beyond(block, LARGEST)
    if place is None:
        return
    value = float(block[place])
    what = f"Row {start + place[0]}, class {place[1]} is {'NaN' if np.isnan(value) else value}"
    if np.isfinite(value):
        msg = (
            f"{name} must lie within ±{LARGEST:g}, where their squares can be computed. {what}; "
            f"multiply them by a constant, and T by the same."
        )
    else:
        msg = (
            f"{name} must be finite. {what}; drop that row. Of all infinities only -inf has a "
            f"meaning: the class is impossible in that row."
        )
    raise InputError(msg)


def are_sound(block: Array) -> bool:
    """Return whether all values are finite and small enough to compute with."""
    return _first_beyond(block, LARGEST) is None


def _first_beyond(block: Array, bound: float) -> tuple[int, int] | None:
    """Row and class of the first value that is not finite or larger than ``bound``, if any."""
    with np.errstate(all="ignore"):  # Σ z² in the quickest way; it may overflow where no z does
        quick = is_numpy(block) and block.dtype.itemsize > 2
        wide = block.ravel() if quick else arrays.widened(block)
        # Not numpy.vdot: it hands arrays of a .npz file, which lie at odd places of the memory, to
        # BLAS, whose kernels for old processors then end the process.
        squares = float(wide.dot(wide) if quick else namespace(wide).sum(wide * wide))
    if squares <= min(bound * bound, np.finfo(np.float64).max):  # NaN: False
        return None
    values = to_numpy(block)
    bad = ~np.isfinite(values) | (np.abs(values) > np.float64(bound))
    if not bad.any():
        return None
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)


def _check_forms(forms: frozenset[str], name: str, rows: int) -> None:
    """Raise when all rows have the form of something else than logits."""
    ways = "or pass the scores before the softmax."
    if PERCENTAGES in forms and rows >= ALIKE_ROWS:
        raise InputError(
            f"{name} must be logits, but all {rows} rows are non-negative and sum to 100, so they "
            f"look like percentages. Divide them by 100 and convert them, "
            f"temperance.from_probabilities(p / 100), {ways}"
        )
    if EXACT in forms or (NEARLY in forms and rows >= ALIKE_ROWS):
        nearly = "" if EXACT in forms else " up to rounding"
        raise InputError(
            f"{name} must be logits, but all {rows} rows are non-negative and sum to 1{nearly}, so "
            f"they look like probabilities. Convert them with temperance.from_probabilities(p), "
            f"{ways}"
        )


def check_simplex(p: NDArray[Any], name: str) -> float:
    """Raise unless every row is non-negative and sums to one, but for rounding.

    Returns half a unit of the last decimal where a table is rounded: a 0 in it is less than that.
    """
    with np.errstate(all="ignore"):
        sums = p.sum(axis=1, dtype=np.float64)
        half = _half_unit(p, 1.0)
        slack = max(COARSEST, p.shape[1] * half)
        near = (sums > 0) & (sums >= 1 - slack) & (sums <= 1 + min(slack, MAX_ROUNDING))
        bad = ~(near & (p >= 0).all(axis=1))
    if bad.any():
        row = int(np.argmax(bad))
        shares = bool((p >= 0).all() and (p <= 1).all() and bad.mean() > 0.5)
        way_out = ONE_LABEL if shares else "; logits are passed as they are."
        raise InputError(
            f"{name} must be probabilities: non-negative rows that sum to 1. Row {row} sums to "
            f"{sums[row]:g} with smallest entry {p[row].min():g}{way_out}"
        )
    hard = bool((p.max(axis=1) == 1).all())
    return 0.0 if hard or len(p) < ALIKE_ROWS else half


def _in_order(left: Array, right: Array) -> bool:
    """Return whether nothing on the right is above what is left of it."""
    if not (right[0, 0] <= left[0, 0] and right[0, -1] <= left[0, -1]):  # settles most blocks
        return False
    all_of = namespace(left).all
    return bool(all_of(right[:1, :] <= left[:1, :])) and bool(all_of(right <= left))


def _forms(block: Array) -> frozenset[str]:
    """Return which forms that are no logits all rows of a block have."""
    xp = namespace(block)
    if xp.min(block[:1, :]) < 0:  # most logits have a negative in the first row
        return frozenset()
    total = 1.0 if xp.sum(block[:1, :], dtype=xp.float64) < 10 else 100.0
    few = _forms_of(block[: min(ALIKE_ROWS, int(block.shape[0])), :], total)
    if not few:  # the first rows settle most blocks
        return few
    most = xp.max(block, axis=1)
    if xp.all(most == total):  # rows like (1, 0, 0) are as well small logits
        return frozenset()
    forms = few & _forms_of(block, total)
    if forms and EXACT not in forms:  # a few rows, often repeated, are as well small logits
        kinds = int(xp.unique_values(most).shape[0])
        return forms if kinds >= min(ALIKE_ROWS, int(block.shape[0])) else frozenset()
    return forms


def _forms_of(rows: Array, total: float) -> frozenset[str]:
    xp = namespace(rows)
    if not (xp.min(rows) >= 0 and xp.max(rows) <= (1 + MAX_ROUNDING) * total):  # NaN as well
        return frozenset()
    beyond = xp.sum(rows, axis=1, dtype=xp.float64) / total - 1
    tolerance = max(SIMPLEX_TOLERANCE, float(xp.finfo(rows.dtype).eps))  # bfloat16 is coarser
    if xp.all(xp.abs(beyond) <= tolerance):
        return frozenset({EXACT, NEARLY} if total == 1 else {PERCENTAGES})
    kept = xp.mean(xp.astype(beyond >= -KEPT_SHARE, xp.float64))
    if xp.max(beyond) > MAX_ROUNDING or kept < KEPT_SHARE:
        return frozenset()
    k = int(rows.shape[1])
    if total > 1 and k > MAX_WHOLE_CLASSES and xp.all(xp.round(rows) == rows):
        return frozenset()
    slack = max(tolerance, k * _half_unit(rows, total))
    if xp.min(beyond) < -slack or xp.max(beyond) > slack:
        return frozenset()
    return frozenset({NEARLY if total == 1 else PERCENTAGES})


def _half_unit(block: Array, total: float) -> float:
    """Return half a unit of the last decimal of all values over a total, or 0: not rounded.

    Logits that happen to sum to about 1 are told from probabilities by their many decimals.
    """
    xp = namespace(block)
    shares = xp.astype(block, xp.float64) / total
    eps = float(xp.finfo(block.dtype).eps)
    for decimals in DECIMALS:
        units = shares * 10**decimals
        if xp.all(xp.abs(units - xp.round(units)) <= 2 * eps * units):
            return 0.5 / 10**decimals
    return 0.0


def check_scores(scores: Array, name: str = "scores") -> None:
    """Raise when all scores of a one-logit head lie between 0 and 1, as its probabilities do."""
    n = int(scores.shape[0])
    xp = namespace(scores)
    if n < SORTED_ROWS or xp.min(scores) < 0 or xp.max(scores) > 1:
        return
    if int(xp.unique_values(scores).shape[0]) >= ALIKE_ROWS:  # fewer: decisions, or a constant
        raise InputError(
            f"{name} must be logits, but all {n} lie between 0 and 1, so they look like "
            f"probabilities of class 1. Pass the scores before the sigmoid, or convert them with "
            f"temperance.from_probabilities(numpy.stack([1 - p, p], axis=1))."
        )


def check_same_classes(k: int, expected: int, name: str) -> None:
    """Raise unless the logits have the number of classes that the map or source has."""
    if k != expected:
        raise InputError(f"{name} must have {expected} columns, one per class. Got {k} instead.")


# ---------------------------------------------------------------- labels, weights and the class mix


def check_classes(
    classes: object, n_classes: int, name: str = "classes", *, as_text: bool = False
) -> list[Any]:
    """Return class names as a list of ``n_classes`` distinct, hashable values.

    Where names are written ``as_text``, 1 and "1" are not distinct.
    """
    try:
        names = list(np.asarray(classes, dtype=object).ravel().tolist())
        distinct = len({_text(one) for one in names} if as_text else set(names))
    except (TypeError, ValueError) as error:
        msg = f"{name} must be a sequence of {n_classes} distinct names. Got {shown(classes)}."
        raise InputError(msg) from error
    if len(names) != n_classes or distinct != n_classes:
        raise InputError(
            f"{name} must hold {n_classes} distinct names, one per column. Got {len(names)} "
            f"names, {distinct} of them distinct."
        )
    for one in names:
        try:
            str(one).encode()
        except ValueError:  # bytes in another encoding, or an integer of more than 4,300 digits
            msg = f"{name} must be text that UTF-8 can write. Got {shown(one)}."
            raise InputError(msg) from None
    return names


def check_labels(
    labels: object,
    n_rows: int,
    n_classes: int,
    classes: Sequence[object] | None = None,
    name: str = "labels",
    start: int = 0,
) -> NDArray[Any]:
    """Return hard labels as int64 ``(n,)``, or soft labels as float64 ``(n, K)``.

    With ``classes``, hard labels are looked up in it; without, they index the columns. The first
    row has the number ``start``.
    """
    needed = f"The fit requires {name} to be passed, but the target {name} is None."
    way_out = "Rows without labels go to temperance.calibrate."
    y = _plain(labels, name, f"hold one class index per row. {needed} {way_out}")
    if y.ndim == 2 and y.dtype.kind == "f":
        return _check_soft_labels(y, n_rows, n_classes, name, start)
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.shape != (n_rows,):
        msg = f"{name} must have shape ({n_rows},), one per row of logits. Got shape {y.shape}"
        raise InputError(f"{msg}{MULTI_LABEL if y.shape == (n_rows, n_classes) else ''}.")
    if classes is not None:
        return _lookup(_as_given(labels, y), n_rows, classes, name, start)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu":
        demand = f"{name} must be integers 0..{n_classes - 1} that index the columns."
        raise InputError(f"{demand} {_no_indices(y, name, start)}")
    if y.min() < 0 or y.max() >= n_classes:
        row = int(np.argmax((y < 0) | (y >= n_classes)))
        from_one = y.min() == 1 and y.max() == n_classes
        way_out = "these labels count from 1: subtract 1" if from_one else "drop rows to be ignored"
        raise InputError(
            f"{name} must lie in 0..{n_classes - 1} (logits have {n_classes} columns). Row "
            f"{start + row} holds {int(y[row])}; {way_out}."
        )
    return y.astype(np.int64, copy=False)


def _no_indices(y: NDArray[Any], name: str, start: int) -> str:
    """Say what came where class indices were due, and the way out."""
    if y.dtype.kind != "f":
        return (
            f"Got {y.dtype} with first value {shown(y[:1].tolist()[0])}; name the columns with "
            f"classes= where that can be given, or pass [names.index(one) for one in {name}]."
        )
    missing = np.flatnonzero(np.isnan(y))
    if len(missing):
        return f"Row {start + int(missing[0])} is missing; drop rows without a label."
    return f"Got continuous {y.dtype} with first value {float(y[0])!r}; cast classes to integers."


def _check_soft_labels(y: NDArray[Any], n: int, k: int, name: str, start: int) -> Floats:
    if y.shape != (n, k):
        msg = f"soft {name} must have shape ({n}, {k}), as the logits. Got shape {y.shape}."
        raise InputError(msg)
    soft = y.astype(np.float64)
    with np.errstate(all="ignore"):
        bad = ~(np.abs(soft.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE) | ~(soft >= 0).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"soft {name} must be non-negative and sum to 1 in each row. Row {start + row} does "
            f"not (sum {soft[row].sum():g}); put weights in sample_weight."
        )
    return soft / soft.sum(axis=1, keepdims=True)


def _as_given(labels: Any, y: NDArray[Any]) -> Iterator[Any]:
    """Yield labels of mixed types as they came: NumPy turns numbers among words into words."""
    listed = isinstance(labels, (list, tuple))
    raw = np.asarray(labels, dtype=object) if listed else as_array(labels)
    values = raw.ravel() if is_numpy(raw) and raw.dtype.hasobject else y
    for first in range(0, len(values), LOOKED_UP):  # as Python's objects they are ten times larger
        yield from values[first : first + LOOKED_UP].tolist()


def _lookup(
    y: Iterable[Any], n: int, classes: Sequence[object], name: str, start: int
) -> NDArray[np.int64]:
    index = {value: i for i, value in enumerate(classes)}
    out = np.empty(n, dtype=np.int64)
    for row, value in enumerate(y):
        try:
            out[row] = index[value]
        except (KeyError, TypeError):
            listed = ", ".join(shown(c) for c in list(classes)[:8])
            place = f"Row {start + row}"
            msg = f"{name} must be among classes ({listed}, …). {place} holds {shown(value)}."
            raise InputError(msg) from None
    return out


def check_weights(weight: object, n_rows: int, start: int = 0) -> Floats:
    """Return the weights of a block, whose first row has the number ``start``."""
    w = _plain(weight, "sample_weight")
    if w.ndim == 2 and 1 in w.shape:
        w = w.ravel()
    if w.shape != (n_rows,) or w.dtype.kind not in "fiub":
        got = f"shape {w.shape} of {w.dtype}"
        raise InputError(f"sample_weight must be {n_rows} numbers, one per row. Got {got}.")
    w = w.astype(np.float64)
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        row = int(np.argmax(bad))
        place = f"Row {start + row}"
        msg = f"sample_weight must be finite and not negative. {place} holds {w[row]:g}."
        raise InputError(msg)
    return w


def check_weight_sum(total: float) -> None:
    """Raise unless the weights of all rows have a sum to divide by."""
    if not 1 / LARGEST <= total <= LARGEST:
        raise InputError(
            f"sample_weight must not be all zero, with a sum between {1 / LARGEST:g} and "
            f"{LARGEST:g}. Got the sum {total:g}."
        )


def check_prior(prior: object, n_classes: int) -> Floats:
    """Return the class prior as float64 ``(K,)``: finite, non-negative, summing to one."""
    way_out = (
        "pass the class mix you expect in the target, or call temperance.calibrate with a "
        "labelled source."
    )
    demand = f"be {n_classes} class probabilities. Got None; {way_out}"
    q = _plain(by_column(prior, n_classes), "prior", demand, NO_PRIOR)
    if q.shape != (n_classes,) or q.dtype.kind not in "fiu":
        kind = "text" if q.dtype.kind in "US" else q.dtype
        msg = f"prior must be {n_classes} numbers, one per class. Got shape {q.shape} of {kind}"
        labels = q.ndim == 1 and q.dtype.kind in "iu"
        raise InputError(f"{msg}{LIKE_LABELS if labels else ''}.")
    q = q.astype(np.float64)
    bad = ~np.isfinite(q) | (q < 0)
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(f"prior must be finite and not negative. Class {k} holds {q[k]:g}.")
    with np.errstate(over="ignore"):
        total = float(q.sum())
    if abs(total - 1) > PRIOR_TOLERANCE:
        way_out = "divide by the sum if these are counts or percentages."
        raise InputError(f"prior must sum to 1. Got {total:.6g}; {way_out}")
    return np.where(q < NOTHING, 0.0, q) / total


def _plain(values: object, name: str, demand: str = "", what: str = NO_ARRAY) -> NDArray[Any]:
    """Any array-like of numbers or strings as a native NumPy array; None breaks the demand."""
    if values is None and demand:
        raise InputError(f"{name} must {demand}")
    array = as_array(values)
    if array is None:
        raise InputError(f"{name} must be {what.format(type(values).__name__)}")
    y = to_numpy(array)
    if y.dtype.kind == "O":
        try:
            y = np.asarray(y.tolist())
        except (ValueError, OverflowError):
            return y
    return y if y.dtype.isnative else y.astype(y.dtype.newbyteorder("="))


# ------------------------------------------------------------------------------ by class name


def class_keys(values: Any) -> tuple[str, ...] | None:
    """Return the classes by which numbers are given, or None where their order alone counts.

    The index of a pandas object counts, for ``value_counts`` puts the most frequent class first;
    the index 0, 1, 2, … that pandas makes up says nothing.
    """
    if isinstance(values, Mapping):
        return tuple(_text(key) for key in cast("Mapping[object, object]", values))
    index = None if callable(getattr(values, "index", None)) else getattr(values, "index", None)
    if not hasattr(index, "tolist"):
        return None
    keys = tuple(_text(key) for key in cast("Any", index).tolist())
    return None if keys == _columns(len(keys)) else keys


def _text(key: object) -> str:
    try:
        return str(key)
    except ValueError:  # an integer of more than 4,300 digits
        return shown(key)


def plain_numbers(values: Any) -> Any:
    """Return numbers that are given by class as they stand, without their classes."""
    if isinstance(values, Mapping):
        return list(cast("Mapping[object, object]", values).values())
    return values


def class_order(
    keys: tuple[str, ...], n_classes: int, classes: Sequence[object] | None, name: str
) -> list[int]:
    """Return where each column of the logits stands among ``keys``: by its name or its number."""
    columns = _columns(n_classes)
    names = columns if classes is None else tuple(str(c) for c in classes)
    places = {key: place for place, key in enumerate(keys)}
    for wanted in (names, columns):
        if len(keys) == len(wanted) and places.keys() == set(wanted):
            return [places[one] for one in wanted]
    missing = [one for one in names if one not in places]
    known = set(names)
    strange = [key for key in keys if key not in known]
    demand = f"{name} must name each of the {n_classes} classes once. It "
    if strange and names == columns:
        raise InputError(
            f"{demand}names {shown(strange[0])}, but the columns have no names here; give the "
            f"numbers in the order of the columns, or call temperance.calibrate with classes=."
        )
    if strange:
        raise InputError(f"{demand}names {shown(strange[0])}, which is none of them.")
    if missing:
        raise InputError(f"{demand}lacks {shown(missing[0])}; give 0 to a class that never occurs.")
    raise InputError(f"{demand}names one twice.")


def by_column(values: object, n_classes: int, classes: Sequence[object] | None = None) -> object:
    """Return numbers in the order of the columns, whatever they were given by."""
    keys = class_keys(values)
    if keys is None:
        return values
    order = class_order(keys, n_classes, classes, "prior")
    array = as_array(plain_numbers(values))
    return array if array is None else array[np.asarray(order, dtype=np.intp)]


def names_for(labels: object, classes: Sequence[object] | None) -> list[Any] | None:
    """Return the class names to look labels up in; only words are names, numbers are columns."""
    array = None if classes is None else as_array(labels)
    if classes is None or not is_numpy(array) or array.dtype.kind not in "UOT":
        return None
    return list(classes) if any(isinstance(label, str) for label in array.flat) else None


def _columns(n_classes: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(n_classes))
