"""CIFAR's python batches, which are pickles, read without running them.

A pickle calls whatever functions it names. The reader below knows the few names that a dictionary
of lists, strings and arrays needs, and answers each with a stand-in that only remembers its
arguments: no function of NumPy, or of anything else, can be reached from the file. The arrays are
built afterwards, from their bytes, type and shape, when these agree.
"""

from __future__ import annotations

import io
import math
import pickle  # noqa: TID251 - read through _Reader, which reaches no code
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_batch"]

TYPES = {"u1": np.uint8, "i4": np.int32, "i8": np.int64}


class _Type:
    """Stands in for ``numpy.dtype``."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name
        self.big_endian = False

    def __setstate__(self, state: Any) -> None:
        self.big_endian = state[1] in {">", b">"}


class _Array:
    """Stands in for ``numpy.ndarray``."""

    def __init__(self, *_: Any) -> None:
        self.shape: Any = None
        self.type: Any = None
        self.fortran: Any = False
        self.raw: Any = b""

    def __setstate__(self, state: Any) -> None:
        _version, self.shape, self.type, self.fortran, self.raw = state

    def build(self) -> NDArray[Any]:
        """Make the array of what is known, or refuse."""
        name = getattr(self.type, "name", None)
        if (
            name not in TYPES
            or self.type.big_endian
            or self.fortran
            or not isinstance(self.raw, (bytes, bytearray))
            or not isinstance(self.shape, tuple)
            or not all(isinstance(side, int) and side >= 0 for side in self.shape)
            or math.prod(self.shape) * np.dtype(TYPES[name]).itemsize != len(self.raw)
        ):
            msg = f"an array of type {name!r} and shape {self.shape!r}"
            raise pickle.UnpicklingError(msg)
        return np.frombuffer(self.raw, TYPES[name]).reshape(self.shape)


def _from_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """Stand in for the way in which protocol 5 writes an array."""
    array = _Array()
    array.shape, array.type, array.fortran, array.raw = shape, dtype, order != "C", raw
    return array


def _encode(text: str, _codec: str) -> bytes:
    """Stand in for the way in which Python 3 writes bytes at protocol 2."""
    return text.encode("latin1")


KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in KNOWN:
            msg = f"the name {module_name}.{global_name}, which no batch needs"
            raise pickle.UnpicklingError(msg)
        return KNOWN[module_name, global_name]


def read_batch(content: bytes, name: str) -> dict[str, Any]:
    """Return the dictionary of a batch, its keys as text and its arrays as arrays."""
    try:
        batch = _Reader(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(batch, dict):
            msg = f"no dictionary but a {type(batch).__name__}"
            raise pickle.UnpicklingError(msg)  # noqa: TRY301 - told like what the reader refuses
        return {
            key.decode("latin1") if isinstance(key, bytes) else str(key): (
                value.build() if isinstance(value, _Array) else value
            )
            for key, value in batch.items()
        }
    except Exception as error:  # a broken pickle raises nearly anything
        msg = f"{name} must be a CIFAR batch. It holds {error}; it is broken or hostile."
        raise InputError(msg) from error
