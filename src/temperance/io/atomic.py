"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temperance._core.checks import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, links followed; raise unless its directory exists."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir() or target.is_dir():
        msg = f"the output must be a file in a directory that exists. Got {os.fspath(path)!r}."
        raise InputError(msg)
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a file beside ``path`` for writing, and put it there once it is complete.

    Whatever ends the block early, an error or Ctrl-C, leaves the old file and nothing new.
    """
    target = check_target(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
