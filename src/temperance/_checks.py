"""Every input error of the library is raised here, once.

A message is one sentence: the argument, what it must be, what came, and the way out.
"""

from __future__ import annotations

import difflib
import numbers
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._arrays import (
    as_array,
    as_floating,
    detached,
    is_numpy,
    namespace,
    to_numpy,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from temperance._arrays import Array

SIMPLEX_TOLERANCE = 2e-3  # float16 probabilities over 1,000 classes sum to 1 within this
PRIOR_TOLERANCE = 1e-6
LARGEST = 1e100  # logit, and one over the smallest scale: their cubes stay inside float64
NOTHING = 1e-15  # a class share below the rounding of their sum is none
SORTED_ROWS = 20  # that many rows, all sorted from high to low, are no accident


class InputError(ValueError):
    """An argument does not keep the input contract; the message says which and the way out."""


class NotIdentified(ValueError):
    """The data do not determine the parameter: the optimum runs to the edge or is not unique."""


def check_choice(value: object, choices: Iterable[str], name: str) -> str:
    """Return ``value`` when it is one of ``choices``; otherwise say what it is closest to."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(repr(option) for option in options)
    msg = f"{name} must be one of {listed}. Got {value!r} instead.{hint}"
    raise InputError(msg)


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
    if not (np.isfinite(number) and inside):
        demand = f"a finite number in {'(' if open_low else '['}{low:g}, {high:g}]"
        msg = f"{name} must be {demand}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_integer(value: object, name: str, *, low: int = 0, high: float = sys.maxsize) -> int:
    """Return ``value`` as an int that is at least ``low``; ``high`` keeps it inside 64 bits."""
    integral = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    number = int(value) if integral else low - 1  # pyright: ignore[reportArgumentType]
    if not low <= number <= high:
        msg = f"{name} must be an integer of at least {low}. Got {value!r} instead."
        raise InputError(msg)
    return number


def check_callable(value: object, name: str) -> Callable[..., Any]:
    """Return ``value`` when it can be called."""
    if not callable(value):
        msg = f"{name} must be a function. Got {type(value).__name__} instead."
        raise InputError(msg)
    return value


def check_seed(seed: object) -> np.random.Generator:
    """Return a NumPy generator from an integer seed or a generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_integer(seed, "seed", high=np.inf))


def check_logits(logits: object, name: str = "logits") -> Array:
    """Return ``logits`` as a two-dimensional floating array of its own kind.

    Values are not read here: rows are checked for NaN, infinity, probabilities and sorted scores
    by `BlockCheck`, block by block, in the first pass that reads them.
    """
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
            f"temperance.torch.dense_logits."
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


def _kind_of(values: object, array: Array | None) -> str:
    """Say what came where an array of real numbers was due, and the way out where there is one."""
    if hasattr(values, "toarray"):
        return f"{type(values).__name__}: sparse input is not supported, use its .toarray()."
    if isinstance(values, np.ma.MaskedArray):
        return "a masked array with missing values: drop those rows."
    if array is None:
        return f"{type(values).__name__} instead."
    if "complex" in str(array.dtype):
        return f"an array of {array.dtype}: Complex data not supported."
    return f"an array of dtype {array.dtype} instead."


class BlockCheck:
    """Checks the values of logits while their first pass goes by, block by block.

    ``start`` is the number of the first row. Checks of parts add up to the check of the whole.
    """

    def __init__(self, name: str, start: int = 0) -> None:
        self.name = name
        self.rows = 0
        self._start = start
        self._simplex = True
        self._falling = self._rising = True

    def see(self, block: Array) -> None:
        """Look at one block of rows (in order), where it lives; raise at a NaN or infinity."""
        check_finite(block, self.name, self._start + self.rows)
        if self._simplex:
            self._simplex = _on_simplex(block)
        for rows in (block[:1, :], block):  # the first row mostly settles it
            if self._falling or self._rising:
                xp, left, right = namespace(rows), rows[:, :-1], rows[:, 1:]
                self._falling &= bool(xp.all(right <= left))
                self._rising &= bool(xp.all(right >= left))
        self.rows += int(block.shape[0])

    def __add__(self, other: BlockCheck) -> BlockCheck:
        total = BlockCheck(self.name, self._start)
        total.rows = self.rows + other.rows
        total._simplex = self._simplex and other._simplex
        total._falling = self._falling and other._falling
        total._rising = self._rising and other._rising
        return total

    def finish(self, n_classes: int) -> None:
        """Judge the whole after its first pass."""
        if self._simplex:
            raise _probabilities(self.name, self.rows)
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


