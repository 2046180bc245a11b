"""Files: the artefact, tables of logits, the one atomic write."""

from __future__ import annotations
