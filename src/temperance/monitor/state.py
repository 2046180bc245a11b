"""The file of a monitor: one record a line, each with its checksum, only ever appended.

A line is ``{"sha256":"0123456789abcdef","record":{...}}``; the checksum is that of the bytes of the
record. The first record holds the settings and the source. A writer holds a lock on the file while
it appends what is missing and flushes it to the disk: two writers leave the records of both. A
process that is killed leaves at most one incomplete line, the last one, which the next reader
leaves out and the next writer cuts off. A new file is for its owner alone: it holds labelled rows.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from temperance._core.checks import InputError, shown
from temperance._core.files import opened, shown_path
from temperance.io.atomic import PRIVATE, check_target, flush_directory
from temperance.io.strict_json import parse

try:
    import fcntl
except ImportError:  # Windows has no such locks: let one process write at a time there
    fcntl = None

Record = dict[str, Any]
Records = dict[str, Record]

STATE_FORMAT, STATE_VERSION = "temperance-monitor", 1
HEAD, MIDDLE = b'{"sha256":"', b'","record":'
CHECKSUM_DIGITS = 16  # of the checksum
LONGEST = 128 << 20  # bytes of a line; the first one holds the source, 16 MB of it
PATIENCE = 60.0  # seconds; a writer holds the lock while it appends some lines
SIGNIFICANT = 5  # digits of a number in a record


def digest(record: Record) -> str:
    """Return the checksum under which a record is known."""
    return hashlib.sha256(_text(record)).hexdigest()[:CHECKSUM_DIGITS]


def _text(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def rounded(value: Any) -> Any:
    """Return facts with five significant digits, as a file keeps them."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT}g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def moment(at: object) -> str:
    """Return a date, or a date and time, in ISO 8601."""
    try:
        given: Any = at
        text = given.isoformat() if hasattr(given, "isoformat") else str(given)
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        msg = f"at must be a date, or a date and time, such as '2026-11-16'. Got {shown(at)}."
        raise InputError(msg) from None
    only_date = len(text) <= len("2026-W47-1") and parsed.time() == dt.time()
    return parsed.date().isoformat() if only_date else parsed.isoformat(timespec="seconds")


def instant(at: str) -> dt.datetime:
    """Return a moment as a point in time; without a zone it is UTC."""
    parsed = dt.datetime.fromisoformat(at)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


def place_of(record: Record) -> tuple[dt.datetime, str]:
    """Return where a window stands among all."""
    return instant(record["at"]), str(record["id"])


def read(path: str | os.PathLike[str]) -> Records:
    """Return the records of a file, by checksum and in their order; say if the last is torn."""
    with opened(path) as file:
        _lock(file, path, exclusive=False)  # so that no writer is in the middle of a line
        records, good = _decode(file, path)
    if good is not None:
        warnings.warn(
            f"the last line of {shown_path(path)} is not complete, because its writer was stopped: "
            "it is left out. Add that window again.",
            stacklevel=3,
        )
    return records


def write(path: str | os.PathLike[str], records: Records) -> None:
    """Append the records that a file lacks; create the file where there is none."""
    first = next(iter(records))
    target = check_target(path)
    with _locked(target) as file:
        held, good = _decode(file, path)
        if held and next(iter(held)) != first:
            raise InputError(
                f"path must be a new file, or the state of the same monitor. Got "
                f"{shown_path(path)}, which has another source or other settings. Write elsewhere."
            )
        if good is not None:
            file.truncate(good)
        file.seek(0, os.SEEK_END)
        for key, record in records.items():
            if key not in held:
                file.write(HEAD + digest(record).encode() + MIDDLE + _text(record) + b"}\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _locked(target: Path) -> Generator[IO[bytes]]:
    """Open a file for appending, for one writer at a time."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(target, flags, PRIVATE), "r+b") as file:
        _lock(file, target, exclusive=True)
        yield file
    flush_directory(target.parent)  # the name of a new file


def _lock(file: IO[bytes], path: object, *, exclusive: bool) -> None:
    """Wait for the lock of a file until it ends with its block; not for ever."""
    if fcntl is None:
        return
    how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                msg = f"path must be a file that is free. Got {shown_path(path)}, which another"
                raise InputError(f"{msg} process has held for {PATIENCE:g} seconds.") from None
            time.sleep(0.02)
        else:
            return


def _decode(file: IO[bytes], path: object) -> tuple[Records, int | None]:
    """Return the records, and where the last line begins if it is torn."""
    records: Records = {}
    start = number = 0
    while line := file.readline(LONGEST):
        number += 1
        body, end, _ = line.partition(b"\n")
        record = _record(body) if end else None
        if record is None:
            last = len(line) < LONGEST and not file.read(1)
            if last and _may_be_torn(body):
                return records, start
            if not end:
                raise InputError(f"path must be the state of a monitor. Got {shown_path(path)}.")
            raise InputError(
                f"path must be the state of a monitor. Line {number} of {shown_path(path)} does not"
                " match its own checksum: the file was damaged or edited, or is none of ours."
            )
        if not records:
            _check_version(record, path)
        records[digest(record)] = record
        start += len(line)
    return records, None


def _may_be_torn(line: bytes) -> bool:
    """Return whether a line may be the beginning of one of ours, and not the text of others."""
    written = line.rstrip(b"\0")  # a file system may have lengthened the file before it wrote
    return written[: len(HEAD)] == HEAD[: len(written)]


def _record(line: bytes) -> Record | None:
    """Return the record of a line, or None for a line that is damaged."""
    begin = len(HEAD) + CHECKSUM_DIGITS + len(MIDDLE)
    body = line[begin:-1]
    whole = line.startswith(HEAD) and line[begin - len(MIDDLE) : begin] == MIDDLE
    if not (whole and hashlib.sha256(body).hexdigest()[:CHECKSUM_DIGITS].encode() == line[11:27]):
        return None
    try:
        record = parse(body)
    except InputError:  # a checksum that somebody computed anew
        return None
    return record if isinstance(record, dict) else None


def _check_version(record: Record, path: object) -> None:
    if record.get("format") != STATE_FORMAT or not isinstance(record.get("version"), int):
        raise InputError(f"path must be the state of a monitor. Got {shown_path(path)}.")
    if record["version"] > STATE_VERSION:
        raise InputError(
            f"path must be a state of format {STATE_VERSION} or older. {shown_path(path)} has "
            f"format {record['version']}: update temperance."
        )
