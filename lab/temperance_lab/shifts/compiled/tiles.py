# pyright: basic
"""What LLVM is told in vectors, as no plain loop says it: tiles turned, and rows summed.

Nothing here asks where an array ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from temperance._core.fused.traced import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDE = 8  # of a tile, and numbers in a vector
ROWS = 6  # summed at once
WORD = ir.IntType(64)
FUSE = ("contract",)


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
def lay_eight(_: Any, source: Any, start: Any, target: Any, place: Any) -> Any:
    """Copy eight numbers, none of them negative if whole, as floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _Vectors(context, builder, signature.args[0], args[0])
        taken = _Vectors(context, builder, signature.args[2], args[2])
        value = given.load(args[1])
        if isinstance(given.kind.element, ir.IntType):
            value = builder.uitofp(value, taken.kind)
        taken.store(value, args[3])
        return context.get_dummy_value()

    return types.void(source, start, target, place), generate


def _summing(step: int) -> Any:
    """w_0 x_y + Σ_k w_k (x_{y-k} + x_{y+k}) for six rows from y on, of eight numbers each.

    Row y begins at ``start``, the next one ``step`` numbers later; so do the sums in ``out``.
    """

    @intrinsic
    def sum_around(_: Any, flat: Any, start: Any, weights: Any, out: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rows = _Vectors(context, builder, signature.args[0], args[0])
            sums = _Vectors(context, builder, signature.args[3], args[3])
            weights = context.make_array(signature.args[2])(context, builder, args[2])
            six = _Six(builder, rows, args[1], step, weights.data)
            k, number = ir.Constant(WORD, 1), builder.extract_value(weights.shape, 0)
            for steps in (2, 1):
                many = ir.Constant(WORD, steps)
                count = builder.udiv(builder.sub(number, k), many)
                with cgutils.for_range(builder, count) as loop:
                    six.outward(builder.add(k, builder.mul(loop.index, many)), steps)
                k = builder.add(k, builder.mul(count, many))
            for i, total in enumerate(six.totals()):
                sums.store(total, builder.add(args[4], ir.Constant(WORD, i * step)))
            return context.get_dummy_value()

        return types.void(flat, start, weights, out, place), generate

    return sum_around


class _Six:
    """Sums for six rows at once, which leave no processor waiting for a product.

    Rows below stay in registers while they move from one sum to the next; for those above there
    are none left, and they are read again.
    """

    def __init__(self, builder: Any, rows: _Vectors, start: Any, step: int, weights: Any) -> None:
        self._builder, self._rows, self._start, self._step = builder, rows, start, step
        self._weights = weights
        self._names = [
            [cgutils.alloca_once(builder, rows.kind) for _ in range(ROWS)] for _ in range(2)
        ]
        near = [self._row(start, i) for i in range(ROWS)]
        w = self._weight(ir.Constant(WORD, 0))
        _keep(builder, [near, [builder.fmul(w, x) for x in near]], self._names)

    def _row(self, first: Any, i: int) -> Any:
        return self._rows.load(self._builder.add(first, ir.Constant(WORD, i * self._step)))

    def _weight(self, k: Any) -> Any:
        return _spread(self._builder, self._rows.kind, self._weights, k)

    def outward(self, k: Any, steps: int) -> None:
        """Add the rows k above and below, and those further off by some steps."""
        builder = self._builder
        down, total = ([builder.load(name) for name in group] for group in self._names)
        for _ in range(steps):
            w, far = self._weight(k), builder.mul(k, ir.Constant(WORD, self._step))
            down = [*down[1:], self._row(builder.add(self._start, far), ROWS - 1)]
            above = _forgotten(builder, builder.sub(self._start, far))
            for i in range(ROWS):
                pair = builder.fmul(w, builder.fadd(self._row(above, i), down[i]), flags=FUSE)
                total[i] = builder.fadd(total[i], pair, flags=FUSE)
            k = builder.add(k, ir.Constant(WORD, 1))
        _keep(builder, [down, total], self._names)

    def totals(self) -> list[Any]:
        """Return the sums."""
        return [self._builder.load(name) for name in self._names[1]]


def _forgotten(builder: Any, index: Any) -> Any:
    """Hide where an index comes from: LLVM would keep what it reads, and has no place for it."""
    return builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [index], True)


sum_greys, sum_colours = (_summing(channels * SIDE) for channels in (1, 3))


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
