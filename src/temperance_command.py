"""Start of the command ``temperance``.

Loading the library takes half a second. This module loads nothing, so that Ctrl-C in that half
second ends in one line as it does later; no file is open yet, and the process may end at once.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Load the command line and run one command."""
    guarded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else others decide
    if guarded:
        signal.signal(signal.SIGINT, _end)
    from temperance.cli import main as run

    if guarded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _end(_: int, __: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"temperance: interrupted; no file was changed.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
