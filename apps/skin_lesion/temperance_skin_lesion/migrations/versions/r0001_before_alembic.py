"""The record before Alembic: cases, maps, policies and surveys. Records are stamped, not made."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: a record of this revision exists already."""
