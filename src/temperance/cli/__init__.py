"""The command ``temperance`` (extra: ``cli``): one command, one call of the library.

Results go to stdout, as tables or, with ``--json``, as JSON alone; everything else goes to stderr.
Exit codes: 0 done; 1 refused, or a gate missed; 2 bad usage or bad input; 70 a defect of this
program; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from temperance._core.checks import InputError, NotIdentified
from temperance.cli.output import plain_help
from temperance.cli.wording import in_options, usage_error
from temperance.report.texts import cut

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["main", "run_app"]

DONE, REFUSED, BAD, DEFECT, INTERRUPTED, UNREAD = 0, 1, 2, 70, 130, 141
DEBUG = "--debug"
SENTENCE = 900  # characters of a message: a name of a damaged file may be as long as the file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""

    def load() -> App:
        from temperance.cli.app import app

        return app

    return _run(load, arguments)


def run_app(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run one command of an application and return its exit code."""
    return _run(lambda: app, arguments)


def _run(load: Callable[[], App], arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    given = [argument for argument in given if argument != DEBUG]
    _open_streams()
    stream: Any = sys.stdout
    if hasattr(stream, "reconfigure"):  # a class or file name that its encoding lacks is escaped
        stream.reconfigure(errors="backslashreplace")
    try:
        return _called(load, given)
    except BaseException as error:  # noqa: BLE001 - each kind has its exit code
        if debug and not isinstance(error, SystemExit):
            traceback.print_exc()
        return _code_of(error)


def _open_streams() -> None:
    """Give a process without standard streams empty ones: a file would be opened in their place."""
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))  # noqa: PTH123, SIM115


def _called(load: Callable[[], App], arguments: list[str]) -> int:
    try:
        app = load()
        from cyclopts import CycloptsError
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"cyclopts", "rich"}:
            raise
        return _complain("the command line needs more packages: pip install temperance[cli].", BAD)
    app.help_formatter = None if sys.stdout.isatty() else plain_help()
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = " ".join([app.name[0], *(error.command_chain or ())])
        return _complain(f"{usage_error(error)} See {command} --help.", BAD)
    sys.stdout.flush()
    return code if isinstance(code, int) else DONE


def _code_of(error: BaseException) -> int:
    """Say in one sentence why a command ended early, and return its exit code."""
    if isinstance(error, InputError):
        return _complain(in_options(str(error)), BAD)
    if isinstance(error, NotIdentified):
        return _complain(f"refused: {in_options(str(error))}", REFUSED)
    if isinstance(error, MemoryError):
        return _complain("the memory is too small for this file: give fewer rows.", BAD)
    if isinstance(error, KeyboardInterrupt):
        return _complain("interrupted; no file was changed.", INTERRUPTED)
    if isinstance(error, OSError) and error.filename is None:
        # What could not be written goes: the end of the process would fail with it once more.
        with suppress(OSError, ValueError):  # a stream of a test has no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader of the output has seen enough
        return UNREAD  # as a shell says it: 0 would pass a gate that was missed
    if isinstance(error, OSError) and error.strerror is not None:  # of the machine, not of ours
        name = "the output" if error.filename is None else ascii(os.fsdecode(error.filename))
        return _complain(f"{name}: {error.strerror}.", BAD)
    if isinstance(error, SystemExit):
        raise error
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    named = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return _complain(
        f"a defect of temperance, not of your files ({named}). Please report the command and what "
        f"it prints with {DEBUG} at the project's issue tracker.",
        DEFECT,
    )


def _complain(sentence: str, code: int) -> int:
    with suppress(OSError):  # a full disk behind stderr leaves the exit code
        print(f"temperance: {cut(sentence, SENTENCE)}", file=sys.stderr)  # noqa: T201
    return code
