"""Arrays of every kind, read alike: NumPy, torch, any Array API library, data frames and lists.

Arithmetic on blocks is done in NumPy wherever the memory is the host's; an array that lives on a
device, or of a dtype that NumPy lacks (bfloat16), keeps its own namespace. The softmax of the
library is here too, for it takes them all.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import array_api_compat
import array_api_compat.numpy as _numpy_namespace
import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of any supported library: it has ``shape``, ``dtype`` and an Array API namespace."""

Floats = NDArray[np.float64]

NUMBERS = (list, tuple, int, float, memoryview)
"""Types of Python itself that hold numbers and that NumPy reads."""


def is_numpy(x: object) -> TypeGuard[NDArray[Any]]:
    """Return whether ``x`` is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_torch(x: object) -> bool:
    """Return whether ``x`` is a torch tensor, without importing torch."""
    return array_api_compat.is_torch_array(x)


def namespace(x: Array) -> Any:
    """Return the Array API namespace of ``x``."""
    return _numpy_namespace if is_numpy(x) else array_api_compat.array_namespace(x)


def _is_dense(tensor: Array) -> bool:
    """Return whether a torch tensor holds its numbers one by one."""
    # A subclass of another package may keep its numbers elsewhere than torch's own tensors do.
    meta = tensor.is_meta and type(tensor).__module__.startswith("torch")
    special = tensor.is_quantized or tensor.is_nested or str(tensor.layout) != "torch.strided"
    return not meta and not special


def as_array(values: object) -> Array | None:
    """Return an array of the kind of ``values``, NumPy for lists and frames; None for no array."""
    if is_numpy(values):  # np.matrix and memmap become plain views
        return None if np.ma.is_masked(values) else np.asarray(values)
    if isinstance(values, np.generic):
        return np.asarray(cast("Any", values))
    known = bool(array_api_compat.is_array_api_obj(values))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if known:
        return values if not is_torch(values) or _is_dense(values) else None
    to_numpy_method = getattr(values, "to_numpy", None)
    try:
        if callable(to_numpy_method):  # pandas, polars, pyarrow: without importing them
            return np.asarray(to_numpy_method())
        if hasattr(values, "__array__") or isinstance(values, NUMBERS):
            return np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return None
    return None


def as_floating(array: Array) -> Array | None:
    """Return ``array`` with a native floating dtype, or None when its numbers are not real.

    Floating dtypes are kept; integers, booleans and long doubles become float64.
    """
    if is_numpy(array):
        if array.dtype.kind == "O":
            try:
                real = all(isinstance(v, numbers.Real) for v in array.flat)
                return array.astype(np.float64) if real else None
            except OverflowError:  # an integer of more than 308 digits
                return None
        if array.dtype.kind not in "fiub":
            return None
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            return array.astype(np.float64)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if "float8" in str(array.dtype):  # no library computes with float8
        return array.float()
    xp = namespace(array)
    if xp.isdtype(array.dtype, "complex floating"):
        return None
    if not xp.isdtype(array.dtype, "real floating"):
        return xp.astype(array, xp.float64)
    return array


def as_numbers(values: object) -> Array | None:
    """Return ``values`` as a floating array of its own kind, or None when they are no numbers."""
    array = as_array(values)
    return None if array is None else as_floating(array)


def widened(x: Array) -> Array:
    """Return half-precision arrays as float32, others as they are."""
    xp = namespace(x)
    return xp.astype(x, xp.float32) if xp.finfo(x.dtype).bits < 32 else x


def to_numpy(x: Array) -> NDArray[Any]:
    """Return ``x`` as a NumPy array: a view where the memory allows, else a copy."""
    if is_numpy(x):
        return x
    if is_torch(x):
        t = x.detach().cpu()
        if str(t.dtype) == "torch.bfloat16":
            t = t.float()
        return t.numpy()
    if not hasattr(x, "__dlpack__"):  # Dask
        return np.asarray(x)
    try:
        return np.asarray(np.from_dlpack(x))
    except (BufferError, RuntimeError):  # the array is not in host memory
        return np.asarray(np.from_dlpack(array_api_compat.to_device(x, "cpu")))


def host_view(x: Array) -> Array:
    """Return ``x`` without its gradients: as NumPy where its memory is that of the host."""
    free = is_torch(x) and x.device.type == "cpu" and str(x.dtype) != "torch.bfloat16"
    return to_numpy(x) if free else detached(x)


def detached(x: Array) -> Array:
    """Return ``x`` without its gradient graph: a fit reads numbers."""
    return x.detach() if is_torch(x) else x


def like(values: NDArray[Any], x: Array) -> Array:
    """Return NumPy ``values`` as an array of the kind, dtype and device of ``x``."""
    return namespace(x).astype(beside(values, x), x.dtype, copy=False)


def beside(values: NDArray[Any], x: Array) -> Array:
    """Return NumPy ``values``, dtype kept, as an array of the kind and on the device of ``x``."""
    if is_numpy(x):
        return values
    if not values.flags.writeable:  # torch takes no read-only memory
        values = values.copy()
    device = array_api_compat.device(x)  # pyright: ignore[reportUnknownMemberType]
    return namespace(x).asarray(values, device=device)


def as_vector(names: Sequence[Any]) -> NDArray[Any]:
    """Return names as a vector: of objects where NumPy has no type that keeps them apart."""
    plain = np.asarray(list(names))
    if plain.ndim == 1 and list(plain.tolist()) == list(names):
        return plain
    mixed = np.empty(len(names), dtype=object)
    mixed[:] = list(names)
    return mixed


def softmax(logits: Array) -> Array:
    """Return the softmax over the last axis, of the kind, dtype and device of the input."""
    xp = namespace(logits)
    z = widened(logits)
    e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return xp.astype(e / xp.sum(e, axis=-1, keepdims=True), logits.dtype)


def softmax_at(z: NDArray[Any], temperature: float, bias: Floats | float = 0.0) -> Floats:
    """Return softmax(z / T + b) in float64."""
    p: Floats = np.multiply(z, 1 / temperature, dtype=np.float64)
    p += bias
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p
