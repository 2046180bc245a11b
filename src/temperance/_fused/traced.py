# pyright: basic
"""Formulas written straight into the instructions of LLVM.

What goes through Numba is typed and lowered step by step, milliseconds for each sum. A formula is a
Python function that is called once, while the code around it is compiled, with numbers that write
down what is done to them. That takes microseconds, and functions that NumPy runs are compiled as
they stand. Loops stay Numba's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

if TYPE_CHECKING:
    from collections.abc import Callable

# What LLVM may do to sums. Polynomials, and a rounding by adding a large number, must stay.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
STRICT = {"contract"}

_BITS = {ir.DoubleType(): ir.IntType(64), ir.FloatType(): ir.IntType(32)}
_FLOATS = {64: ir.DoubleType(), 32: ir.FloatType()}
_FOR_READING, _TO_KEEP, _DATA = (ir.IntType(32)(n) for n in (0, 3, 1))

intrinsic: Any = extending.intrinsic


class Number:
    """A float or an integer of a formula."""

    def __init__(self, builder: Any, value: Any, flags: set[str]) -> None:
        self.builder, self.value, self.flags = builder, value, flags

    def _with(self, value: Any) -> Number:
        return Number(self.builder, value, self.flags)

    def _join(self, name: str, other: Any, *, swap: bool = False) -> Number:
        y = other.value if isinstance(other, Number) else self.value.type(other)
        pair = (y, self.value) if swap else (self.value, y)
        if isinstance(self.value.type, ir.IntType):
            return self._with(getattr(self.builder, name)(*pair))
        return self._with(getattr(self.builder, "f" + name)(*pair, flags=tuple(self.flags)))

    def __add__(self, other: Any) -> Number:
        return self._join("add", other)

    def __sub__(self, other: Any) -> Number:
        return self._join("sub", other)

    def __rsub__(self, other: Any) -> Number:
        return self._join("sub", other, swap=True)

    def __mul__(self, other: Any) -> Number:
        return self._join("mul", other)

    def __truediv__(self, other: Any) -> Number:
        return self._join("div", other)

    def __rtruediv__(self, other: Any) -> Number:
        return self._join("div", other, swap=True)

    __radd__, __rmul__ = __add__, __mul__

    def __lshift__(self, count: int) -> Number:
        return self._join("shl", count)

    def __rshift__(self, count: int) -> Number:
        return self._join("lshr", count)

    def __and__(self, mask: int) -> Number:
        return self._join("and_", mask)

    def __or__(self, mask: int) -> Number:
        return self._join("or_", mask)

    def __abs__(self) -> Number:
        bits = self.bits()
        return (bits & ((1 << (bits.value.type.width - 1)) - 1)).number()

    def bits(self) -> Number:
        """Return the bits of a float as an integer."""
        return self._with(self.builder.bitcast(self.value, _BITS[self.value.type]))

    def number(self) -> Number:
        """Return the float with these bits."""
        return self._with(self.builder.bitcast(self.value, _FLOATS[self.value.type.width]))

    def strict(self) -> Number:
        """Return the same number; sums that begin with it are not reordered."""
        return Number(self.builder, self.value, STRICT)

    def above(self, bound: float, then: Number, otherwise: Number) -> Number:
        """Return one of two numbers, the first where this one exceeds a bound."""
        exceeds = self.builder.fcmp_ordered(">", self.value, self.value.type(bound))
        return self._with(self.builder.select(exceeds, then.value, otherwise.value))


class Numbers:
    """An array of a formula, of one dimension; nobody asks where it ends."""

    def __init__(self, builder: Any, data: Any, flags: set[str]) -> None:
        self.builder, self.data, self.flags = builder, data, flags

    def _at(self, index: Any) -> Any:
        place = index.value if isinstance(index, Number) else ir.IntType(64)(index)
        return self.builder.gep(self.data, [place])

    def __getitem__(self, index: Any) -> Number:
        return Number(self.builder, self.builder.load(self._at(index)), self.flags)

    def __setitem__(self, index: Any, number: Number) -> None:
        self.builder.store(number.value, self._at(index))

    def fetch(self, index: Any) -> None:
        """Ask for the line of the cache that holds a number, and wait for nothing."""
        place = self.builder.bitcast(self._at(index), ir.IntType(8).as_pointer())
        how = _FOR_READING, _TO_KEEP, _DATA
        kind = ir.FunctionType(ir.VoidType(), [place.type, *(one.type for one in how)])
        name = self.builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        self.builder.call(name, [place, *how])


def formula(
    function: Callable[..., Any],
    outputs: int = 1,
    flags: set[str] = SUMS,
    real: Any = types.float64,
) -> Any:
    """Return what compiled code calls for a function of numbers, tuples of floats, and arrays.

    The function returns nothing, one float, or a tuple of as many as there are ``outputs``.
    """
    returned = {0: types.void, 1: real}.get(outputs, types.UniTuple(real, outputs))

    def kind_of(given: Any) -> Any:
        if isinstance(given, (types.Array, types.UniTuple)):
            return given
        return types.uint64 if isinstance(given, types.Integer) else real

    @intrinsic
    def traced(_: Any, *given: Any) -> Any:
        kinds = tuple(map(kind_of, given))

        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            def read(kind: Any, value: Any) -> Any:
                if isinstance(kind, types.Array):
                    data = context.make_array(kind)(context, builder, value).data
                    return Numbers(builder, data, flags)
                if isinstance(kind, types.UniTuple):
                    parts = cgutils.unpack_tuple(builder, value)
                    return tuple(Number(builder, part, flags) for part in parts)
                return Number(builder, value, flags)

            out = function(*map(read, kinds, cgutils.unpack_tuple(builder, args[0])))
            if outputs > 1:
                return context.make_tuple(builder, returned, [one.value for one in out])
            return out.value if outputs else context.get_dummy_value()

        return returned(types.Tuple(kinds)), generate

    return traced
