"""The directory of compiled code, so that a machine compiles it once and not every process.

Numba keeps machine code beside the module, or in the cache of the user. A read-only installation
with a read-only home has neither; there the temporary directory serves, in a directory that only
this user can write, for what lies there is run.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PRIVATE_MODE = 0o700


def find_cache() -> bool:
    """Return whether Numba can keep what it compiles, after showing it a directory if needed.

    Call it before Numba is imported. The choice of a user, in ``NUMBA_CACHE_DIR``, stands.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return _can_write(Path(named))
    beside = Path(__file__).parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if _can_write(beside) or _can_write(home / "numba"):
        return True
    name = f"temperance-{os.getuid()}" if hasattr(os, "getuid") else "temperance"
    try:
        place = Path(tempfile.gettempdir()) / name
    except FileNotFoundError:  # no directory at all can be written
        return False
    if not _is_private(place):
        return False
    os.environ[VARIABLE] = str(place)
    if "numba" in sys.modules:  # Numba has read the variable already
        sys.modules["numba"].config.CACHE_DIR = str(place)
    return True


def _can_write(place: Path) -> bool:
    """Return whether files can be made in a directory, or the directory can be made."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _is_private(place: Path) -> bool:
    """Return whether a directory belongs to this user alone; make it where it is not there."""
    try:
        place.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        found = place.lstat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    closed = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and mine and closed and _can_write(place)
