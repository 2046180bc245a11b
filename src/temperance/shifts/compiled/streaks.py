# pyright: basic
"""Weighted sums of pixels along a line, in vectors: what motion and falling snow are made of.

In a frame a streak is a list of taps, each a distance in memory and a weight. Sums are float32 and
stay in registers from the first tap to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from temperance.shifts.compiled.lines import compiled
from temperance.shifts.compiled.stripes import WORD, data_of, walk

FUSE = ("contract", "nsz", "nnan")
intrinsic: Any = extending.intrinsic


def taps(offsets: Any, weights: Any) -> tuple[Any, Any]:
    """Distances in memory and weights, filled up by zeros to a multiple of four, for `weigh`."""
    fill = -len(offsets) % 4
    offsets = np.pad(np.asarray(offsets, np.int64), (0, fill), mode="edge")
    return offsets, np.pad(weights.astype(np.float32), (0, fill))


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
            kind = ir.VectorType(ir.FloatType(), lanes)
            total = cgutils.alloca_once(builder, kind)
            builder.store(ir.Constant(kind, [0.0] * lanes), total)

            def product(k: Any) -> Any:
                index = builder.add(builder.load(builder.gep(places, [k])), builder.add(args[1], j))
                place = builder.bitcast(builder.gep(given, [index]), kind.as_pointer())
                share = builder.load(builder.gep(shares, [k]))
                empty = ir.Constant(kind, ir.Undefined)
                first = builder.insert_element(empty, share, ir.Constant(ir.IntType(32), 0))
                order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                every = builder.shuffle_vector(first, empty, order)
                return builder.fmul(every, builder.load(place, align=4), flags=FUSE)

            def chain(k: Any, some: int) -> Any:
                value = product(k)
                for i in range(1, some):
                    value = builder.fadd(
                        value, product(builder.add(k, ir.Constant(WORD, i))), flags=FUSE
                    )
                return value

            def add(k: Any, some: int) -> None:
                both = [chain(k, some), chain(builder.add(k, ir.Constant(WORD, some)), some)]
                builder.store(
                    builder.fadd(builder.load(total), builder.fadd(*both, flags=FUSE), flags=FUSE),
                    total,
                )

            with builder.if_then(builder.icmp_signed(">", odd, ir.Constant(WORD, 0))):
                add(ir.Constant(WORD, 0), 2)
            with cgutils.for_range(builder, builder.udiv(number, eight)) as loop:
                add(builder.add(odd, builder.mul(loop.index, eight)), 4)
            place = builder.bitcast(builder.gep(taken, [j]), kind.as_pointer())
            builder.store(builder.load(total), place, align=4)

        walk(builder, args[5], (32, 8, 1), sum_up)
        return context.get_dummy_value()

    return types.void(flat, start, offsets, weights, out, n), generate
