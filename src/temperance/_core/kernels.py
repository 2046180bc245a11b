"""The passes over rows: `kernels_numba` where Numba is installed, else `kernels_numpy`.

Both modules have the same functions. Callers write

    from temperance._core import kernels

    kernels.temperature_moments(logits, labels, weight, beta)

and never ask which module answers. The choice is made at the first call, so that
``import temperance`` does not import Numba. ``TEMPERANCE_NUMBA=0`` chooses NumPy, and so does
Numba's own ``NUMBA_DISABLE_JIT=1``, under which compiled functions would run a thousand times
slower than NumPy.

How to add a kernel: write it in `kernels_numpy`, where it is the definition; write the compiled
twin in `kernels_numba`, with bounded loops only; name it in ``__all__`` of `kernels_numpy`. The
fuzz test in tests/_core/test_kernel_fuzz.py then compares the two.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from temperance._core.kernels_numpy import *  # noqa: F403

SWITCH = "TEMPERANCE_NUMBA"


@cache
def backend() -> ModuleType:
    """Return the module that answers, chosen once for the process."""
    from temperance._core import kernels_numpy

    if os.environ.get(SWITCH) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return kernels_numpy
    try:
        from temperance._core import kernels_numba
    except ImportError:  # Numba is not installed, or too old for this NumPy
        return kernels_numpy
    return kernels_numba


def __getattr__(name: str) -> Any:
    """Return a function of the chosen module."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(backend(), name)
