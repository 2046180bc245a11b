"""The one way in which this library writes a file: whole or not at all.

`replacing` opens a temporary file beside the final place, flushes it to the disk and renames it.
The file that is replaced lends its mode and its owner. A temporary file that a killed process left
behind is removed by the next write to the same name: a live writer holds a lock on its temporary
file, and a lock ends with its process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from temperance._core.checks import InputError
from temperance._core.files import shown_path

try:
    import fcntl
except ImportError:  # Windows has no such locks; temporary files stay there after a kill
    fcntl = None

from collections.abc import Generator

__all__ = ["check_target", "flush_directory", "replacing", "write_bytes"]

NEW, PRIVATE = 0o666, 0o600  # modes of new files, before the umask
NAME = 40  # characters of the final name inside the temporary one, for people who list files


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, links followed; raise unless a regular file can lie there."""
    try:
        target = Path(os.path.realpath(path))
        free = not target.exists() and not target.is_symlink()  # a loop of links is neither
        good = target.parent.is_dir() and (free or target.is_file())
    except (OSError, ValueError, TypeError):  # a name with a NUL, a loop of links, no name at all
        good, target = False, Path()
    if not good:
        msg = f"the output must be a file in a directory that exists. Got {shown_path(path)}."
        raise InputError(msg)
    return target


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Generator[IO[bytes]]:
    """Open a temporary file for writing, and give it the name ``path`` once it is complete.

    Whatever ends the block early, an error or Ctrl-C, leaves the old file and nothing new. A link
    is followed: the file that it names is replaced. A file that is replaced keeps its mode and,
    where the system allows it, its owner; a new file that is ``private`` has mode 0600.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.bin"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    target = check_target(path)
    prefix = _prefix(target.name)
    _remove_abandoned(target.parent, prefix)
    old = target.stat() if target.exists() else None
    mode = stat.S_IMODE(old.st_mode) if old else PRIVATE if private else NEW
    try:
        temporary, file = _create(target.parent, prefix, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with file:
            yield file
            file.flush()
            if old is not None:
                _keep_owner(file.fileno(), old)
                temporary.chmod(mode)
            os.fsync(file.fileno())
            if os.name == "posix":  # while the lock is held
                temporary.replace(target)
        if os.name != "posix":
            temporary.replace(target)
        flush_directory(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename is None:  # a full disk names no file
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: str | os.PathLike[str], data: bytes, *, private: bool = False) -> None:
    """Write a file whole or not at all; see `replacing`."""
    with replacing(path, private=private) as file:
        file.write(data)


def _prefix(name: str) -> str:
    """Return how the temporary files of a name begin: short, and of no other name."""
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    readable = "".join(c for c in name[:NAME] if c.isascii() and c.isprintable())
    return f".{readable}.{digest}."


def _create(directory: Path, prefix: str, mode: int) -> tuple[Path, IO[bytes]]:
    """Create a temporary file that no other process takes for an abandoned one."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        path = directory / f"{prefix}{secrets.token_hex(8)}.tmp"
        file = os.fdopen(os.open(path, flags, mode), "w+b")
        _lock(file.fileno(), wait=True)  # for a writer that is about to remove it as abandoned
        if path.exists():
            return path, file
        file.close()


def _lock(descriptor: int, *, wait: bool = False) -> bool:
    """Return whether a lock on a file was got, which ends with the process at the latest."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by a live writer, or a file system without locks
        return False
    return True


def _remove_abandoned(directory: Path, prefix: str) -> None:
    """Remove the temporary files of a name whose writers are dead."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(directory) as entries:  # a directory may not be readable
        left = [Path(e) for e in entries if e.name.startswith(prefix) and e.name.endswith(".tmp")]
        for path in left:
            with suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(descriptor):
                        path.unlink()
                finally:
                    os.close(descriptor)


def _keep_owner(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner and the group of another; only the superuser may always do so."""
    if not hasattr(os, "fchown"):
        return
    for owner, group in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
        try:
            os.fchown(descriptor, owner, group)
        except PermissionError:
            continue
        return


def flush_directory(directory: Path) -> None:
    """Let the new name reach the disk too, where a directory can be opened."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:  # a directory that may be written but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot flush a directory
            raise
    finally:
        os.close(descriptor)
