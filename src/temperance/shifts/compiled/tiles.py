# pyright: basic
"""What LLVM is told in vectors, as no plain loop says it: tiles turned, and rows summed.

Nothing here asks where an array ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDE = 8  # of a tile, and numbers in a vector
ROWS = 4  # summed at once
WORD = ir.IntType(64)
FUSE = ("contract",)
intrinsic: Any = extending.intrinsic


class _Vectors:
    """Vectors of eight numbers in one array."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self._builder = builder
        self._data = context.make_array(kind)(context, builder, array).data
        self.kind = ir.VectorType(context.get_value_type(kind.dtype), SIDE)

    def _at(self, index: Any) -> Any:
        place = self._builder.gep(self._data, [index])
        return self._builder.bitcast(place, self.kind.as_pointer())

    def load(self, index: Any) -> Any:
        return self._builder.load(self._at(index), align=1)

    def store(self, value: Any, index: Any) -> None:
        self._builder.store(value, self._at(index), align=1)


@intrinsic
def copy(_: Any, source: Any, start: Any, stride: Any, target: Any, place: Any, step: Any) -> Any:
    """Copy a tile of 8 × 8 numbers."""
    return types.void(source, start, stride, target, place, step), _moving(lambda _, rows: rows)


@intrinsic
def turn(_: Any, source: Any, start: Any, stride: Any, target: Any, place: Any, step: Any) -> Any:
    """Copy a tile of 8 × 8 numbers, its rows becoming columns."""
    return types.void(source, start, stride, target, place, step), _moving(_turned)


def _moving(change: Callable[[Any, list[Any]], list[Any]]) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, start, stride, target, place, step = args
        given = _Vectors(context, builder, signature.args[0], source)
        taken = _Vectors(context, builder, signature.args[3], target)

        def row(first: Any, distance: Any, k: int) -> Any:
            return builder.add(first, builder.mul(distance, ir.Constant(WORD, k)))

        rows = change(builder, [given.load(row(start, stride, k)) for k in range(SIDE)])
        for k, value in enumerate(rows):
            taken.store(value, row(place, step, k))
        return context.get_dummy_value()

    return generate


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """Swap the halves of all pairs of rows four apart, then two, then one."""
    for half in (4, 2, 1):
        low = [k if k & half == 0 else k + SIDE - half for k in range(SIDE)]
        high = [k + half if k & half == 0 else k + SIDE for k in range(SIDE)]
        rows = [
            _shuffle(builder, rows[k & ~half], rows[k | half], high if k & half else low)
            for k in range(SIDE)
        ]
    return rows


def _shuffle(builder: Any, a: Any, b: Any, order: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
    return builder.shuffle_vector(a, b, mask)


@intrinsic
def sum_around(
    _: Any, flat: Any, begins: Any, y: Any, weights: Any, out: Any, place: Any, length: Any
) -> Any:
    """w_0 x_y + Σ_k w_k (x_{y-k} + x_{y+k}) for rows y to y + 3, eight columns at a time.

    Row i of ``flat`` begins at ``begins[i + len(weights)]``. Rows stay in registers while they
    move from one sum to the next, so that every step reads two.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _Vectors(context, builder, signature.args[0], args[0])
        sums = _Vectors(context, builder, signature.args[4], args[4])
        starts = context.make_array(signature.args[1])(context, builder, args[1]).data
        weights = context.make_array(signature.args[3])(context, builder, args[3])
        number, one = builder.extract_value(weights.shape, 0), ir.Constant(WORD, 1)
        centre = builder.add(args[2], number)
        last = builder.add(centre, ir.Constant(WORD, ROWS - 1))
        moving = [[cgutils.alloca_once(builder, rows.kind) for _ in range(ROWS)] for _ in range(3)]

        def row(index: Any, j: Any) -> Any:
            return rows.load(builder.add(builder.load(builder.gep(starts, [index])), j))

        with cgutils.for_range(builder, builder.udiv(args[6], ir.Constant(WORD, SIDE))) as across:
            j = builder.mul(across.index, ir.Constant(WORD, SIDE))
            near = [row(builder.add(centre, ir.Constant(WORD, i)), j) for i in range(-1, ROWS + 1)]
            w = _spread(builder, rows.kind, weights.data, ir.Constant(WORD, 0))
            _keep(builder, [near[:-2], near[2:], [builder.fmul(w, x) for x in near[1:-1]]], moving)
            with cgutils.for_range(builder, builder.sub(number, one)) as outward:
                up, down, total = ([builder.load(name) for name in names] for names in moving)
                k = builder.add(outward.index, one)
                w, next_k = _spread(builder, rows.kind, weights.data, k), builder.add(k, one)
                for i in range(ROWS):
                    pair = builder.fmul(w, builder.fadd(up[i], down[i]), flags=FUSE)
                    total[i] = builder.fadd(total[i], pair, flags=FUSE)
                up = [row(builder.sub(centre, next_k), j), *up[:-1]]
                down = [*down[1:], row(builder.add(last, next_k), j)]
                _keep(builder, [up, down, total], moving)
            for i, name in enumerate(moving[2]):
                line = builder.add(args[5], builder.mul(args[6], ir.Constant(WORD, i)))
                sums.store(builder.load(name), builder.add(line, j))
        return context.get_dummy_value()

    return types.void(flat, begins, y, weights, out, place, length), generate


def _spread(builder: Any, kind: Any, data: Any, index: Any) -> Any:
    """Read a number into all places of a vector."""
    empty = ir.Constant(kind, ir.Undefined)
    value = builder.load(builder.gep(data, [index]))
    single = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return _shuffle(builder, single, empty, [0] * SIDE)


def _keep(builder: Any, values: list[list[Any]], groups: list[list[Any]]) -> None:
    """Store values under their names, which LLVM makes registers."""
    for kept, names in zip(values, groups, strict=True):
        for value, name in zip(kept, names, strict=True):
            builder.store(value, name)
