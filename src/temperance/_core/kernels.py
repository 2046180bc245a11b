"""The passes over rows: `kernels_numba` where Numba is installed, else `kernels_numpy`.

Both modules have the same functions. Callers write

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
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from temperance._core import kernels_numpy
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


def __getattr__(name: str) -> Any:
    """Choose a module when its first function is asked for; later calls find the function here."""
    if name not in kernels_numpy.__all__:
        raise AttributeError(name)
    choose()
    return globals()[name]


def choose() -> None:
    """Take all functions from the module that this process can use."""
    chosen = _backend()
    globals().update({name: getattr(chosen, name) for name in kernels_numpy.__all__})


def _backend() -> ModuleType:
    off = os.environ.get(SWITCH) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
    if off or find_spec("numba") is None:
        return kernels_numpy
    if not find_cache() and os.environ.get(SWITCH) != "1":
        warnings.warn(NO_CACHE, RuntimeWarning, stacklevel=4)
        return kernels_numpy
    try:
        from temperance._core import kernels_numba
    except ImportError:  # Numba is too old for this NumPy
        return kernels_numpy
    return kernels_numba
