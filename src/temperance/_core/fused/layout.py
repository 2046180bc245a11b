# pyright: basic
"""Rows of few classes laid side by side, one to a lane, and what is seen of them on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from temperance._core.fused.elementary import LANES, U, inlined, intrinsic

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS, CLASSES = 8, 4  # of a tile that is turned in registers
_PAIRS = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)  # within halves of a vector
_QUADS = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)


class _Tile:
    """Vectors of some rows of an array in memory, and how they are turned."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.builder, self.array = builder, context.make_array(kind)(context, builder, value)
        self.number, self.size = context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
        self.shape, self.strides = (
            cgutils.unpack_tuple(builder, part) for part in (self.array.shape, self.array.strides)
        )

    def at(self, row: Any, column: Any, width: int) -> Any:
        """Return the address of so many numbers of a row."""
        b, whole = self.builder, ir.IntType(64)
        line, step = b.mul(row, self.strides[0]), b.mul(column, whole(self.size))
        place = b.add(b.ptrtoint(self.array.data, whole), b.add(line, step))
        return b.inttoptr(place, ir.VectorType(self.number, width).as_pointer())

    def mixed(self, a: Any, b: Any, order: Sequence[int]) -> Any:
        """Return a vector of numbers of two others."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
        return self.builder.shuffle_vector(a, b, mask)

    def turned(self, i: Any, k: Any) -> list[Any]:
        """Return four classes of eight rows, class by class.

        Row j and row j + 4 are the halves of a vector; two rounds of exchanges turn them.
        """
        b = self.builder
        places = [self.at(b.add(i, i.type(j)), k, CLASSES) for j in range(ROWS)]
        half = [b.load(place, align=self.size) for place in places]
        whole = [self.mixed(half[j], half[j + 4], range(ROWS)) for j in range(CLASSES)]
        low, high = (
            [self.mixed(whole[j], whole[j + 1], order) for order in _PAIRS] for j in (0, 2)
        )
        return [self.mixed(a, c, order) for a, c in zip(low, high, strict=True) for order in _QUADS]


@intrinsic
def _lay(_: Any, rows: Any, i: Any, x: Any, lanes: Any) -> Any:
    """Do what `lay` does with eight rows from i on, four classes at a time, in registers."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        source, target, wide = (
            _Tile(context, builder, kind, value)
            for kind, value in zip((rows, x, lanes), (args[0], *args[2:]), strict=True)
        )
        first, n_classes = args[1], source.shape[1]
        vector, whole = ir.VectorType(source.number, ROWS), first.type
        top, place, squares = (
            cgutils.alloca_once_value(builder, vector([start] * ROWS))
            for start in (float("-inf"), 0.0, 0.0)
        )
        n_tiles = builder.udiv(builder.add(n_classes, whole(CLASSES - 1)), whole(CLASSES))
        with cgutils.for_range(builder, n_tiles) as loop:
            last = builder.sub(n_classes, whole(CLASSES))  # the last tile overlaps the one before
            k = builder.mul(loop.index, whole(CLASSES))
            k = builder.select(builder.icmp_signed("<", k, last), k, last)
            number = builder.sitofp(k, source.number)
            number = builder.insert_element(vector(ir.Undefined), number, ir.IntType(32)(0))
            number = source.mixed(number, number, [0] * ROWS)
            for j, column in enumerate(source.turned(first, k)):
                at = target.at(builder.add(k, whole(j)), first, ROWS)
                builder.store(column, at, align=source.size)
                t, p, s = (builder.load(one) for one in (top, place, squares))
                above = builder.fcmp_ordered(">", column, t)
                here = builder.fadd(number, vector([float(j)] * ROWS))
                builder.store(builder.select(above, column, t), top)
                builder.store(builder.select(above, here, p), place)
                builder.store(builder.fadd(s, builder.fmul(column, column)), squares)
        for j, one in enumerate((place, squares)):
            at = target.at(builder.add(n_classes, whole(j)), first, ROWS)
            builder.store(builder.load(one), at, align=source.size)
        largest = builder.load(top)
        if source.number != wide.number:
            largest = builder.fpext(largest, ir.VectorType(wide.number, ROWS))
        builder.store(largest, wide.at(whole(0), first, ROWS), align=wide.size)
        return context.get_dummy_value()

    return types.void(rows, i, x, lanes), generate


@inlined()
def lay(rows: Any, x: Any, lanes: Any) -> None:
    """Write up to 64 rows into the columns of x, and the largest of each into the first lanes.

    Behind the classes, x gets the first place of the largest, and a bound of the sum of squares.
    """
    n, n_classes = rows.shape
    if n == LANES and n_classes >= CLASSES:
        for i in range(0, LANES, ROWS):
            _lay(rows, i, x, lanes)
        return
    for i in range(U(n)):
        top, first, squares = rows[i, 0], 0, x.dtype.type(0)
        for k in range(U(n_classes)):
            v = rows[i, k]
            x[k, i] = v
            squares += v * v
            if v > top:
                top, first = v, k
        lanes[i], x[n_classes, i], x[n_classes + 1, i] = top, first, squares
