"""The passes over rows: `kernels_numba` where Numba is installed, else `kernels_numpy`.

Both modules have the same functions. Callers write

    from temperance._core import kernels

    kernels.temperature_moments(logits, labels, weight, beta)

and never ask which module answers. The choice is made at the first call, so that
``import temperance`` does not import Numba. ``TEMPERANCE_NUMBA=0`` chooses NumPy, and so does
Numba's own ``NUMBA_DISABLE_JIT=1``. Where no directory can be written to keep compiled code in,
every process would compile for half a minute: NumPy answers there too, and a warning says so once.

How to add a kernel: write it in `kernels_numpy`, where it is the definition; write the compiled
twin in `kernels_numba`, with bounded loops only; name it in ``__all__`` of `kernels_numpy`. The
fuzz test in tests/_core/test_kernel_fuzz.py then compares the two.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from temperance._core.compiled_cache import find_cache

if TYPE_CHECKING:
    from types import ModuleType

    from temperance._core.kernels_numpy import *  # noqa: F403

SWITCH = "TEMPERANCE_NUMBA"
NO_CACHE = (
    "no directory can be written to keep compiled code in, so NumPy computes, which is slower on "
    "many rows. Set NUMBA_CACHE_DIR to a directory that this user can write, or TEMPERANCE_NUMBA=1 "
    "to compile in every process."
)


@cache
def backend() -> ModuleType:
    """Return the module that answers, chosen once for the process."""
    from temperance._core import kernels_numpy

    if os.environ.get(SWITCH) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return kernels_numpy
    if find_spec("numba") is None:
        return kernels_numpy
    if not find_cache() and os.environ.get(SWITCH) != "1":
        warnings.warn(NO_CACHE, RuntimeWarning, stacklevel=3)
        return kernels_numpy
    try:
        from temperance._core import kernels_numba
    except ImportError:  # Numba is too old for this NumPy
        return kernels_numpy
    return kernels_numba


def __getattr__(name: str) -> Any:
    """Return a function of the chosen module."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(backend(), name)
