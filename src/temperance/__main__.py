"""``python -m temperance``: the command line, for the interpreter that is asked."""

from __future__ import annotations

import sys

from temperance.cli import main

sys.exit(main())