def check_values(logits: Array, name: str = "logits") -> None:
    """Raise unless a map may be applied: finite values, and not probabilities."""
    z = detached(logits)  # gradients flow through the map, not through its checks
    check_finite(z, name, 0)
    if _on_simplex(z):
        raise _probabilities(name, int(z.shape[0]))


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
            f"{name} must be finite. {what}; drop that row, or give an impossible class a large "
            f"negative logit."
        )
    raise InputError(msg)


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


def _probabilities(name: str, rows: int) -> InputError:
    return InputError(
        f"{name} must be logits, but all {rows} rows are non-negative and sum to 1, so they look "
        f"like probabilities. Convert them with temperance.from_probabilities(p), or pass the "
        f"scores before the softmax."
    )


def check_simplex(p: NDArray[Any], name: str) -> None:
    """Raise unless every row is non-negative and sums to one."""
    with np.errstate(all="ignore"):
        sums = p.sum(axis=1, dtype=np.float64)
        bad = ~((np.abs(sums - 1) <= SIMPLEX_TOLERANCE) & (p >= 0).all(axis=1))
    if bad.any():
        row = int(np.argmax(bad))
        msg = (
            f"{name} must be probabilities: non-negative rows that sum to 1. Row {row} sums to "
            f"{sums[row]:g} with smallest entry {p[row].min():g}; logits are passed as they are."
        )
        raise InputError(msg)


def _on_simplex(block: Array) -> bool:
    xp = namespace(block)
    tolerance = max(SIMPLEX_TOLERANCE, float(xp.finfo(block.dtype).eps))  # bfloat16 is coarser
    if xp.min(block) < 0 or xp.max(block) > 1 + tolerance:
        return False
    if xp.all(xp.max(block, axis=1) == 1):  # rows like (1, 0, 0) are as well small logits
        return False
    sums = xp.sum(block, axis=1, dtype=xp.float64)
    return bool(xp.all(xp.abs(sums - 1) <= tolerance))


def check_classes(classes: object, n_classes: int, name: str = "classes") -> list[Any]:
    """Return class names as a list of ``n_classes`` distinct, hashable values."""
    try:
        names = list(np.asarray(classes, dtype=object).ravel().tolist())
        distinct = len(set(names))
    except (TypeError, ValueError) as error:
        msg = f"{name} must be a sequence of {n_classes} distinct names. Got {classes!r} instead."
        raise InputError(msg) from error
    if len(names) != n_classes or distinct != n_classes:
        msg = (
            f"{name} must hold {n_classes} distinct names, one per column. Got {len(names)} "
            f"names, {distinct} of them distinct."
        )
        raise InputError(msg)
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
    if labels is None:
        msg = (
            f"{name} must hold one class index per row: the fit requires {name} to be passed, but "
            f"the target {name} is None."
        )
        raise InputError(msg)
    y = _plain(labels, name)
    if y.ndim == 2 and y.dtype.kind == "f":
        return _check_soft_labels(y, n_rows, n_classes, name, start)
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.shape != (n_rows,):
        msg = f"{name} must have shape ({n_rows},), one per row of logits. Got shape {y.shape}."
        raise InputError(msg)
    if classes is not None:
        return _lookup(_as_given(labels, y), classes, name, start)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu":
        kind = f"continuous {y.dtype}" if y.dtype.kind == "f" else y.dtype
        msg = (
            f"{name} must be integers 0..{n_classes - 1} that index the columns. Got {kind} "
            f"with first value {y[0]!r}; give class names with classes=, or cast to integers."
        )
        raise InputError(msg)
    bad = (y < 0) | (y >= n_classes)
    if bad.any():
        row = int(np.argmax(bad))
        msg = (
            f"{name} must lie in 0..{n_classes - 1} (logits have {n_classes} columns). Row "
            f"{start + row} holds {int(y[row])}; drop rows to be ignored before fitting."
        )
        raise InputError(msg)
    return y.astype(np.int64, copy=False)


