# pyright: basic
"""Weighted sums of pixels along a line, in vectors: what motion and falling snow are made of.

In a frame a streak is a list of taps, each a distance in memory and a weight. Sums are float32 and
stay in registers from the first tap to the last.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from temperance._core.fused.traced import intrinsic
from temperance_lab.shifts.blur import streak_weights
from temperance_lab.shifts.compiled.lines import compiled
from temperance_lab.shifts.compiled.stripes import WORD, data_of, walk

FUSE = ("contract", "nsz", "nnan")


@lru_cache
def taps(radius: int, sigma: float) -> tuple[Any, Any]:
    """Steps along a streak and their weights, filled up to a multiple of four, for `weigh`."""
    steps, weights = streak_weights(radius, sigma)
    fill = -len(steps) % 4
    return np.pad(steps.astype(np.int64), (0, fill), mode="edge"), np.pad(weights, (0, fill))


def aside(reach: int) -> int:
    """How far a streak of that length leads aside if it stays within 45° of its axis."""
    return int(np.ceil(reach * np.sqrt(0.5)))


@compiled
def trace(angle: float, steps: Any, corner: Any, stride: int, channels: int, offsets: Any) -> None:
    """Distances in memory of steps along a line, from a frame that begins by so much earlier."""
    above, left = corner
    for k in range(steps.size):
        down = above + int(np.rint(steps[k] * np.sin(angle)))
        right = left + int(np.rint(steps[k] * np.cos(angle)))
        offsets[k] = down * stride + right * channels


@intrinsic
def weigh(_: Any, flat: Any, start: Any, offsets: Any, weights: Any, out: Any, n: Any) -> Any:
    """Σ_k w_k flat[start + offset_k + j] for j < n, in steps of eight taps, or of four at first."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given, places, shares, taken = (
            data_of(context, builder, signature, args, k) for k in (0, 2, 3, 4)
        )
        length = context.make_array(signature.args[2])(context, builder, args[2]).shape
        number, eight = builder.extract_value(length, 0), ir.Constant(WORD, 8)
        odd = builder.urem(number, eight)

        def sum_up(lanes: int, j: Any) -> None:
            here = builder.gep(given, [builder.add(args[1], j)])
            some = _Sum(builder, lanes, here, places, shares)
            with builder.if_then(builder.icmp_signed(">", odd, ir.Constant(WORD, 0))):
                some.add(ir.Constant(WORD, 0), 2)
            with cgutils.for_range(builder, builder.udiv(number, eight)) as loop:
                some.add(builder.add(odd, builder.mul(loop.index, eight)), 4)
            some.store(builder.gep(taken, [j]))

        walk(builder, args[5], (32, 8, 1), sum_up)
        return context.get_dummy_value()

    return types.void(flat, start, offsets, weights, out, n), generate


class _Sum:
    """Sum over taps for some numbers side by side, the first of them ``here``."""

    def __init__(self, builder: Any, lanes: int, here: Any, places: Any, shares: Any) -> None:
        self._builder, self._here, self._places, self._shares = builder, here, places, shares
        self._kind = ir.VectorType(ir.FloatType(), lanes)
        self._total = cgutils.alloca_once(builder, self._kind)
        builder.store(ir.Constant(self._kind, [0.0] * lanes), self._total)

    def _at(self, place: Any) -> Any:
        return self._builder.bitcast(place, self._kind.as_pointer())

    def _product(self, k: Any) -> Any:
        builder, lanes = self._builder, self._kind.count
        offset, share = (
            builder.load(builder.gep(data, [k])) for data in (self._places, self._shares)
        )
        empty = ir.Constant(self._kind, ir.Undefined)
        first = builder.insert_element(empty, share, ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        value = builder.load(self._at(builder.gep(self._here, [offset])), align=4)
        return builder.fmul(builder.shuffle_vector(first, empty, order), value, flags=FUSE)

    def _chain(self, k: Any, some: int) -> Any:
        value = self._product(k)
        for i in range(1, some):
            product = self._product(self._builder.add(k, ir.Constant(WORD, i)))
            value = self._builder.fadd(value, product, flags=FUSE)
        return value

    def add(self, k: Any, some: int) -> None:
        """Add so many taps from k on, and as many after them."""
        builder = self._builder
        later = builder.add(k, ir.Constant(WORD, some))
        both = builder.fadd(self._chain(k, some), self._chain(later, some), flags=FUSE)
        builder.store(builder.fadd(builder.load(self._total), both, flags=FUSE), self._total)

    def store(self, place: Any) -> None:
        """Write the sums."""
        self._builder.store(self._builder.load(self._total), self._at(place), align=4)
