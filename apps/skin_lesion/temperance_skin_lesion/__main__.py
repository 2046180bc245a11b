"""Run the command as ``python -m temperance_skin_lesion``."""

from __future__ import annotations

import sys

from temperance_skin_lesion.cli import main

sys.exit(main())
