"""Other libraries: scikit-learn, PyTorch, and a check for calibrators of others."""

from __future__ import annotations
