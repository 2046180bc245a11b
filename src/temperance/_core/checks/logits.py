"""Checks of logits: their shape at once, their values while they are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.arrays import (
    as_array,
    as_floating,
    detached,
    is_numpy,
    is_torch,
    namespace,
    to_numpy,
    widened,
)
from temperance._core.checks.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance._core.arrays import Array

SIMPLEX_TOLERANCE = 2e-3  # float16 probabilities over 1,000 classes sum to 1 within this
COARSEST = 2**-7  # the same of bfloat16, which NumPy sees as float32
EXACT, NEARLY, PERCENTAGES = "probabilities", "rounded probabilities", "percentages"
FORMS = frozenset({EXACT, NEARLY, PERCENTAGES})  # of rows that are no logits
DECIMALS = (2, 3, 4, 5)  # to which probabilities are rounded; with more, the tolerance holds
MAX_ROUNDING = 0.1  # rounding moves the sum of a row up by less
KEPT_SHARE = 0.5  # of many small probabilities most are rounded to 0; half the rows keep half
ALIKE_ROWS = 5  # that many, all rounded probabilities or percentages, are no accident
MAX_WHOLE_CLASSES = 20  # classes; of more than these, small whole logits sum to about 100 as well
LARGEST = 1e100  # logit, and one over the smallest scale: their cubes stay inside float64
MASK = -1e30  # stands for -inf: no softmax tells it from a class that is impossible
SORTED_ROWS = 20  # that many rows, all sorted from high to low, are no accident


def check_logits(logits: object, name: str = "logits") -> Array:
    """Return ``logits`` as a two-dimensional floating array of its own kind.

    Values are not read here: rows are checked for NaN, infinity, probabilities and sorted scores
    by `BlockCheck`, block by block, in the first pass that reads them.
    """
    check_header(logits, name)
    array = as_array(logits)
    z = None if array is None else as_floating(array)
    if z is None:
        msg = f"{name} must be an array of real numbers. Got {_kind_of(logits, array)}"
        raise InputError(msg)
    shape: tuple[int, ...] = tuple(int(s) for s in z.shape)
    ndim = len(shape)
    if ndim == 1:
        msg = (
            f"{name} must have shape (n, K), one column per class. Got one-dimensional scores of "
            f"shape {shape}. Reshape your data, or for a binary one-logit head use "
            f"temperance.binary_logits(scores)."
        )
        raise InputError(msg)
    if ndim > 2:
        k = shape[1]
        msg = (
            f"{name} must have shape (n, K). Got shape {shape}; for dense predictions move the "
            f"classes last and flatten, numpy.moveaxis(z, 1, -1).reshape(-1, {k}), or use "
            f"temperance.interop.torch.dense_logits."
        )
        raise InputError(msg)
    if ndim == 0 or shape[0] == 0:
        msg = f"{name} must have at least one row. Got shape {shape} instead."
        raise InputError(msg)
    if shape[1] < 2:
        msg = (
            f"{name} must have at least two columns, one per class. Got {shape[1]} feature(s) "
            f"(shape={shape}) while a minimum of 2 is required; for a binary one-logit head use "
            f"temperance.binary_logits(scores)."
        )
        raise InputError(msg)
    return z


def check_header(table: object, name: str) -> None:
    """Raise when a data frame names its columns as files do, and they are not those, in order.

    A file is read by these names; a frame is read as it stands.
    """
    header = getattr(table, "column_names", getattr(table, "columns", None))
    if header is None or callable(header):
        return
    names = [str(column) for column in header]
    k = sum(re.fullmatch(r"logit_\d{1,9}", column) is not None for column in names)
    wanted = [f"logit_{i}" for i in range(k)]
    if k and names != wanted:
        others = [column for column in names if column not in wanted]
        shown = ", ".join(repr(column) for column in (others or names)[:6])
        msg = (
            f"{name} must have the columns logit_0 to logit_{k - 1} in this order and no others. "
            f"Got {shown}{', …' if len(others or names) > 6 else ''}"
            f"{' too' if others else ''}; select the columns by name first."
        )
        raise InputError(msg)


def _kind_of(values: object, array: Array | None) -> str:
    """Say what came where an array of real numbers was due, and the way out where there is one."""
    if hasattr(values, "toarray"):
        return f"{type(values).__name__}: sparse input is not supported, use its .toarray()."
    if isinstance(values, np.ma.MaskedArray):
        return "a masked array with missing values: drop those rows."
    if array is None and is_torch(values):
        return "a sparse, quantised, nested or meta tensor: pass one that holds its numbers."
    if array is None:
        return f"{type(values).__name__} instead."
    if "complex" in str(array.dtype):
        return f"an array of {array.dtype}: Complex data not supported."
    if str(array.dtype) == "object":
        return "an array of objects: some values are missing or no numbers; drop those rows."
    return f"an array of dtype {array.dtype} instead."


class BlockCheck:
    """Checks the values of logits while their first pass goes by, block by block.

    ``start`` is the number of the first row. Checks of parts add up to the check of the whole.
    """

    def __init__(self, name: str, start: int = 0) -> None:
        self.name = name
        self.rows = 0
        self._start = start
        self._forms = FORMS
        self._falling = self._rising = True

    def see(self, block: Array, *, values: bool = True) -> None:
        """Look at one block of rows (in order), where it lives; raise at a NaN or infinity.

        Without ``values``, somebody else looks for those.
        """
        if values:
            check_finite(block, self.name, self._start + self.rows)
        if self._forms:
            self._forms &= _forms(block)
        self._falling = self._falling and _in_order(block[:, :-1], block[:, 1:])
        self._rising = self._rising and _in_order(block[:, 1:], block[:, :-1])
        self.rows += int(block.shape[0])

    def __add__(self, other: BlockCheck) -> BlockCheck:
        total = BlockCheck(self.name, self._start)
        total.rows = self.rows + other.rows
        total._forms = self._forms & other._forms
        total._falling = self._falling and other._falling
        total._rising = self._rising and other._rising
        return total

    def finish(self, n_classes: int) -> None:
        """Judge the whole after its first pass."""
        _check_forms(self._forms, self.name, self.rows)
        many = self.rows >= SORTED_ROWS and n_classes > 2
        if many and self._falling != self._rising:  # both: every row is constant
            msg = (
                f"{self.name} must have one column per class in a fixed order, but all {self.rows} "
                f"rows of shape ({self.rows}, {n_classes}) {'fall' if self._falling else 'rise'} "
                f"from the first column to the last: these are sorted or top-k scores. Export "
                f"every class in class order (with timm: --topk 0 --output-type logit "
                f"--results-separate-col)."
            )
            raise InputError(msg)


def check_values(logits: Array, name: str = "logits") -> Array:
    """Return logits that a map may be applied to, -inf as a mask; raise at other infinities.

    Probabilities are refused too.
    """
    if not are_sound(detached(logits)):
        logits = masked(logits, name)
        check_finite(detached(logits), name, 0)
    z = detached(logits)  # gradients flow through the map, not through its checks
    _check_forms(_forms(z), name, int(z.shape[0]))
    return logits


def masked(logits: Array, name: str = "logits", start: int = 0) -> Array:
    """Return logits with -inf, a class that is impossible in its row, as a large finite number.

    The same array is returned where there is no -inf.
    """
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
        msg = (
            f"{name} must have a scale between {1 / LARGEST:g} and {LARGEST:g}. Their typical "
            f"margin is {scale:g}; multiply them by a constant, and T by the same."
        )
        raise InputError(msg)


def check_range(calibrated: Array) -> None:
    """Raise when a map has carried finite logits out of the range of their dtype."""
    place = _first_beyond(detached(calibrated), np.inf)
    if place is not None:
        msg = (
            f"logits must stay finite under the map. Row {place[0]}, class {place[1]} overflows "
            f"{calibrated.dtype}; pass logits of a wider dtype or a smaller scale."
        )
        raise InputError(msg)


def check_mapped(given: Array, mapped: Array) -> None:
    """Raise unless a function has made finite logits of logits, for the same rows and classes."""
    shape, got = tuple(given.shape), tuple(mapped.shape)
    if got != shape or not are_sound(mapped):
        what = f"shape {got}" if got != shape else "NaN, infinity or a value beyond 1e100"
        msg = f"function must return finite logits of the shape it is given, {shape}. Got {what}."
        raise InputError(msg)


def check_finite(block: Array, name: str, start: int = 0) -> None:
    """Raise at the first NaN, infinity or value too large to compute with.

    The first row of the block has the number ``start``.
    """
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
    if _sum_of_squares(block) <= min(bound * bound, np.finfo(np.float64).max):  # NaN: False
        return None
    values = to_numpy(block)
    bad = ~np.isfinite(values) | (np.abs(values) > np.float64(bound))
    if not bad.any():
        return None
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)


def _sum_of_squares(block: Array) -> float:
    """Return Σ z² in the quickest way; it may overflow where no z does."""
    with np.errstate(all="ignore"):
        if is_numpy(block) and block.dtype.itemsize > 2:
            return float(np.vdot(block, block))
        wide = widened(block)
        return float(namespace(wide).sum(wide * wide))


def _check_forms(forms: frozenset[str], name: str, rows: int) -> None:
    """Raise when all rows have the form of something else than logits."""
    ways = "or pass the scores before the softmax."
    if PERCENTAGES in forms and rows >= ALIKE_ROWS:
        msg = (
            f"{name} must be logits, but all {rows} rows are non-negative and sum to 100, so they "
            f"look like percentages. Divide them by 100 and convert them, "
            f"temperance.from_probabilities(p / 100), {ways}"
        )
        raise InputError(msg)
    if EXACT in forms or (NEARLY in forms and rows >= ALIKE_ROWS):
        nearly = "" if EXACT in forms else " up to rounding"
        msg = (
            f"{name} must be logits, but all {rows} rows are non-negative and sum to 1{nearly}, so "
            f"they look like probabilities. Convert them with temperance.from_probabilities(p), "
            f"{ways}"
        )
        raise InputError(msg)


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
        msg = (
            f"{name} must be probabilities: non-negative rows that sum to 1. Row {row} sums to "
            f"{sums[row]:g} with smallest entry {p[row].min():g}; logits are passed as they are."
        )
        raise InputError(msg)
    hard = bool((p.max(axis=1) == 1).all())
    return 0.0 if hard or len(p) < ALIKE_ROWS else half


def _in_order(left: Array, right: Array) -> bool:
    """Return whether nothing on the right is above what is left of it."""
    if not (right[0, 0] <= left[0, 0] and right[0, -1] <= left[0, -1]):  # mostly settles it
        return False
    all_of = namespace(left).all
    return bool(all_of(right[:1, :] <= left[:1, :])) and bool(all_of(right <= left))


def _forms(block: Array) -> frozenset[str]:
    """Return which forms that are no logits all rows of a block have."""
    xp = namespace(block)
    if xp.min(block[:1, :]) < 0:  # as a rule
        return frozenset()
    total = 1.0 if xp.sum(block[:1, :], dtype=xp.float64) < 10 else 100.0
    few = _forms_of(block[: min(ALIKE_ROWS, int(block.shape[0])), :], total)
    if not few:  # mostly
        return few
    most = xp.max(block, axis=1)
    if xp.all(most == total):  # rows like (1, 0, 0) are as well small logits
        return frozenset()
    forms = few & _forms_of(block, total)
    if forms and EXACT not in forms:  # so are a few rows that come again and again
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
        msg = (
            f"{name} must be logits, but all {n} lie between 0 and 1, so they look like "
            f"probabilities of class 1. Pass the scores before the sigmoid, or convert them with "
            f"temperance.from_probabilities(numpy.stack([1 - p, p], axis=1))."
        )
        raise InputError(msg)


def check_same_classes(k: int, expected: int, name: str) -> None:
    """Raise unless the logits have the number of classes that the map or source has."""
    if k != expected:
        msg = f"{name} must have {expected} columns, one per class. Got {k} instead."
        raise InputError(msg)
