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
_FLOATS = {bits: number for number, bits in _BITS.items()}

intrinsic: Any = extending.intrinsic


def _element(kind: Any) -> Any:
    """Return the type of one of the numbers of a vector, or of the only one."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def _like(kind: Any, element: Any) -> Any:
    """Return the type of as many numbers of another kind."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


class Number:
    """A float or an integer of a formula, or a vector of them."""

    def __init__(self, builder: Any, value: Any, flags: set[str]) -> None:
        self.builder, self.value, self.flags = builder, value, flags

    def _with(self, value: Any) -> Number:
        return Number(self.builder, value, self.flags)

    def _join(self, name: str, other: Any, *, swap: bool = False) -> Number:
        y = other.value if isinstance(other, Number) else self.constant(other).value
        pair = (y, self.value) if swap else (self.value, y)
        if isinstance(_element(self.value.type), ir.IntType):
            return self._with(getattr(self.builder, name)(*pair))
        return self._with(getattr(self.builder, "f" + name)(*pair, flags=tuple(self.flags)))

    def constant(self, number: float) -> Number:
        """Return a number of the same type."""
        kind = self.value.type
        many = isinstance(kind, ir.VectorType)
        return self._with(kind([number] * kind.count if many else number))

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
        return (bits & ((1 << (_element(bits.value.type).width - 1)) - 1)).number()

    def bits(self) -> Number:
        """Return the bits of a float as an integer."""
        return self._cast(_BITS)

    def number(self) -> Number:
        """Return the float with these bits."""
        return self._cast(_FLOATS)

    def _cast(self, kinds: dict[Any, Any]) -> Number:
        kind = self.value.type
        return self._with(self.builder.bitcast(self.value, _like(kind, kinds[_element(kind)])))

    def widened(self) -> Number:
        """Return a float32 as float64."""
        kind = _like(self.value.type, ir.DoubleType())
        if kind == self.value.type:
            return self
        return self._with(self.builder.fpext(self.value, kind))

    def strict(self) -> Number:
        """Return the same number; sums that begin with it are not reordered."""
        return Number(self.builder, self.value, STRICT)

    def above(self, bound: float, then: Number, otherwise: Number) -> Number:
        """Return one of two numbers, the first where this one exceeds a bound."""
        exceeds = self.builder.fcmp_ordered(">", self.value, self.constant(bound).value)
        return self._with(self.builder.select(exceeds, then.value, otherwise.value))


class Numbers:
    """An array of a formula, row after row; nobody asks where it ends.

    An index stands for as many numbers from there on as a vector is wide.
    """

    def __init__(self, builder: Any, data: Any, flags: set[str], size: int, width: int = 1) -> None:
        self.builder, self.data, self.flags, self.size = builder, data, flags, size
        self.kind = ir.VectorType(data.type.pointee, width) if width > 1 else None

    def _at(self, index: Any) -> Any:
        place = index.value if isinstance(index, Number) else ir.IntType(64)(index)
        at = self.builder.gep(self.data, [place])
        return at if self.kind is None else self.builder.bitcast(at, self.kind.as_pointer())

    def __getitem__(self, index: Any) -> Number:
        loaded = self.builder.load(self._at(index), align=self.size)
        return Number(self.builder, loaded, self.flags)

    def __setitem__(self, index: Any, number: Number) -> None:
        self.builder.store(number.value, self._at(index), align=self.size)

    def fetch(self, index: Any) -> None:
        """Have a number in the cache soon."""
        prefetch(self.builder, self._at(index))


def prefetch(builder: Any, place: Any, *, to_write: bool = False) -> None:
    """Ask for the line of the cache at an address, and wait for nothing."""
    at, to_keep, of_data = builder.bitcast(place, ir.IntType(8).as_pointer()), 3, 1
    how = [ir.IntType(32)(int(n)) for n in (to_write, to_keep, of_data)]
    kind = ir.FunctionType(ir.VoidType(), [at.type, *(one.type for one in how)])
    builder.call(builder.module.declare_intrinsic("llvm.prefetch", [at.type], kind), [at, *how])


def repeated(count: Number, change: Callable[..., tuple[Any, ...]], *start: Number) -> list[Number]:
    """Return numbers after so many rounds of ``change``, which is given the round and the last."""
    builder, flags = count.builder, count.flags
    places = [cgutils.alloca_once_value(builder, one.value) for one in start]

    def last() -> list[Number]:
        return [Number(builder, builder.load(place), flags) for place in places]

    with cgutils.for_range(builder, count.value) as loop:
        changed = change(Number(builder, loop.index, flags), *last())
        for one, place in zip(changed, places, strict=True):
            builder.store(one.value, place)
    return last()


def formula(
    function: Callable[..., Any],
    outputs: int = 1,
    flags: set[str] = SUMS,
    real: Any = types.float64,
    width: int = 1,
) -> Any:
    """Return what compiled code calls for a function of numbers, tuples of floats, and arrays.

    The function returns nothing, one float, or a tuple of as many as there are ``outputs``. With a
    ``width`` it reads, computes and writes vectors of so many numbers, and returns nothing.
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
                    return Numbers(builder, data, flags, kind.dtype.bitwidth // 8, width)
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
