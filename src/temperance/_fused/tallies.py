# pyright: basic
"""What the pass of the metrics keeps of each of 64 rows, and what it does with it, as formulas."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from temperance._fused.elementary import LANES, LOG2_E, LOWEST, U, logarithm
from temperance._fused.elementary import _exp2 as power
from temperance._fused.traced import STRICT, Number, formula

# In lanes: max z; with u = z - max z and e = exp u, the sums of e
# and of e², u and e of the label, whether it is predicted; at last confidence and Brier score.
TOP, S, SQUARES, OWN, OWN_E, RIGHT, SURE, BRIER, PLACE, ENERGY, END = (
    U(LANES * j) for j in range(11)
)
ALL, SCORES = U(LANES), U(4)
_SHIFT = 1.5 * 2.0**52  # added and taken away again, leaves the nearest integer
_PACKED = 2.0**26  # a count of rows and this times that of the right ones are one number


def _widened(x: Any) -> Any:
    """Return a float32 as float64."""
    narrow = x.value.type != ir.DoubleType()
    return Number(x.builder, x.builder.fpext(x.value, ir.DoubleType()), x.flags) if narrow else x


def _add_class(column: Any, powers: Any, lanes: Any, i: Any) -> Any:
    """Write and return e of one class, and add it and its square to the sums."""
    u = (_widened(column[i]) - lanes[i]) * LOG2_E
    lowest = Number(u.builder, u.value.type(LOWEST), u.flags)
    e = power(u.above(LOWEST, u, lowest).strict())
    e = Number(e.builder, e.value, u.flags)
    powers[i] = e
    for at, x in ((S, e), (SQUARES, e * e)):
        lanes[i + int(at)] = lanes[i + int(at)] + x
    return e


def _compare(first: Any, lanes: Any, i: Any) -> None:
    """Turn logit and number of the label into u, and into whether that is the predicted class."""
    off = abs(lanes[i + int(RIGHT)] - _widened(first[i]))
    lanes[i + int(RIGHT)] = off.above(0.5, off * 0, off * 0 + 1)
    lanes[i + int(OWN)] = lanes[i + int(OWN)] - lanes[i]


def _finish(lanes: Any, i: Any) -> None:
    """Write confidence and Brier score of a row."""
    sure, own = 1 / lanes[i + int(S)], lanes[i + int(OWN_E)] * 2
    brier = (lanes[i + int(SQUARES)] * sure - own) * sure + 1
    lanes[i + int(SURE)] = sure
    lanes[i + int(BRIER)] = brier.above(0.0, brier, brier * 0)


def _find_place(lanes: Any, i: Any, n_bins: Any) -> Any:
    """Write the bin of a confidence, and return how far that is from the middle of the bin.

    Where that is nearly one half, at an edge, rounding may have moved it by one.
    """
    highest = n_bins - 0.5
    scaled = lanes[i + int(SURE)] * n_bins
    scaled = (scaled - highest).above(0.0, highest, scaled)
    below = (scaled - 0.5 + _SHIFT) - _SHIFT
    lanes[i + int(PLACE)] = below
    return abs(scaled - below - 0.5)


def _plus_one(totals: Any, lanes: Any, i: Any) -> tuple[Any, ...]:
    """Add a row that counts once; the logarithm of a product is the sum of many."""
    right, own, brier, product = totals
    return (
        right + lanes[i + int(RIGHT)],
        own + lanes[i + int(OWN)],
        brier + lanes[i + int(BRIER)],
        product * lanes[i + int(S)],
    )


def _plus_weighted(totals: Any, w: Any, lanes: Any, i: Any) -> tuple[Any, ...]:
    """Add the weight of a row, whether it is right, its NLL and its Brier score."""
    nll = logarithm(lanes[i + int(S)].strict()) - lanes[i + int(OWN)]
    each = 1.0, lanes[i + int(RIGHT)], nll, lanes[i + int(BRIER)]
    return tuple(total + w * x for total, x in zip(totals, each, strict=True))


def _put_weighted(bins: Any, j: Any, n_bins: Any, w: Any, lanes: Any, i: Any) -> None:
    """Add a row to bin j: weight, confidence, correctness."""
    j = j + int(SCORES)
    bins[j] = bins[j] + w
    for r, at in ((1, SURE), (2, RIGHT)):
        bins[j + n_bins * r] = bins[j + n_bins * r] + w * lanes[i + int(at)]


def _put_one(bins: Any, j: Any, lanes: Any, i: Any) -> None:
    """Add a row that counts once to a pair: its confidence, and two counts in one number."""
    bins[j] = bins[j] + lanes[i + int(SURE)]
    bins[j + 1] = bins[j + 1] + (lanes[i + int(RIGHT)] * _PACKED + 1)


def _unpack(bins: Any, j: Any, n_bins: Any) -> None:
    """Add the two pairs of bin j, of odd and of even rows, to its sums."""
    pairs, j = n_bins * 3 + j * 4 + int(SCORES), j + int(SCORES)
    for at in (pairs, pairs + 2):
        right = (bins[at + 1] * (1 / _PACKED) - (0.5 - 0.25 / _PACKED) + _SHIFT) - _SHIFT
        for r, x in enumerate((bins[at + 1] - right * _PACKED, bins[at], right)):
            bins[j + n_bins * r] = bins[j + n_bins * r] + x


add_class = formula(_add_class)
compare, finish, put_weighted, put_one, unpack = (
    formula(f, 0, STRICT) for f in (_compare, _finish, _put_weighted, _put_one, _unpack)
)
find_place = formula(_find_place, flags=STRICT)
plus_one, plus_weighted = (formula(f, 4) for f in (_plus_one, _plus_weighted))
