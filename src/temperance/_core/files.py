"""Checks of files: which can be read at once and in bounded memory, and how damage is reported.

A device never ends, and a pipe may never begin. Both are refused before a byte is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from temperance._core.checks import InputError, shown

PATIENT = 1 << 30  # bytes that a file may grow to without being asked why
EXPANSION = 100  # times its own size that a larger file may grow to; logits shrink 2 to 10 times
MAX_REASON = 160  # characters that are shown of the message of a decoder
FILE_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}


def check_regular(path: str | os.PathLike[str], name: str = "path") -> Path:
    """Return the path of a regular file; raise for what is not there, and for pipes and devices."""
    try:
        file = Path(path)
        kind = stat.S_IFMT(file.stat().st_mode)
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(path, name, error) from None
    if kind != stat.S_IFREG:
        raise InputError(
            f"{name} must name a file that can be read. Got {shown_path(path)}, which is "
            f"{FILE_KINDS.get(kind, 'no file')}; save what it holds to a file first."
        )
    return file


@contextmanager
def opened(path: str | os.PathLike[str], name: str = "path") -> Generator[IO[bytes]]:
    """Open a regular file for reading; never wait for a process that may write to it."""
    file = check_regular(path, name)
    try:
        at_once = getattr(os, "O_NONBLOCK", 0)
        with open(file, "rb", opener=lambda name, how: os.open(name, how | at_once)) as stream:
            yield stream
    except OSError as error:
        raise _unreadable(path, name, error) from None


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes."""
    with opened(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise InputError(
            f"the file {shown_path(path)} must have at most {limit >> 20} MB here. It has more, "
            f"too much for what it should hold."
        )
    return data


def check_expansion(expanded: int, stored: int, what: str) -> None:
    """Refuse a file that would fill the memory: one that grows as no file of logits does."""
    if expanded > PATIENT and expanded > EXPANSION * max(stored, 1):
        raise InputError(
            f"{what} must be a file of logits, but its {stored:,} bytes grow to {expanded:,}: it "
            f"is damaged or made to fill the memory. Save it again, uncompressed."
        )


@contextmanager
def decoding(name: str, form: str) -> Generator[None]:
    """Say in one sentence that a file is damaged, whatever its decoder raises.

    Only calls of a decoder belong inside: zipfile, zlib, ast, safetensors and pyarrow promise no
    list of exceptions for damaged data, and an error of this library must not look like one.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001
        reason = (str(error).strip().splitlines() or [""])[0]
        said = ascii_words(reason)[:MAX_REASON] or type(error).__name__
        raise InputError(f"{name} must be {form}, but it is damaged or none ({said}).") from None


def walked(path: Path) -> Generator[tuple[Path, list[str], list[str]]]:
    """Yield each directory below a path once, links followed, with its directories and files.

    Directories that the caller takes out of the list are passed over. A directory that cannot be
    read is an error: its rows would be missing in silence.
    """

    def refuse(error: OSError) -> None:
        raise InputError(
            f"a directory must be one that can be read. Got {shown_path(error.filename)}: "
            f"{error.strerror}."
        ) from None

    seen: set[str] = set()
    for folder, inner, names in os.walk(path, followlinks=True, onerror=refuse):
        real = os.path.realpath(folder)
        if real in seen:  # a link that leads back
            inner.clear()
        else:
            seen.add(real)
            yield Path(folder), inner, names


def shown_path(path: object) -> str:
    """Return a path in quotes, whatever its bytes are."""
    return ascii(str(path)) if isinstance(path, (str, Path)) else shown(path)


def ascii_words(text: str) -> str:
    """Return text without the bytes of a damaged file in it."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def _unreadable(path: object, name: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or ascii_words(str(error))
    return InputError(
        f"{name} must name a file that can be read. Got {shown_path(path)}: {reason}."
    )