def _check_soft_labels(
    y: NDArray[Any], n: int, k: int, name: str, start: int
) -> NDArray[np.float64]:
    if y.shape != (n, k):
        msg = f"soft {name} must have shape ({n}, {k}), as the logits. Got shape {y.shape}."
        raise InputError(msg)
    soft = y.astype(np.float64)
    with np.errstate(all="ignore"):
        bad = ~(np.abs(soft.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE) | ~(soft >= 0).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        msg = (
            f"soft {name} must be non-negative and sum to 1 in each row. Row {start + row} does "
            f"not (sum {soft[row].sum():g}); put weights in sample_weight."
        )
        raise InputError(msg)
    return soft / soft.sum(axis=1, keepdims=True)


def _as_given(labels: Any, y: NDArray[Any]) -> list[Any]:
    """Return labels of mixed types as they came: NumPy turns numbers among words into words."""
    listed = isinstance(labels, (list, tuple))
    raw = np.asarray(labels, dtype=object) if listed else as_array(labels)
    return raw.ravel().tolist() if is_numpy(raw) and raw.dtype.hasobject else y.tolist()


def _lookup(y: list[Any], classes: Sequence[object], name: str, start: int) -> NDArray[np.int64]:
    index = {value: i for i, value in enumerate(classes)}
    out = np.empty(len(y), dtype=np.int64)
    for row, value in enumerate(y):
        try:
            out[row] = index[value]
        except (KeyError, TypeError):
            listed = ", ".join(repr(c) for c in list(classes)[:8])
            place = f"Row {start + row}"
            msg = f"{name} must be among classes ({listed}, …). {place} holds {value!r} instead."
            raise InputError(msg) from None
    return out


def check_sample_weight(weight: object, n_rows: int) -> NDArray[np.float64] | None:
    """Return weights as float64 ``(n,)``, or None when there are none."""
    if weight is None:
        return None
    w = check_weights(weight, n_rows)
    with np.errstate(over="ignore"):
        check_weight_sum(float(w.sum()))
    return w


def check_weights(weight: object, n_rows: int, start: int = 0) -> NDArray[np.float64]:
    """Return the weights of a block, whose first row has the number ``start``."""
    w = _plain(weight, "sample_weight")
    if w.ndim == 2 and 1 in w.shape:
        w = w.ravel()
    if w.shape != (n_rows,) or w.dtype.kind not in "fiub":
        got = f"shape {w.shape} of {w.dtype}"
        msg = f"sample_weight must be {n_rows} numbers, one per row. Got {got}."
        raise InputError(msg)
    w = w.astype(np.float64)
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        row = int(np.argmax(bad))
        place = f"Row {start + row}"
        msg = f"sample_weight must be finite and not negative. {place} holds {w[row]:g}."
        raise InputError(msg)
    return w


def check_weight_sum(total: float) -> None:
    """Raise unless the weights of all rows have a sum that one can divide by."""
    if not 0 < total < np.inf:
        msg = f"sample_weight must not be all zero, with a finite sum. Got the sum {total:g}."
        raise InputError(msg)


def check_prior(prior: object, n_classes: int, name: str = "prior") -> NDArray[np.float64]:
    """Return the class prior as float64 ``(K,)``: finite, non-negative, summing to one."""
    if prior is None:
        msg = (
            f"{name} must be {n_classes} class probabilities. Got None; pass the class mix you "
            f"expect in the target, or call temperance.calibrate with a labelled source."
        )
        raise InputError(msg)
    q = _plain(prior, name)
    if q.shape != (n_classes,) or q.dtype.kind not in "fiu":
        msg = (
            f"{name} must be {n_classes} numbers, one per class. Got shape {q.shape} of {q.dtype}."
        )
        raise InputError(msg)
    q = q.astype(np.float64)
    bad = ~np.isfinite(q) | (q < 0)
    if bad.any():
        k = int(np.argmax(bad))
        msg = f"{name} must be finite and not negative. Class {k} holds {q[k]:g}."
        raise InputError(msg)
    with np.errstate(over="ignore"):
        total = float(q.sum())
    if abs(total - 1) > PRIOR_TOLERANCE:
        msg = f"{name} must sum to 1. Got {total:.6g}; divide by the sum if these are counts."
        raise InputError(msg)
    return np.where(q < NOTHING, 0.0, q) / total


def check_same_classes(k: int, expected: int, name: str) -> None:
    """Raise unless the logits have the number of classes that the map or source has."""
    if k != expected:
        msg = f"{name} must have {expected} columns, one per class. Got {k} instead."
        raise InputError(msg)


def _plain(values: object, name: str) -> NDArray[Any]:
    """Any array-like of numbers or strings as a native NumPy array."""
    array = as_array(values)
    if array is None:
        msg = f"{name} must be an array-like of numbers or names. Got {type(values).__name__}."
        raise InputError(msg)
    y = to_numpy(array)
    if y.dtype.kind == "O":
        try:
            y = np.asarray(y.tolist())
        except (ValueError, OverflowError):
            return y
    return y if y.dtype.isnative else y.astype(y.dtype.newbyteorder("="))
