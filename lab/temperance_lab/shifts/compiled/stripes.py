# pyright: basic
"""Rows of bytes in vectors, as no plain loop has them: their means, and the means that are shown.

Nothing here asks where an array ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from temperance._core.fused.elementary import LINE
from temperance._core.fused.traced import intrinsic, prefetch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORD = ir.IntType(64)
THIRD = 65536 // 3 + 1  # of 65,536: exact for the sums of three bytes


class _Bytes:
    """Some bytes side by side, or a single one."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self._builder = builder
        self._lanes = lanes

    def _kind(self, bits: int) -> Any:
        return ir.VectorType(ir.IntType(bits), self._lanes) if self._lanes > 1 else ir.IntType(bits)

    def all(self, bits: int, value: int) -> Any:
        return ir.Constant(self._kind(bits), [value] * self._lanes if self._lanes > 1 else value)

    def _at(self, data: Any, index: Any) -> Any:
        place = self._builder.gep(data, [index])
        return self._builder.bitcast(place, self._kind(8).as_pointer())

    def load(self, data: Any, index: Any) -> Any:
        return self._builder.load(self._at(data, index), align=1)

    def store(self, value: Any, data: Any, index: Any) -> None:
        self._builder.store(value, self._at(data, index), align=1)

    def _sum(self, values: Sequence[Any]) -> Any:
        """Half of what is added makes a mean round to the nearest, and up between two."""
        total = self.all(16, len(values) // 2)
        for value in values:
            total = self._builder.add(total, self._builder.zext(value, self._kind(16)))
        return total

    def _middle(self, *pair: Any) -> Any:
        """Mean of two, which processors have an instruction for."""
        half = self._builder.lshr(self._sum(pair), self.all(16, 1))
        return self._builder.trunc(half, self._kind(8))

    def mean(self, values: Sequence[Any]) -> Any:
        """Mean of up to four."""
        builder = self._builder
        if len(values) == 1:
            return values[0]
        if len(values) == 2:
            return self._middle(*values)
        if len(values) == 3:
            total = builder.zext(self._sum(values), self._kind(32))
            third = builder.lshr(builder.mul(total, self.all(32, THIRD)), self.all(32, 16))
            return builder.trunc(third, self._kind(8))
        a, b, c, d = values
        x, y = self._middle(a, b), self._middle(c, d)
        # Rounded up twice, it is one too large if it was rounded up both times.
        odd = builder.or_(builder.xor(a, b), builder.xor(c, d))
        twice = builder.and_(builder.and_(builder.xor(x, y), odd), self.all(8, 1))
        return builder.sub(self._middle(x, y), twice)


def walk(builder: Any, n: Any, widths: Sequence[int], step: Callable[[int, Any], None]) -> None:
    """Go through n numbers in steps of the first width, what is left in those of the next."""
    done: Any = ir.Constant(WORD, 0)
    for lanes in widths:
        wide = ir.Constant(WORD, lanes)
        count = builder.udiv(builder.sub(n, done), wide)
        with cgutils.for_range(builder, count) as loop:
            step(lanes, builder.add(done, builder.mul(loop.index, wide)))
        done = builder.add(done, builder.mul(count, wide))


def data_of(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """Where the numbers of an argument are."""
    return context.make_array(signature.args[k])(context, builder, args[k]).data


def _averaging(size: int) -> Any:
    """Return the mean of ``size`` rows of n bytes that begin ``step`` apart."""

    @intrinsic
    def mean(_: Any, flat: Any, start: Any, step: Any, out: Any, place: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rows, means = (data_of(context, builder, signature, args, k) for k in (0, 3))
            far = [builder.mul(args[2], ir.Constant(WORD, k)) for k in range(size)]
            begins = [builder.add(args[1], distance) for distance in far]

            def average(lanes: int, j: Any) -> None:
                some = _Bytes(builder, lanes)
                value = some.mean([some.load(rows, builder.add(begin, j)) for begin in begins])
                some.store(value, means, builder.add(args[4], j))

            walk(builder, args[5], (32, 1), average)
            return context.get_dummy_value()

        return types.void(flat, start, step, out, place, n), generate

    return mean


def _calling(*, to_write: bool) -> Any:
    """Call n bytes into the cache that are needed soon: rows in turn are not foreseen."""

    @intrinsic
    def call(_: Any, flat: Any, start: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data, line = data_of(context, builder, signature, args, 0), ir.Constant(WORD, LINE)
            with cgutils.for_range(builder, builder.udiv(args[2], line)) as loop:
                place = builder.add(args[1], builder.mul(loop.index, line))
                prefetch(builder, builder.gep(data, [place]), to_write=to_write)
            return context.get_dummy_value()

        return types.void(flat, start, n), generate

    return call


call_to_read, call_to_write = (_calling(to_write=writing) for writing in (False, True))
copy, mean_of_two, mean_of_three, mean_of_four = (_averaging(size) for size in (1, 2, 3, 4))


@intrinsic
def show(
    _: Any, room: Any, begins: Any, masks: Any, out: Any, place: Any, length: Any, rows: Any
) -> Any:
    """Put a row together from those that begin in the room, each with a mask; ``rows`` times."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given, starts, covers, shown = (
            data_of(context, builder, signature, args, k) for k in range(4)
        )
        begins = context.make_array(signature.args[1])(context, builder, args[1])
        number = builder.extract_value(begins.shape, 0)

        def put(lanes: int, j: Any) -> None:
            some = _Bytes(builder, lanes)
            total = cgutils.alloca_once(builder, some.all(8, 0).type)
            builder.store(some.all(8, 0), total)
            with cgutils.for_range(builder, number) as loop:
                begin = builder.load(builder.gep(starts, [loop.index]))
                mask = some.load(covers, builder.add(builder.mul(loop.index, args[5]), j))
                seen = builder.and_(some.load(given, builder.add(begin, j)), mask)
                builder.store(builder.or_(builder.load(total), seen), total)
            value = builder.load(total)
            with cgutils.for_range(builder, args[6]) as loop:
                line = builder.add(args[4], builder.mul(loop.index, args[5]))
                some.store(value, shown, builder.add(line, j))

        walk(builder, args[5], (128, 32, 1), put)
        return context.get_dummy_value()

    return types.void(room, begins, masks, out, place, length, rows), generate
