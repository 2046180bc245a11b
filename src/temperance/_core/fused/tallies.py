# pyright: basic
"""What the pass of the metrics keeps of each of 64 rows, and what it does with it, as formulas."""

from __future__ import annotations

from typing import Any

from temperance._core.fused.elementary import LANES, LOG2_E, LOWEST, VECTOR, U, logarithm, two_to
from temperance._core.fused.traced import STRICT, formula, repeated

# In lanes: max z; with u = z - max z and e = exp u, the sums of e and of e², u and e of the label,
# whether it is predicted; at last confidence, Brier score, the bin and what the row adds to the
# counts of that.
TOP, S, SQUARES, OWN, OWN_E, RIGHT, SURE, BRIER, PLACE, TALLY, ENERGY, END = (
    U(LANES * j) for j in range(12)
)
ALL, SCORES = U(LANES), U(4)
COPIES = 4  # of the bins
SHIFT = 1.5 * 2.0**52  # added to a number, leaves the nearest integer in its last bits
_PACKED = 2.0**26  # a count of rows and this times that of the right ones are one number


def _exponentiate(column: Any, es: Any, lanes: Any, i: Any) -> None:
    """Write e of one class."""
    u = (column[i].widened() - lanes[i]) * LOG2_E
    es[i] = two_to(u.above(LOWEST, u, u.constant(LOWEST)))


def _add_classes(es: Any, lanes: Any, i: Any, n_classes: Any) -> None:
    """Write the sums of e and of e²."""

    def add(k: Any, s: Any, squares: Any) -> tuple[Any, Any]:
        e = es[k * LANES + i]
        return s + e, squares + e * e

    none = lanes[i].constant(0.0)
    lanes[i + int(S)], lanes[i + int(SQUARES)] = repeated(n_classes, add, none, none)


def _put_own(x: Any, es: Any, lanes: Any, label: Any, i: Any) -> None:
    """Write logit and e of the label."""
    lanes[i + int(OWN)] = x[label * LANES + i].widened()
    lanes[i + int(OWN_E)] = es[label * LANES + i]


def _compare(first: Any, lanes: Any, i: Any) -> None:
    """Turn logit and number of the label into u, and into whether that is the predicted class."""
    off = abs(lanes[i + int(RIGHT)] - first[i].widened())
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
    shifted = scaled - 0.5 + SHIFT
    lanes[i + int(PLACE)] = shifted
    lanes[i + int(TALLY)] = lanes[i + int(RIGHT)] * _PACKED + 1
    return abs(scaled - (shifted - SHIFT) - 0.5)


def _plus_one(totals: Any, lanes: Any, i: Any) -> tuple[Any, ...]:
    """Add a row that counts once; the logarithm of a product is the sum of many."""
    own, brier, product = totals
    return (
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


def _put_ones(bins: Any, first: Any, lanes: Any, i: Any) -> None:
    """Add rows that count once to pairs: confidence, and two counts in one number.

    Each has bins of its own, so that a sum seldom waits for itself.
    """
    for j in range(COPIES):
        place = lanes[i + (int(PLACE) + j)].bits() & 0xFFFFFFFF
        at = first + place * (2 * COPIES) + 2 * j
        for r, source in enumerate((SURE, TALLY)):
            bins[at + r] = bins[at + r] + lanes[i + (int(source) + j)]


def _unpack(bins: Any, j: Any, n_bins: Any) -> None:
    """Add the pairs of bin j to its sums, and to the number of rows and of right ones."""
    pairs, j = n_bins * 3 + j * (2 * COPIES) + int(SCORES), j + int(SCORES)
    for c in range(COPIES):
        at = pairs + 2 * c
        right = (bins[at + 1] * (1 / _PACKED) - (0.5 - 0.25 / _PACKED) + SHIFT) - SHIFT
        count = bins[at + 1] - right * _PACKED
        for r, x in enumerate((count, bins[at], right)):
            bins[j + n_bins * r] = bins[j + n_bins * r] + x
        for r, x in enumerate((count, right)):
            bins[r] = bins[r] + x


exponentiate, add_classes, compare = (
    formula(f, 0, STRICT, width=VECTOR) for f in (_exponentiate, _add_classes, _compare)
)
put_own, finish, put_weighted, put_ones, unpack = (
    formula(f, 0, STRICT) for f in (_put_own, _finish, _put_weighted, _put_ones, _unpack)
)
find_place = formula(_find_place, flags=STRICT)
plus_one, plus_weighted = formula(_plus_one, 3), formula(_plus_weighted, 4)
