"""The command ``temperance`` (extra: ``cli``): one command, one call of the library.

Results go to stdout, as tables or, with ``--json``, as JSON alone; everything else goes to stderr.
Exit codes: 0 done; 1 refused, or a gate failed; 2 bad usage or bad input; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from temperance._core.checks import InputError, NotIdentified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import App

__all__ = ["main", "run_app"]

DONE, REFUSED, BAD, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        from temperance.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"cyclopts", "rich"}:
            raise
        return _complain("the command line needs more packages: pip install temperance[cli].", BAD)
    return run_app(app, arguments)


def run_app(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run one command of an application and return its exit code."""
    from cyclopts import CycloptsError

    from temperance.cli.output import plain_help

    app.help_formatter = None if sys.stdout.isatty() else plain_help()
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join([app.name[0], *(error.command_chain or ())])
        return _complain(f"{error} See {command} --help.", BAD)
    except InputError as error:
        return _complain(str(error), BAD)
    except NotIdentified as error:
        return _complain(f"refused: {error}", REFUSED)
    except MemoryError:
        return _complain("the memory is too small for this file: give fewer rows.", BAD)
    except KeyboardInterrupt:
        return _complain("interrupted; no file was changed.", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _complain(f"{error.filename or 'a file'}: {error.strerror}.", BAD)
    return code if isinstance(code, int) else DONE


def _complain(sentence: str, code: int) -> int:
    print(f"temperance: {sentence}", file=sys.stderr)  # noqa: T201
    return code
